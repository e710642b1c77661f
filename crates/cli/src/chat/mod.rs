//! `headwater chat`: a session in the terminal.

mod desk;
mod follower;
mod keyboard;
mod screen;
mod talk;

use std::time::Duration;

use clap::Args as ClapArgs;
use sessions::SessionId;
use sys::Sys;

use self::{
    desk::{Desk, Line},
    follower::{Extent, Follower, Heard},
    keyboard::{Interrupts, Keyboard, Typed},
    screen::Screen,
    talk::Talk,
};
use crate::{
    failure::Failure,
    output, serve,
    stream::{Needs, PlaceArgs, Target},
};

/// Between two looks for a server that is away.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a program waits for one that is away. People wait as long as they like.
const AWAY_MAX: Duration = Duration::from_secs(30);

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
                let talked = visit(&sys, &session, &desk).await;
                desk.close().await;
                talked
            }
            Err(failure) => Err(failure),
        };
        target.close().await;
        talked
    })
}

async fn visit(sys: &Sys, session: &SessionId, desk: &Desk) -> Result<(), Failure> {
    Visit::begin(sys, session, desk).await?.talk().await
}

/// Somebody at the desk.
struct Visit<'a> {
    sys: &'a Sys,
    desk: &'a Desk,
    keyboard: Keyboard,
    follower: Follower,
    screen: Screen,
    talk: Talk,
    /// A line that the server has not heard yet.
    unsent: Option<Unsent>,
    has_stopped: bool,
    /// Failures that were there before.
    old_failures: u64,
}

struct Unsent {
    line: Line,
    since: Duration,
    /// When it is tried again.
    due: Duration,
}

impl<'a> Visit<'a> {
    /// Shows what was said before.
    async fn begin(sys: &'a Sys, session: &SessionId, desk: &'a Desk) -> Result<Self, Failure> {
        let keyboard = Keyboard::listen(sys);
        let mut screen = Screen::new(keyboard.is_terminal());
        let mut follower = Follower::new(sys, desk.log(), session);
        let mut talk = Talk::default();
        let extent = follower.catch_up(&mut talk).await?;
        screen.open(session, desk.about())?;
        if extent == Extent::Newest {
            let all = format!("`headwater stream read main/sessions/{session}`");
            screen
                .beside(&format!("older messages are not shown; the page has them, and {all}"))?;
        }
        screen.show_past(&mut talk)?;
        let old_failures = talk.failures();
        let (unsent, has_stopped) = (None, false);
        Ok(Self { sys, desk, keyboard, follower, screen, talk, unsent, has_stopped, old_failures })
    }

    async fn talk(mut self) -> Result<(), Failure> {
        let mut interrupts = Interrupts::listen()?;
        loop {
            if !self.talk.is_busy() {
                self.has_stopped = false;
                if self.keyboard.has_ended() {
                    return self.end();
                }
                self.screen.prompt()?;
            }
            // Of a pipe, one line at a time is answered.
            let is_free = self.keyboard.is_terminal() || !self.talk.is_busy();
            let due = self.unsent.as_ref().map(|unsent| unsent.due);
            let pause = due.unwrap_or_default().saturating_sub(self.sys.clock.elapsed());
            tokio::select! {
                biased;
                () = interrupts.next() => {
                    // Once to stop the answer, twice to leave.
                    if self.has_stopped || !self.talk.is_busy() {
                        return self.leave();
                    }
                    self.stop().await?;
                }
                failed = self.desk.failed() => return Err(failed),
                heard = self.follower.next(&mut self.talk) => self.hear(heard?)?,
                typed = self.keyboard.next(), if is_free && due.is_none() => {
                    self.take(typed).await?;
                }
                () = self.sys.clock.sleep(pause), if due.is_some() => self.send_again().await?,
            }
        }
    }

    /// A program is told by the exit code that an answer failed; people have read it.
    fn end(mut self) -> Result<(), Failure> {
        self.screen.close()?;
        let has_failed = self.talk.failures() > self.old_failures;
        match has_failed && !self.keyboard.is_terminal() {
            true => Err(Failure::Told),
            false => Ok(()),
        }
    }

    /// Somebody wants no more of it.
    fn leave(mut self) -> Result<(), Failure> {
        self.screen.close()?;
        if self.keyboard.is_terminal() { Ok(()) } else { Err(Failure::Told) }
    }

    async fn stop(&mut self) -> Result<(), Failure> {
        self.has_stopped = true;
        match self.within(self.desk.stop()).await {
            Err(Failure::Away(why)) => {
                self.screen.beside(&format!("not stopped: {why}; Ctrl-C again leaves"))
            }
            stopped => stopped,
        }
    }

    fn hear(&mut self, heard: Heard) -> Result<(), Failure> {
        let waits_on = self.keyboard.is_terminal();
        match heard {
            Heard::More => self.screen.show(&mut self.talk),
            Heard::Away { since, why } => {
                let is_over = self.sys.clock.elapsed().saturating_sub(since) > AWAY_MAX;
                if is_over && !waits_on { Err(Failure::Away(why)) } else { Ok(()) }
            }
            Heard::Left => self.screen.beside("the server is away; waiting for it"),
            Heard::Back => {
                self.screen.beside("the server is back")?;
                self.screen.show(&mut self.talk)
            }
        }
    }

    async fn take(&mut self, typed: Typed) -> Result<(), Failure> {
        self.screen.entered();
        match typed {
            Typed::Line(text) if text.trim().is_empty() => Ok(()),
            Typed::Line(text) => {
                let chance = &self.sys.chance;
                let id = format!("{:016x}{:016x}", chance.u64(), chance.u64());
                self.talk.said(id.clone());
                let now = self.sys.clock.elapsed();
                self.send(Unsent { line: Line { id, text }, since: now, due: now }).await
            }
            Typed::End => Ok(()),
            Typed::Bad(why) => {
                output::note(&why);
                Ok(())
            }
        }
    }

    /// What is asked for, or that the server is silent.
    async fn within(
        &self,
        asked: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let answer = self.sys.clock.timeout(ANSWER_MAX, asked).await;
        answer.unwrap_or_else(|_| Err(Failure::Away("the server does not answer".to_owned())))
    }

    async fn send_again(&mut self) -> Result<(), Failure> {
        match self.unsent.take() {
            Some(unsent) => self.send(unsent).await,
            None => Ok(()),
        }
    }

    async fn send(&mut self, unsent: Unsent) -> Result<(), Failure> {
        let why = match self.within(self.desk.say(&unsent.line)).await {
            Err(Failure::Away(why)) => why,
            said => return said,
        };
        let now = self.sys.clock.elapsed();
        if !self.keyboard.is_terminal() && now.saturating_sub(unsent.since) > AWAY_MAX {
            return Err(Failure::Away(why));
        }
        if unsent.due == unsent.since {
            self.screen.beside(&format!("not sent yet: {why}"))?;
        }
        self.unsent = Some(Unsent { due: now + LOOK_EVERY, ..unsent });
        Ok(())
    }
}
