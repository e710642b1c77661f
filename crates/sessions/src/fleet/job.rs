//! A job: one session, from the look at it until its agent rests.

use agent::{Activity, AgentError, RunningAgent};
use sys::{Cancellation, UnixMs};
use tokio::sync::mpsc;
use wire::Position;

use super::{Yard, shelf::Place};
use crate::{SessionId, actions::ActionError};

/// How a job went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rested {
    /// There was nothing to do.
    Idle,
    /// There was, and it is done; look again, for something may have come meanwhile.
    Worked,
    /// There is, but not for us now: until the session moves from this place, or until then.
    Shelved(Place, Option<UnixMs>),
    /// It failed, and may fare better later.
    Failed,
    /// It failed, and will fail again; or somebody else does it.
    GivenUp,
}

/// What a job says while it is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Its agent works.
    Works,
    /// Its agent only waits for somebody else.
    Waits,
}

/// A job's ties to its owner.
pub(super) struct Ties {
    /// Tells this job from others of its session.
    pub(super) number: u64,
    pub(super) tell: mpsc::Sender<(SessionId, u64, Pace)>,
    /// There are too many that wait, and this one has waited for longest.
    pub(super) make_room: Cancellation,
}

/// What a look at a session has shown.
struct Look {
    has_work: bool,
    /// The last that happened in it.
    moved: Option<Position>,
    place: Option<Place>,
}

/// How the company of an agent ended.
enum Parted {
    /// It had nothing to do, or is to end.
    Rests,
    /// It waits for somebody else, at the latest until then; this had happened when it began to.
    Waits(Option<UnixMs>, Option<Position>),
}

/// Looks at a session, and runs its agent as long as there is something to do.
pub(super) async fn run(yard: &Yard, session: &SessionId, ties: &Ties) -> Rested {
    let before = match look(yard, session).await {
        Ok(look) if look.has_work => look,
        Ok(_) => {
            yard.maintenance.rest(session).await;
            return Rested::Idle;
        }
        Err(error) => return cannot_look(session, &error),
    };
    let ran = match (yard.start)(session.clone()).await {
        Ok(agent) => accompany(yard, session, agent, ties).await,
        Err(error) => Err(error),
    };
    match ran {
        Ok(parted) => part(yard, session, &before, parted).await,
        Err(error) if error.is_taken_over() => {
            tracing::info!(%session, %error, "another runner has the agent of a session");
            Rested::GivenUp
        }
        Err(error) => {
            tracing::warn!(%session, %error, "the agent of a session has failed");
            if error.is_retryable() { Rested::Failed } else { Rested::GivenUp }
        }
    }
}

/// What is to be done once an agent has ended in peace.
async fn part(yard: &Yard, session: &SessionId, before: &Look, parted: Parted) -> Rested {
    let after = match look(yard, session).await {
        Ok(after) => after,
        Err(error) => return cannot_look(session, &error),
    };
    match (parted, after.place) {
        // Otherwise what it waits for may have come while it ended.
        (Parted::Waits(until, moved), Some(place)) if after.has_work && after.moved == moved => {
            Rested::Shelved(place, until)
        }
        // It was started for nothing, and would be again.
        (Parted::Rests, Some(place)) if after.has_work && after.moved == before.moved => {
            tracing::warn!(%session, "an agent finds nothing to do where something waits");
            Rested::Shelved(place, None)
        }
        _ => Rested::Worked,
    }
}

/// Stays with an agent until it has had nothing to do for a while, or is to make room.
async fn accompany(
    yard: &Yard,
    session: &SessionId,
    agent: RunningAgent,
    ties: &Ties,
) -> Result<Parted, AgentError> {
    let (mut told, mut moved) = (Pace::Works, None);
    let mut activity = agent.activity();
    loop {
        let pace = match &activity {
            Activity::Ended(Some(error)) => return Err(error.clone()),
            Activity::Ended(None) => return Ok(Parted::Rests),
            Activity::Waiting { .. } => Pace::Waits,
            _ => Pace::Works,
        };
        let news = (session.clone(), ties.number, pace);
        tokio::select! {
            biased;
            () = yard.cancellation.cancelled() => {
                return agent.stop().await.map(|()| Parted::Rests);
            }
            // The owner is there for as long as there are jobs.
            _ = ties.tell.send(news), if pace != told => {
                told = pace;
                if pace == Pace::Waits {
                    moved = look(yard, session).await.ok().and_then(|look| look.moved);
                }
            }
            next = agent.activity_after(&activity) => activity = next,
            () = ties.make_room.cancelled(), if pace == Pace::Waits => {
                let Activity::Waiting { until } = activity else { continue };
                return agent.stop().await.map(|()| Parted::Waits(until, moved));
            }
            () = yard.sys.clock.sleep(yard.settings.idle_max), if activity == Activity::Idle => {
                return agent.stop().await.map(|()| Parted::Rests);
            }
        }
    }
}

async fn look(yard: &Yard, session: &SessionId) -> Result<Look, ActionError> {
    let open = yard.sessions.of(session.path());
    let mut open = open.lock().await;
    let state = open.catch_up().await.map_err(|error| ActionError::reading(session, &error))?;
    let (has_work, moved) = (state.has_work_for(&yard.agent), state.moved());
    Ok(Look { has_work, moved, place: open.place() })
}

fn cannot_look(session: &SessionId, error: &ActionError) -> Rested {
    tracing::warn!(%session, %error, "a session cannot be looked at");
    if error.is_retryable() { Rested::Failed } else { Rested::GivenUp }
}
