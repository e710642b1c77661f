//! The fleet: one agent for each session that moves, and none for those that rest.
//!
//! It looks at every session when it starts, and at each one whose stream moves; where something
//! waits to be answered, or was begun and not ended, it starts an agent. An agent that has had
//! nothing to do for a while is ended. One that fails is started again, later each time. One that
//! only waits for somebody else gives its turn away, and takes it again when it goes on.

mod job;
mod owner;
mod shelf;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use agent::{AgentError, RunningAgent, rows::KeepChunks, session::Sessions};
use log::{Answer, Log, WatchError};
use sys::{Cancellation, Canceller, Sys, Task};

use self::owner::Owner;
use crate::{
    SessionId,
    caps::{AGENT_IDLE_DEFAULT, AGENTS_RUNNING_DEFAULT, AGENTS_WAITING_DEFAULT},
    maintenance::Maintenance,
};

/// How a fleet runs its agents.
#[derive(Clone, Copy, Debug)]
pub struct FleetSettings {
    /// Agents that work at a time, 1 or more. One that has waited goes on at once, so there may be
    /// more for a while; then no other is started. [`AGENTS_RUNNING_DEFAULT`].
    pub running_max: usize,
    /// Agents that wait for somebody else, beside those; [`AGENTS_WAITING_DEFAULT`].
    pub waiting_max: usize,
    /// How long an agent may have nothing to do; [`AGENT_IDLE_DEFAULT`].
    pub idle_max: Duration,
    /// How long the pieces are kept that texts were made of while they grew.
    pub keep_chunks: KeepChunks,
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self {
            running_max: AGENTS_RUNNING_DEFAULT,
            waiting_max: AGENTS_WAITING_DEFAULT,
            idle_max: AGENT_IDLE_DEFAULT,
            keep_chunks: KeepChunks::default(),
        }
    }
}

/// Agents at work. Dropping it ends them, too, but nobody hears when that is done.
#[derive(Debug)]
#[must_use = "agents work while their fleet lives"]
pub struct Fleet {
    canceller: Canceller,
    task: Task,
}

/// What all parts of a fleet share.
pub(crate) struct Yard {
    pub(crate) sys: Sys,
    pub(crate) log: Arc<dyn Log>,
    /// The agent's name.
    pub(crate) agent: String,
    pub(crate) sessions: Sessions,
    pub(crate) maintenance: Maintenance,
    pub(crate) settings: FleetSettings,
    pub(crate) start: Start,
    pub(crate) cancellation: Cancellation,
}

/// Starts the agent of a session.
type Start =
    Box<dyn Fn(SessionId) -> Answer<'static, Result<RunningAgent, AgentError>> + Send + Sync>;

impl Fleet {
    /// Runs the agent of this name in every session of `log` that has something for it; `start`
    /// starts it in one.
    ///
    /// # Errors
    /// If the log cannot be watched.
    pub fn launch<F>(
        sys: &Sys,
        log: Arc<dyn Log>,
        agent: &str,
        settings: FleetSettings,
        start: impl Fn(SessionId) -> F + Send + Sync + 'static,
    ) -> Result<Self, WatchError>
    where
        F: Future<Output = Result<RunningAgent, AgentError>> + Send + 'static,
    {
        let (canceller, cancellation) = Cancellation::new();
        let sessions = Sessions::new(sys, log.clone());
        let yard = Arc::new(Yard {
            sys: sys.clone(),
            agent: agent.to_owned(),
            maintenance: Maintenance::new(sys, &sessions, settings.keep_chunks),
            sessions,
            settings,
            start: Box::new(move |session| Box::pin(start(session))),
            cancellation,
            log,
        });
        let owner = Owner::new(yard)?;
        let task = sys.spawn.task("fleet", owner.run());
        Ok(Self { canceller, task })
    }

    /// Ends all agents in peace: what they have begun, the next fleet goes on with.
    pub async fn shutdown(self) {
        self.canceller.cancel();
        self.task.join().await;
    }
}

impl fmt::Debug for Yard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yard").field("agent", &self.agent).finish_non_exhaustive()
    }
}
