//! `headwater inspect`: what happened in a session, and how long it took.

mod print;
mod timeline;

use clap::Args as ClapArgs;
use log::{Freshness, Log, ReadError};
use sessions::SessionId;
use state::{Place, Places};
use sys::Sys;
use wire::{Address, Position, ReadFrom, caps::CHUNK_BYTES_DEFAULT};

use self::timeline::{Fold, Newest, Timeline};
use crate::{
    failure::Failure,
    output, serve,
    session::{WINDOW_BYTES_MAX, Window},
    stream::{Needs, PlaceArgs, Target},
};

#[derive(Debug, ClapArgs)]
pub(crate) struct InspectArgs {
    /// The session, as its page's address ends
    #[arg(value_name = "SESSION")]
    session: SessionId,

    /// Tell of the newest generations only, so many
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "all",
          value_parser = clap::value_parser!(u32).range(1..))]
    last: u32,

    /// Read all of the session, and tell of all of it
    #[arg(long)]
    all: bool,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: PlaceArgs,
}

/// Reads the end of a session, or all of it, and tells what it says.
pub(crate) fn run(args: InspectArgs) -> Result<(), Failure> {
    let InspectArgs { session, last, all, json, place } = args;
    serve::runtime()?.block_on(async {
        let sys = Sys::real();
        let target = Target::open(&sys, place, Needs::Data).await?;
        let log = target.log(&sys).await?;
        let address = Address::from(session.path().clone());
        let timeline = match all {
            true => read_all(&*log, &address).await,
            false => read_newest(&*log, &address, last as usize).await,
        };
        target.close().await;
        let timeline = timeline.map_err(|error| match error {
            ReadError::NotFound(_) => Failure::refused(format!(
                "there is no session {session} here; `headwater stream list` names those there are"
            )),
            error => Failure::about(format!("session {session}"), error),
        })?;
        if json { output::json(&timeline) } else { print::show(&session, &timeline) }
    })
}

/// Reads backwards until it knows the newest generations from their beginnings on.
async fn read_newest(
    log: &dyn Log,
    address: &Address,
    count: usize,
) -> Result<Timeline, ReadError> {
    if !log.capabilities().read_back {
        return read_all(log, address).await;
    }
    let mut window = Window::open(log, address).await?;
    loop {
        let mut fold = Fold::default();
        let entries = window.entries();
        let newest = Newest { count, from: entries.first().map_or(0, |entry| entry.stands) };
        for entry in entries {
            fold.take(entry.stands, entry.made, &entry.body);
        }
        if window.is_whole() && fold.generations() <= count {
            return Ok(fold.whole());
        }
        if fold.has(newest) || window.is_whole() || window.bytes() >= WINDOW_BYTES_MAX {
            return Ok(fold.newest(newest));
        }
        window.widen(log, address).await?;
    }
}

async fn read_all(log: &dyn Log, address: &Address) -> Result<Timeline, ReadError> {
    let (mut fold, mut places) = (Fold::default(), Places::default());
    let mut from = ReadFrom::Start;
    loop {
        let chunk = log.read(address, from, CHUNK_BYTES_DEFAULT).await?;
        for (lies, message) in (chunk.start.position.get()..).zip(chunk.messages()) {
            let event = state::decode(message);
            if let Place::At(stands) | Place::Row(stands) =
                places.place(Position::new(lies), &event)
            {
                let made = event.headers.inserted.unwrap_or(stands);
                fold.take(stands.get(), Some(made.get()), &event.body);
            }
        }
        if chunk.freshness != Freshness::Behind {
            return Ok(fold.whole());
        }
        from = ReadFrom::At(chunk.next);
    }
}
