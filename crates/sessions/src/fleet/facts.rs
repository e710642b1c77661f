//! What a supervisor knows of a session: all that it ever asks of one.

use std::time::Duration;

use agent::{
    rows::KeepChunks,
    session::{AgentHead, SessionState, Sessions},
};
use log::Incarnation;
use sys::UnixMs;
use wire::{Offset, Position, Timestamp};

use crate::{SessionId, actions::ActionError};

/// How far a session had come, and in which life of its stream.
pub(crate) type Place = (Offset, Incarnation);

/// What a look at a session has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Whether something was said to the agent that it has not read, or it has begun something and
    /// not ended it.
    pub(crate) has_work: bool,
    /// When chunks can be dropped of it while it rests.
    pub(crate) due: Option<UnixMs>,
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

/// Reads a session up to its tail, and tells what it shows for an agent.
pub(crate) async fn look(
    sessions: &Sessions,
    session: &SessionId,
    agent: &str,
    keep: KeepChunks,
) -> Result<Facts, ActionError> {
    let open = sessions.of(session.path());
    let mut open = open.lock().await;
    open.catch_up().await.map_err(|error| ActionError::reading(session, &error))?;
    let place = open.place().expect("a session that was read has a place");
    let due = open.compaction_due(keep).await.ok().flatten();
    let state = open.state();
    let head = state.agent(agent);
    let (deaths, failures) = head.map(AgentHead::setbacks).unwrap_or_default();
    Ok(Facts {
        has_work: state.has_work_for(agent),
        due,
        moved: state.moved(),
        place,
        runner: head.and_then(|head| runner_of(state, head)),
        deaths,
        failures,
    })
}

fn runner_of(state: &SessionState, head: &AgentHead) -> Option<RunnerFacts> {
    let row = &head.runner.as_ref()?.row;
    let waiting = state.is_waiting(head).then(|| {
        let until = row.waits_until.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        let until = until.map(|at| UnixMs::new(at.unix_ms()));
        Waiting { until, left: row.waits_ms.map(Duration::from_millis) }
    });
    Some(RunnerFacts {
        epoch: row.epoch,
        incarnation: row.incarnation,
        is_released: row.released_at.is_some(),
        supervisor: row.supervisor.clone(),
        home: row.home.clone(),
        lease: row.lease_ms.map(Duration::from_millis),
        renewed: head.renewed(),
        waiting,
    })
}
