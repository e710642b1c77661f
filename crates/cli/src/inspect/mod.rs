//! `headwater inspect`: what happened in a session, and how long it took.

mod print;
mod timeline;

use clap::Args as ClapArgs;
use log::{Freshness, Log, ReadError};
use sessions::SessionId;
use state::{Place, Places};
use sys::Sys;
use wire::{Address, Position, ReadFrom, caps::CHUNK_BYTES_DEFAULT};

use self::timeline::Timeline;
use crate::{
    failure::Failure,
    output, serve,
    stream::{Needs, PlaceArgs, Target},
};

#[derive(Debug, ClapArgs)]
pub(crate) struct InspectArgs {
    /// The session, as its page's address ends
    #[arg(value_name = "SESSION")]
    session: SessionId,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: PlaceArgs,
}

/// Reads all of a session and tells what it says.
pub(crate) fn run(args: InspectArgs) -> Result<(), Failure> {
    let InspectArgs { session, json, place } = args;
    serve::runtime()?.block_on(async {
        let sys = Sys::real();
        let target = Target::open(&sys, place, Needs::Data).await?;
        let log = target.log(&sys).await?;
        let timeline = read(&*log, &session).await;
        target.close().await;
        let timeline = timeline?;
        if json { output::json(&timeline) } else { print::show(&session, &timeline) }
    })
}

async fn read(log: &dyn Log, session: &SessionId) -> Result<Timeline, Failure> {
    let address = Address::from(session.path().clone());
    let (mut timeline, mut places) = (Timeline::default(), Places::default());
    let mut from = ReadFrom::Start;
    loop {
        let chunk = log.read(&address, from, CHUNK_BYTES_DEFAULT).await;
        let chunk = chunk.map_err(|error| match error {
            ReadError::NotFound(_) => Failure::refused(format!(
                "there is no session {session} here; `headwater stream list` names those there are"
            )),
            error => Failure::about(format!("session {session}"), error),
        })?;
        for (lies, message) in (chunk.start.position.get()..).zip(chunk.messages()) {
            let event = state::decode(message);
            if let Place::At(_) | Place::Row(_) = places.place(Position::new(lies), &event) {
                timeline.take(event.body);
            }
        }
        if chunk.freshness != Freshness::Behind {
            return Ok(timeline);
        }
        from = ReadFrom::At(chunk.next);
    }
}
