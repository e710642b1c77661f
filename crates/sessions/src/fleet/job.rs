//! Jobs: the look at a session, and the agent of one while it runs.

use agent::{Activity, AgentError, Lease, RunningAgent};
use sys::Cancellation;
use tokio::sync::mpsc;

use super::{
    Yard,
    candidates::Candidates,
    facts::{self, Facts},
    machine::{Ended, Event, Pace, Terms, Trouble},
};
use crate::SessionId;

/// A job's ties to its owner.
pub(super) struct Ties {
    /// Tells this job from others of its session.
    pub(super) number: u64,
    pub(super) tell: mpsc::Sender<Event>,
    /// It is to end its agent in peace.
    pub(super) end: Cancellation,
    /// Others work beside its agent from here on.
    pub(super) share: Cancellation,
}

/// Looks at a session.
pub(super) async fn look(yard: &Yard, session: &SessionId) -> Result<Facts, Trouble> {
    let keep = yard.settings.keep_chunks;
    let looked = facts::look(&yard.sessions, session, &yard.agent, keep).await;
    let error = match looked {
        Ok(facts) => return Ok(facts),
        Err(error) => error,
    };
    tracing::warn!(%session, %error, "a session cannot be looked at");
    if error.is_retryable() {
        return Err(Trouble::Passing);
    }
    // A session that was not read in this process does not remove its index by itself.
    yard.orphans.remove_if_gone(session).await;
    Err(Trouble::Lasting)
}

/// Does what is done for a session in which a look has found no work.
pub(super) async fn rest(yard: &Yard, candidates: &Candidates, session: &SessionId, facts: &Facts) {
    yard.maintenance.rest(session).await;
    // One whose chunks are kept for a while is found again by the next process, too.
    if facts.due.is_none_or(|due| due <= yard.sys.clock.unix_ms()) {
        // From here on the next start may not look at it, and would not find its index.
        yard.orphans.name(session).await;
        // If that has moved it, the next look will find so.
        candidates.rests(facts.place).await;
    }
}

/// Runs the agent of a session until it ends, or is to.
pub(super) async fn run(yard: &Yard, session: &SessionId, terms: Terms, ties: &Ties) -> Ended {
    let lease = Lease {
        agent: yard.agent.clone(),
        supervisor: yard.supervisor.clone(),
        home: yard.settings.home,
        duration: yard.settings.lease,
        after: terms.after,
        is_alone: terms.is_alone,
        ages: yard.ages.take(session),
    };
    let ages = lease.ages.clone();
    let ran = match (yard.start)(session.clone(), lease).await {
        Ok(agent) => accompany(session, agent, terms.is_alone, ties).await,
        Err(error) => Err(error),
    };
    yard.ages.keep(session, ages);
    match ran {
        Ok(()) => Ended::Peace,
        Err(error) => {
            if let Some(epoch) = error.taken_over_by() {
                tracing::info!(%session, %error, "another runner has the agent of a session");
                return Ended::TakenOver(epoch);
            }
            tracing::warn!(%session, %error, "the agent of a session has failed");
            let is_passing = error.is_retryable();
            Ended::Failed(if is_passing { Trouble::Passing } else { Trouble::Lasting })
        }
    }
}

/// Stays with an agent, and tells what it does.
async fn accompany(
    session: &SessionId,
    agent: RunningAgent,
    is_alone: bool,
    ties: &Ties,
) -> Result<(), AgentError> {
    let mut told = Pace::Works;
    let mut activity = agent.activity();
    let mut is_shared = !is_alone;
    loop {
        let pace = match &activity {
            Activity::Ended(Some(error)) => return Err(error.clone()),
            Activity::Ended(None) => return Ok(()),
            Activity::Waiting { .. } => Pace::Waits,
            Activity::Idle => Pace::Idles,
            _ => Pace::Works,
        };
        let paced = Event::Paced(session.clone(), ties.number, pace);
        tokio::select! {
            biased;
            () = ties.end.cancelled() => return agent.stop().await,
            // The owner is there for as long as there are jobs.
            _ = ties.tell.send(paced), if pace != told => told = pace,
            () = ties.share.cancelled(), if !is_shared => {
                is_shared = true;
                agent.share();
            }
            () = agent.shared(), if !is_shared => {
                is_shared = true;
                let _ = ties.tell.send(Event::Shared(session.clone(), ties.number)).await;
            }
            next = agent.activity_after(&activity) => activity = next,
        }
    }
}
