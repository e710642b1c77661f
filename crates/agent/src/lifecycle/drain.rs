//! Draining: cycle after cycle until nothing is left, or time is up.

use std::{fmt::Display, future::Future, time::Duration};

use sys::Clock;
use thiserror::Error;

use super::{Checkpoint, CheckpointError, Finish, Session};
use crate::caps::{DRAIN_DURATION_DEFAULT, DRAIN_ITERATIONS_DEFAULT};

/// Work that is done in cycles.
pub trait Drain {
    /// How a cycle fails.
    type Error: Display;

    /// Whether there is something to do.
    fn has_pending_work(&mut self) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Does some of it, and says how far that went; nothing, if there is nothing to say yet.
    fn run_cycle(&mut self) -> impl Future<Output = Result<Vec<Checkpoint>, Self::Error>> + Send;
}

/// When to stop although there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainLimits {
    /// Cycles; 50. Guards against work that makes work.
    pub iterations_max: u32,
    /// After this time no further cycle begins; 20 s, which fits a request. A cycle that has
    /// begun ends.
    pub duration_max: Duration,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Cycles that ran.
    pub iterations: u32,
    /// Why no more did.
    pub end: DrainEnd,
}

/// Why a drain stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainEnd {
    /// There was nothing left to do.
    Idle,
    /// There were as many cycles as there may be.
    Iterations,
    /// Time was up.
    Duration,
}

/// Why a drain failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum DrainError<E> {
    /// A cycle did.
    #[error("{0}")]
    Cycle(E),
    /// What a cycle did could not be checkpointed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// Runs cycles until there is no work left or a limit is reached, and checkpoints after each. The
/// runner keeps the lease alive meanwhile; if it is lost, the drain is dropped with the work.
///
/// # Errors
/// [`DrainError`]; what was checkpointed before stays done.
pub async fn drain_until_idle<D: Drain + Send>(
    clock: &Clock,
    session: &Session,
    limits: DrainLimits,
    work: &mut D,
) -> Result<Drained, DrainError<D::Error>> {
    let begun_at = clock.elapsed();
    let mut iterations = 0;
    loop {
        // Asked before the limits are: work that ended with the last cycle is done.
        if !work.has_pending_work().await.map_err(DrainError::Cycle)? {
            return Ok(Drained { iterations, end: DrainEnd::Idle });
        }
        if iterations >= limits.iterations_max {
            return Ok(Drained { iterations, end: DrainEnd::Iterations });
        }
        if clock.elapsed().saturating_sub(begun_at) >= limits.duration_max {
            return Ok(Drained { iterations, end: DrainEnd::Duration });
        }
        let checkpoints = work.run_cycle().await.map_err(DrainError::Cycle)?;
        iterations += 1;
        if !checkpoints.is_empty() {
            session.checkpoint(checkpoints).await?;
        }
    }
}

impl Drained {
    /// What the end of the drain means for the wake: everything is done, or more is left and is
    /// called for at once.
    #[must_use]
    pub fn finish(&self) -> Finish {
        match self.end {
            DrainEnd::Idle => Finish::Done,
            DrainEnd::Iterations | DrainEnd::Duration => Finish::More,
        }
    }
}

impl Default for DrainLimits {
    fn default() -> Self {
        Self { iterations_max: DRAIN_ITERATIONS_DEFAULT, duration_max: DRAIN_DURATION_DEFAULT }
    }
}
