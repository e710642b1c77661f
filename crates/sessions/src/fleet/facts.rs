//! What a supervisor knows of a session: all that it ever asks of one.

use std::{fmt, time::Duration};

use log::{Answer, Incarnation};
use sys::UnixMs;
use wire::{Offset, Position};

use crate::{
    SessionId,
    actions::{ActionError, Ledgers},
};

/// How far a session had come, and in which life of its stream.
pub(crate) type Place = (Offset, Incarnation);

/// What a look at a session has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Whether something was said to the agent that it has not read, or it has begun something and
    /// not ended it.
    pub(crate) has_work: bool,
    /// The last message that says more than who runs an agent.
    pub(crate) moved: Option<Position>,
    /// How far the session was read.
    pub(crate) place: Place,
    /// Who runs the agent, or ran it last.
    pub(crate) runner: Option<RunnerFacts>,
    /// How often the process ended, beside others that worked, under what is under way.
    pub(crate) deaths: u32,
    /// How often it ended while nothing else worked, or the model failed.
    pub(crate) failures: u32,
}

/// What a session tells of the runner of its agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunnerFacts {
    /// Which takeover it was.
    pub(crate) epoch: u64,
    /// The life of the stream that it runs in.
    pub(crate) incarnation: u64,
    /// Whether it has ended in peace.
    pub(crate) is_released: bool,
    /// The supervisor that started it, if one did.
    pub(crate) supervisor: Option<String>,
    /// The opening of an exclusive log that it runs in.
    pub(crate) home: Option<String>,
    /// How long it may write nothing, as it says.
    pub(crate) lease: Option<Duration>,
    /// The last message that it wrote. Another one is a renewal of its lease.
    pub(crate) renewed: Option<Position>,
    /// It only waits for others.
    pub(crate) waiting: Option<Waiting>,
}

/// What a runner waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// When it goes on at the latest, by its clock.
    pub(crate) until: Option<UnixMs>,
    /// How long that was from when it said so.
    pub(crate) left: Option<Duration>,
}

/// Where the facts of sessions come from.
pub(crate) trait Sessions: fmt::Debug + Send + Sync {
    /// Reads a session up to its tail, and tells what it shows for an agent.
    fn look<'a>(
        &'a self,
        session: &'a SessionId,
        agent: &'a str,
    ) -> Answer<'a, Result<Facts, ActionError>>;
}

impl Sessions for Ledgers {
    fn look<'a>(
        &'a self,
        session: &'a SessionId,
        agent: &'a str,
    ) -> Answer<'a, Result<Facts, ActionError>> {
        Box::pin(async move {
            let ledger = self.of(session);
            let mut ledger = ledger.lock().await;
            ledger.catch_up().await?;
            let place = ledger.place().expect("a session that was read has a place");
            let book = ledger.book();
            let (deaths, failures) = book.setbacks_of(agent);
            Ok(Facts {
                has_work: book.has_work_for(agent),
                moved: book.moved(),
                place,
                runner: book.runner_of(agent),
                deaths,
                failures,
            })
        })
    }
}
