//! Following: a worker's whole life, one wake after the other.

use std::{convert::Infallible, fmt::Display, future::Future, sync::Arc, time::Duration};

use sys::Sys;
use thiserror::Error;

use super::{
    ClaimRefused, FeedError, Finish, RunError, RunnerLifecycle, Session, WakeFeed, run_wakes,
};
use crate::caps::{FOLLOW_LOOK, FOLLOW_PAUSE, WAKES_IN_A_ROW_MAX};

/// Why a worker stopped.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum FollowError {
    /// There is nothing to wait for.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// There is nothing to claim, and never will be.
    #[error(transparent)]
    Claim(ClaimRefused),
}

/// Works on wakes whenever there are any, and waits for the next one when there are none. Work
/// that fails, and servers that cannot be reached, are told to the log and tried again. Drop it to
/// stop: a wake that is under way is given back.
///
/// # Errors
/// [`FollowError`] if the subscription or its wake stream is gone, or waiting for them does not
/// help. A worker that waits finds out within a minute.
pub async fn follow_wakes<W, F, E>(
    sys: &Sys,
    lifecycle: &Arc<dyn RunnerLifecycle>,
    feed: &mut WakeFeed,
    mut work: W,
) -> Result<Infallible, FollowError>
where
    W: FnMut(Session) -> F,
    F: Future<Output = Result<Finish, E>>,
    E: Display,
{
    loop {
        match run_wakes(sys, lifecycle, WAKES_IN_A_ROW_MAX, &mut work).await {
            Ok(WAKES_IN_A_ROW_MAX) => {}
            Ok(_) => next(sys, feed).await?,
            Err(RunError::NotClaimed(why)) if why.is_retryable() => pause(sys, &why).await,
            Err(RunError::NotClaimed(why)) => return Err(FollowError::Claim(why)),
            // The wake comes again, and how soon was decided when it was given back.
            Err(why) => tracing::warn!(%why, "a wake did not end well"),
        }
    }
}

/// Waits until it is worth while to claim: a wake was announced, or none for so long that the
/// subscription may be gone.
async fn next(sys: &Sys, feed: &mut WakeFeed) -> Result<(), FeedError> {
    match sys.clock.timeout(around(sys, FOLLOW_LOOK), feed.next()).await {
        Ok(Ok(_)) | Err(_) => Ok(()),
        Ok(Err(FeedError::Read(why))) if why.is_retryable() => {
            pause(sys, &why).await;
            Ok(())
        }
        Ok(Err(error)) => Err(error),
    }
}

async fn pause(sys: &Sys, why: &(impl Display + Sync)) {
    tracing::warn!(%why, "a worker waits for its server");
    sys.clock.sleep(around(sys, FOLLOW_PAUSE)).await;
}

/// Half to one and a half of the usual time, so that workers do not come back all at once.
fn around(sys: &Sys, usual: Duration) -> Duration {
    usual / 2 + Duration::from_millis(sys.chance.below(usual.as_millis() as u64))
}
