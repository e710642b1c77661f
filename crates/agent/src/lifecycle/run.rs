//! Running: from the claim of a wake to its end.

use std::{fmt::Display, future::Future, pin::pin, sync::Arc};

use futures_util::future::{Either, select};
use sys::Sys;
use thiserror::Error;
use wake::InvalidAck;

use super::{
    Cancellation, ClaimRefused, Completed, Finish, Lost, RunnerLifecycle, Session,
    keeper::{Hold, Unkept},
};

/// How a run ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// What the work said.
    pub finish: Finish,
    /// Whether another wake calls to more work.
    pub next_wake: bool,
}

/// How a run ended otherwise.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The wake was not to be had; nothing ran.
    #[error(transparent)]
    NotClaimed(#[from] ClaimRefused),
    /// The lease was lost and the work was dropped; it comes again.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The work failed and the wake was given back; it comes again.
    #[error("{0}")]
    Work(E),
    /// The runner stopped before the work did; the wake was given back, and comes again.
    #[error("the runner stopped; the work comes again")]
    Stopped,
    /// The work was done, and nobody confirmed that it was heard; it may come again.
    #[error("the end of the wake was not confirmed; the work may come again")]
    Unconfirmed,
    /// The work was done, and its end was refused; it comes again.
    #[error(transparent)]
    Refused(InvalidAck),
}

/// Claims the wake, runs the work, keeps the lease alive meanwhile, and ends the wake as the work
/// says.
///
/// The work is dropped as soon as its lease is lost, or may be: then somebody else may have the
/// wake. What it spawned hears of it through [`Session::cancellation`]. If it fails, or if this
/// future is dropped, the wake is given back; the latter needs a runtime that goes on.
///
/// # Errors
/// [`RunError`] says whether anything ran and whether it comes again.
pub async fn run_with_lifecycle<W, F, E>(
    sys: &Sys,
    lifecycle: Arc<dyn RunnerLifecycle>,
    work: W,
) -> Result<Ran, RunError<E>>
where
    W: FnOnce(Session) -> F,
    F: Future<Output = Result<Finish, E>>,
    E: Display,
{
    // Kept to the end: without its other end, a cancellation counts as one.
    let (_canceller, never) = Cancellation::new();
    run_until(sys, lifecycle, work, &never).await
}

/// The same, until `leaving`: then the work is dropped, and its wake given back.
pub(super) async fn run_until<W, F, E>(
    sys: &Sys,
    lifecycle: Arc<dyn RunnerLifecycle>,
    work: W,
    leaving: &Cancellation,
) -> Result<Ran, RunError<E>>
where
    W: FnOnce(Session) -> F,
    F: Future<Output = Result<Finish, E>>,
    E: Display,
{
    let claimed_at = sys.clock.elapsed();
    let lease = lifecycle.claim().await?;
    let (hold, session) = Hold::start(sys, lifecycle, lease, claimed_at);
    let cancellation = session.cancellation();
    let outcome = {
        let (lost, left) = (pin!(cancellation.cancelled()), pin!(leaving.cancelled()));
        // In this order: work that fails because its lease is lost was not at fault, and work
        // that is not wanted does not begin.
        match select(select(lost, left), pin!(work(session))).await {
            Either::Left((Either::Left(_), _)) => return Err(Lost.into()),
            Either::Left((Either::Right(_), _)) => None,
            Either::Right((outcome, _)) => Some(outcome),
        }
    };
    let Some(outcome) = outcome else {
        hold.release().await;
        return Err(RunError::Stopped);
    };
    match outcome {
        Ok(finish) => match hold.complete(finish).await {
            Ok(Completed { next_wake }) => Ok(Ran { finish, next_wake }),
            Err(Unkept::Lost) => Err(Lost.into()),
            Err(Unkept::Unconfirmed) => Err(RunError::Unconfirmed),
            Err(Unkept::Refused(fact)) => Err(RunError::Refused(fact)),
        },
        Err(error) => {
            hold.fail(error.to_string()).await;
            Err(RunError::Work(error))
        }
    }
}

/// Runs wake after wake while there are any, at most `wakes_max`, and says how many. It ends well
/// when there is no work, or somebody else is at it: then wait for the next wake.
///
/// # Errors
/// The first [`RunError`] that says something else.
pub async fn run_wakes<W, F, E>(
    sys: &Sys,
    lifecycle: &Arc<dyn RunnerLifecycle>,
    wakes_max: u32,
    mut work: W,
) -> Result<u32, RunError<E>>
where
    W: FnMut(Session) -> F,
    F: Future<Output = Result<Finish, E>>,
    E: Display,
{
    for wakes in 0..wakes_max {
        match run_with_lifecycle(sys, lifecycle.clone(), &mut work).await {
            Ok(Ran { next_wake: true, .. }) => {}
            Ok(Ran { next_wake: false, .. }) => return Ok(wakes + 1),
            Err(RunError::NotClaimed(ClaimRefused::NoWork(_) | ClaimRefused::Taken(_))) => {
                return Ok(wakes);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(wakes_max)
}
