//! The fleet: one agent for each session that moves, and none for those that rest.
//!
//! It looks at sessions that moved since they were last seen at rest, when it starts (an index of
//! open work tells which) and at each one whose stream moves; where something
//! waits to be answered, or was begun and not ended, it starts an agent. An agent that has had
//! nothing to do for a while is ended. One that fails is started again, later each time. One that
//! idles or waits for others gives its turn away, and takes it again when it goes on. One that
//! another supervisor runs is left to it for as long as its lease holds.
//!
//! Reading order: `machine` decides, `owner` carries out; `facts` is all that is asked of a
//! session, `candidates` which sessions are asked; `job` is a look or an agent under way;
//! `orphans` removes what sessions leave behind that are gone.

mod ages;
mod candidates;
mod facts;
mod job;
mod machine;
mod orphans;
mod owner;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use agent::{AgentError, Home, Lease, RunningAgent, rows::KeepChunks, session::Sessions};
use log::{Answer, WatchError};
use sys::{Cancellation, Canceller, Sys, Task};
use tokio::sync::{Semaphore, watch};

use self::{ages::Ages, orphans::Orphans, owner::Owner};
use crate::{
    SessionId,
    caps::{
        AGENT_IDLE_DEFAULT, AGENTS_RUNNING_DEFAULT, AGENTS_WAITING_DEFAULT, AGENTS_WARM_DEFAULT,
        RESTS_WAITING_MAX,
    },
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
    /// Agents that have nothing to do, beside those; [`AGENTS_WARM_DEFAULT`].
    pub warm_max: usize,
    /// How long an agent may have nothing to do; [`AGENT_IDLE_DEFAULT`].
    pub idle_max: Duration,
    /// How long the pieces are kept that texts were made of while they grew.
    pub keep_chunks: KeepChunks,
    /// How long an agent may write nothing before supervisors elsewhere take it over: at least
    /// three times as long as an append may take. [`agent::caps::LEASE_DEFAULT`].
    pub lease: Duration,
    /// Given if nothing else can have the log open at the same time: then agents of an earlier
    /// opening are dead for sure, and go on at once. Without it they go on when their leases have
    /// run out.
    pub home: Option<Home>,
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self {
            running_max: AGENTS_RUNNING_DEFAULT,
            waiting_max: AGENTS_WAITING_DEFAULT,
            warm_max: AGENTS_WARM_DEFAULT,
            idle_max: AGENT_IDLE_DEFAULT,
            keep_chunks: KeepChunks::default(),
            lease: agent::caps::LEASE_DEFAULT,
            home: None,
        }
    }
}

/// Agents at work. Dropping it ends them, too, but nobody hears when that is done.
#[derive(Debug)]
#[must_use = "agents work while their fleet lives"]
pub struct Fleet {
    canceller: Canceller,
    task: Task,
    is_surveyed: watch::Receiver<bool>,
}

/// What all parts of a fleet share.
pub(crate) struct Yard {
    pub(crate) sys: Sys,
    /// The agent's name.
    pub(crate) agent: String,
    /// Tells this supervisor from others.
    pub(crate) supervisor: String,
    pub(crate) sessions: Sessions,
    pub(crate) maintenance: Maintenance,
    pub(crate) orphans: Orphans,
    /// What agents that made room have left open, and since when.
    pub(crate) ages: Ages,
    /// Places for sessions at rest that are kept small, or wait for that.
    pub(crate) resting: Semaphore,
    /// Told once all candidates were gone through.
    pub(crate) surveyed: watch::Sender<bool>,
    pub(crate) settings: FleetSettings,
    pub(crate) start: Start,
    pub(crate) cancellation: Cancellation,
}

/// Starts the agent of a session.
type Start = Box<
    dyn Fn(SessionId, Lease) -> Answer<'static, Result<RunningAgent, AgentError>> + Send + Sync,
>;

impl Fleet {
    /// Runs the agent of this name in every one of these sessions that has something for it;
    /// `start` starts it in one, with the [lease](agent::AgentBuilder::lease) that it is given.
    ///
    /// # Errors
    /// If the log cannot be watched.
    pub fn launch<F>(
        sys: &Sys,
        sessions: &Sessions,
        agent: &str,
        settings: FleetSettings,
        start: impl Fn(SessionId, Lease) -> F + Send + Sync + 'static,
    ) -> Result<Self, WatchError>
    where
        F: Future<Output = Result<RunningAgent, AgentError>> + Send + 'static,
    {
        let (canceller, cancellation) = Cancellation::new();
        let (surveyed, is_surveyed) = watch::channel(false);
        let yard = Arc::new(Yard {
            sys: sys.clone(),
            agent: agent.to_owned(),
            supervisor: format!("{:016x}", sys.chance.u64()),
            maintenance: Maintenance::new(sys, sessions, settings.keep_chunks),
            orphans: Orphans::new(sessions),
            ages: Ages::default(),
            resting: Semaphore::new(RESTS_WAITING_MAX),
            sessions: sessions.clone(),
            surveyed,
            settings,
            start: Box::new(move |session, lease| Box::pin(start(session, lease))),
            cancellation,
        });
        let owner = Owner::new(yard.clone())?;
        sys.spawn.task("session-orphans", Orphans::sweep(yard));
        let task = sys.spawn.task("fleet", owner.run());
        Ok(Self { canceller, task, is_surveyed })
    }

    /// Waits until every session that may have work was found that was there at the start.
    pub async fn surveyed(&self) {
        let _ = self.is_surveyed.clone().wait_for(|is_surveyed| *is_surveyed).await;
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
