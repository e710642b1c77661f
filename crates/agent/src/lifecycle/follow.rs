//! Following: a worker's whole life, one wake after the other.

use std::{convert::Infallible, fmt::Display, future::Future, sync::Arc};

use log::ReadError;
use sys::Sys;
use thiserror::Error;

use super::{
    ClaimRefused, FeedError, Finish, RunError, RunnerLifecycle, Session, WakeFeed, run_wakes,
};
use crate::caps::{FOLLOW_PAUSE, WAKES_IN_A_ROW_MAX};

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
/// [`FollowError`] if the subscription or its wake stream is gone.
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

async fn next(sys: &Sys, feed: &mut WakeFeed) -> Result<(), FeedError> {
    loop {
        match feed.next().await {
            Ok(_) => return Ok(()),
            Err(FeedError::Read(ReadError::Unavailable(why))) => pause(sys, &why).await,
            Err(error) => return Err(error),
        }
    }
}

/// Half to one and a half of the usual pause, so that workers do not come back all at once.
async fn pause(sys: &Sys, why: &(impl Display + Sync)) {
    tracing::warn!(%why, "a worker waits for its server");
    let jitter = sys.chance.below(FOLLOW_PAUSE.as_millis() as u64);
    sys.clock.sleep(FOLLOW_PAUSE / 2 + std::time::Duration::from_millis(jitter)).await;
}
