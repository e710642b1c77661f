//! Following: a worker's whole life, one wake after the other.

use std::{convert::Infallible, fmt::Display, future::Future, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use sys::Sys;
use thiserror::Error;

use super::{
    ClaimRefused, FeedError, Finish, Ran, RunError, RunnerLifecycle, Session, WakeFeed,
    run::run_until, stop::Stop,
};
use crate::caps::{FOLLOW_LOOK, FOLLOW_PAUSE, RELEASE_PATIENCE};

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

/// Works on wakes whenever there are any, one at a time, and waits for the next one when there are
/// none. Work that fails, and servers that cannot be reached, are told to the log and tried again.
///
/// If it is dropped, a wake that is under way is given back by a task of its own: only while the
/// runtime goes on. At the end of a process it lapses with its lease instead, so use
/// [`follow_wakes_until`] there.
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
    let (_stopper, stop) = Stop::new();
    loop {
        follow(sys, lifecycle, feed, &mut work, &stop).await?;
    }
}

/// Does as [`follow_wakes`] until `stop`. Then it takes no further wake; the work under way may
/// end within `grace`, and is dropped and given back after that. It returns when the server has
/// heard so, or ten seconds later.
///
/// # Errors
/// Those of [`follow_wakes`].
pub async fn follow_wakes_until<W, F, E>(
    sys: &Sys,
    lifecycle: &Arc<dyn RunnerLifecycle>,
    feed: &mut WakeFeed,
    mut work: W,
    stop: impl Future<Output = ()>,
    grace: Duration,
) -> Result<(), FollowError>
where
    W: FnMut(Session) -> F,
    F: Future<Output = Result<Finish, E>>,
    E: Display,
{
    let (stopper, told) = Stop::new();
    let stopping = async {
        stop.await;
        stopper.close();
        sys.clock.sleep(grace).await;
        stopper.leave();
        sys.clock.sleep(RELEASE_PATIENCE).await;
        tracing::warn!("a worker stops although its wake was not given back; it lapses");
    };
    let following = follow(sys, lifecycle, feed, &mut work, &told);
    match select(pin!(stopping), pin!(following)).await {
        Either::Left(((), _)) => Ok(()),
        Either::Right((ended, _)) => ended,
    }
}

/// Ends well when it is told to stop.
async fn follow<W, F, E>(
    sys: &Sys,
    lifecycle: &Arc<dyn RunnerLifecycle>,
    feed: &mut WakeFeed,
    work: &mut W,
    stop: &Stop,
) -> Result<(), FollowError>
where
    W: FnMut(Session) -> F,
    F: Future<Output = Result<Finish, E>>,
    E: Display,
{
    while !stop.closing.is_cancelled() {
        let waiting = match run_until(sys, lifecycle.clone(), &mut *work, &stop.leaving).await {
            Ok(Ran { next_wake: true, .. }) => continue,
            Ok(Ran { next_wake: false, .. })
            | Err(RunError::NotClaimed(ClaimRefused::NoWork(_) | ClaimRefused::Taken(_))) => {
                Either::Left(next(sys, feed))
            }
            Err(RunError::NotClaimed(why)) if why.is_retryable() => Either::Right(async move {
                pause(sys, &why).await;
                Ok(())
            }),
            Err(RunError::NotClaimed(why)) => return Err(FollowError::Claim(why)),
            // The wake comes again, and how soon was decided when it was given back.
            Err(why) => {
                tracing::warn!(%why, "a wake did not end well");
                continue;
            }
        };
        let closing = pin!(stop.closing.cancelled());
        if let Either::Right((waited, _)) = select(closing, pin!(waiting)).await {
            waited?;
        }
    }
    Ok(())
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
