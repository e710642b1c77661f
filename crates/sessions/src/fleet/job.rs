//! A job: one session, from the look at it until its agent rests.

use agent::RunningAgent;

use super::Yard;
use crate::{SessionId, actions::ActionError};

/// How a job went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rested {
    /// There was nothing to do.
    Idle,
    /// There was, and it is done; look again, for something may have come meanwhile.
    Worked,
    /// It failed, and may fare better later.
    Failed,
    /// It failed, and will fail again; or somebody else does it.
    GivenUp,
}

/// Looks at a session, and runs its agent as long as there is something to do.
pub(super) async fn run(yard: &Yard, session: &SessionId) -> Rested {
    match has_work(yard, session).await {
        Ok(true) => {}
        Ok(false) => return Rested::Idle,
        Err(error) => {
            tracing::warn!(%session, %error, "a session cannot be looked at");
            let later = error.is_retryable();
            return if later { Rested::Failed } else { Rested::GivenUp };
        }
    }
    let ran = match (yard.start)(session.clone()).await {
        Ok(agent) => accompany(yard, agent).await,
        Err(error) => Err(error),
    };
    match ran {
        Ok(()) => Rested::Worked,
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

/// Stays with an agent until it has had nothing to do for a while.
async fn accompany(yard: &Yard, agent: RunningAgent) -> Result<(), agent::AgentError> {
    loop {
        tokio::select! {
            biased;
            () = yard.cancellation.cancelled() => return agent.stop().await,
            idle = agent.idle() => idle?,
        }
        tokio::select! {
            biased;
            () = yard.cancellation.cancelled() => return agent.stop().await,
            ended = agent.ended() => return ended,
            () = agent.busy() => {}
            () = yard.sys.clock.sleep(yard.settings.idle_max) => return agent.stop().await,
        }
    }
}

async fn has_work(yard: &Yard, session: &SessionId) -> Result<bool, ActionError> {
    let ledger = yard.ledgers.of(session);
    let mut ledger = ledger.lock().await;
    let (book, _) = ledger.catch_up().await?;
    Ok(book.has_work_for(&yard.agent))
}
