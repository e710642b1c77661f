//! `headwater chat`: a session in the terminal.

mod desk;
mod keyboard;
mod screen;
mod talk;

use clap::Args as ClapArgs;
use log::{Freshness, Log};
use sessions::SessionId;
use sys::Sys;
use wire::{Address, Offset, ReadFrom, caps::CHUNK_BYTES_DEFAULT};

use self::{
    desk::Desk,
    keyboard::{Interrupts, Keyboard, Typed},
    screen::Screen,
    talk::Talk,
};
use crate::{
    failure::Failure,
    output, serve,
    stream::{Needs, PlaceArgs, Target},
};

#[derive(Debug, ClapArgs)]
pub(crate) struct ChatArgs {
    /// The session; a new one if it is not given
    #[arg(value_name = "SESSION")]
    session: Option<SessionId>,

    /// Who answers, as for `headwater dev`; not with --url, where the server's agent does
    #[arg(long, value_name = "MODEL", env = "HEADWATER_MODEL", hide_env_values = true)]
    model: Option<String>,

    #[command(flatten)]
    place: PlaceArgs,
}

/// Talks until the input ends, or Ctrl-C is pressed twice.
pub(crate) fn run(args: ChatArgs) -> Result<(), Failure> {
    serve::runtime()?.block_on(async {
        let sys = Sys::real();
        let session = args.session.unwrap_or_else(|| SessionId::draw(&sys.chance));
        let target = Target::open(&sys, args.place, Needs::Nothing).await?;
        let desk = Desk::open(&sys, &target, &session, args.model.as_deref()).await;
        let talked = match desk {
            Ok(desk) => {
                let talked = talk(&sys, &session, &desk).await;
                desk.close().await;
                talked
            }
            Err(failure) => Err(failure),
        };
        target.close().await;
        talked
    })
}

async fn talk(sys: &Sys, session: &SessionId, desk: &Desk) -> Result<(), Failure> {
    let mut follower = Follower::new(desk.log(), session);
    let mut interrupts = Interrupts::listen()?;
    let mut keyboard = Keyboard::listen(sys);
    let mut screen = Screen::new(keyboard.is_terminal());
    let mut talk = Talk::default();
    screen.open(session, desk.about())?;
    follower.catch_up(&mut talk).await?;
    screen.show_past(&mut talk)?;
    let mut has_stopped = false;
    loop {
        if !talk.is_busy() {
            has_stopped = false;
            if keyboard.has_ended() {
                return screen.close();
            }
            screen.prompt()?;
        }
        let takes_lines = keyboard.is_terminal() || !talk.is_busy();
        tokio::select! {
            biased;
            () = interrupts.next() => {
                // Once to stop the answer, twice to leave.
                if has_stopped || !talk.is_busy() {
                    return screen.close();
                }
                has_stopped = true;
                desk.stop().await?;
            }
            failed = desk.failed() => return Err(failed),
            more = follower.next(&mut talk) => {
                more?;
                screen.show(&mut talk)?;
            }
            // Of a pipe, one line at a time is answered.
            typed = keyboard.next(), if takes_lines => match typed {
                Typed::Line(line) if line.trim().is_empty() => {}
                Typed::Line(line) => {
                    let id = desk.say(line).await?;
                    talk.said(id);
                }
                Typed::End => {}
                Typed::Bad(why) => output::note(&why),
            },
        }
    }
}

/// Reads a session as it grows.
struct Follower {
    log: std::sync::Arc<dyn Log>,
    address: Address,
    next: Option<Offset>,
}

impl Follower {
    fn new(log: std::sync::Arc<dyn Log>, session: &SessionId) -> Self {
        Self { log, address: Address::from(session.path().clone()), next: None }
    }

    /// Reads all there is.
    async fn catch_up(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        while self.read(talk).await? == Freshness::Behind {}
        Ok(())
    }

    /// Waits for more, and reads it.
    async fn next(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        if let Some(next) = self.next {
            self.log.tail(&self.address, next).await.map_err(Failure::refused)?;
        }
        self.read(talk).await.map(drop)
    }

    async fn read(&mut self, talk: &mut Talk) -> Result<Freshness, Failure> {
        let from = self.next.map_or(ReadFrom::Start, ReadFrom::At);
        let chunk = self.log.read(&self.address, from, CHUNK_BYTES_DEFAULT).await;
        let chunk = chunk.map_err(Failure::refused)?;
        let mut position = chunk.start.position.get();
        for message in chunk.messages() {
            talk.take(position, message);
            position += 1;
        }
        self.next = Some(chunk.next);
        Ok(chunk.freshness)
    }
}
