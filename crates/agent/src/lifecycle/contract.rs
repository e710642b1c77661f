//! The contract: what a runner asks of whoever woke it.

use std::{fmt, time::Duration};

use log::Unavailable;
use thiserror::Error;
pub use wake::Answer;
use wake::{
    Ack, AlreadyClaimed, InvalidAck, NoPendingWork, SubscriptionId, SubscriptionNotFound, Work,
};
use wire::{Offset, StreamPath};

/// Whoever wakes runners, and takes their reports.
///
/// One wake is in one pair of hands: what is asked with a lease that is over is refused with
/// [`Lost`] and changes nothing. Runners do not call this themselves; see
/// [`super::run_with_lifecycle`].
pub trait RunnerLifecycle: fmt::Debug + Send + Sync {
    /// Takes the wake. The lease runs from some moment between the call and its answer.
    fn claim(&self) -> Answer<'_, Result<Lease, ClaimRefused>>;

    /// Says that the runner lives, so that its lease begins anew.
    fn heartbeat<'a>(&'a self, lease: &'a Lease) -> Answer<'a, Result<(), ReportRefused>>;

    /// Says what is done, all of it or nothing; a heartbeat, too.
    fn checkpoint<'a>(
        &'a self,
        lease: &'a Lease,
        checkpoints: &'a [Checkpoint],
    ) -> Answer<'a, Result<(), ReportRefused>>;

    /// Says what else is done, and ends the wake.
    fn complete<'a>(
        &'a self,
        lease: &'a Lease,
        finish: Finish,
        checkpoints: &'a [Checkpoint],
    ) -> Answer<'a, Result<Completed, ReportRefused>>;

    /// Counts a failure of the work, once, and says how long to wait before the wake is given up:
    /// work that fails at once must not run all the time.
    fn setback(&self, lease: &Lease) -> Duration;

    /// Gives the wake up, so that its work is called for again.
    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, Result<(), ReportRefused>>;
}

/// A wake in the hands of a runner.
#[derive(Clone, PartialEq, Eq)]
pub struct Lease {
    /// Whose wake.
    pub subscription: SubscriptionId,
    /// Names the wake.
    pub wake_id: String,
    /// Counts the subscription's wakes.
    pub generation: u64,
    /// What reports must carry.
    pub token: String,
    /// What there is to do.
    pub streams: Vec<Work>,
    /// How long the runner may stay silent.
    pub ttl: Duration,
}

/// How far a runner has come in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The stream.
    pub stream: StreamPath,
    /// The end of what is done.
    pub offset: Offset,
}

/// What the end of the work means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Everything that the wake listed is done, up to where its streams ended then. What came
    /// later comes with the next wake.
    Done,
    /// Only what was checkpointed is done; the rest comes with the next wake, at once.
    More,
}

/// The answer to a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Whether there is more work, which another wake calls to.
    pub next_wake: bool,
}

/// The wake is over, or in other hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the lease is lost; stop working, the work comes again with another wake")]
pub struct Lost;

/// Why a wake was not given to the runner. It runs nothing.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ClaimRefused {
    /// The wake is over.
    #[error("the wake is stale: {0}")]
    Stale(String),
    /// Somebody has it.
    #[error(transparent)]
    Taken(#[from] AlreadyClaimed),
    /// There is none.
    #[error(transparent)]
    NoWork(#[from] NoPendingWork),
    /// There never was.
    #[error(transparent)]
    NotFound(#[from] SubscriptionNotFound),
    /// It may be had later.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a report was not taken.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ReportRefused {
    /// The wake is over.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// A checkpoint is not one of the stream.
    #[error(transparent)]
    Checkpoint(#[from] InvalidAck),
    /// It may be taken later, and may have been taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl fmt::Debug for Lease {
    /// Hides the token: whoever has it can report.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("subscription", &self.subscription)
            .field("wake_id", &self.wake_id)
            .field("generation", &self.generation)
            .field("streams", &self.streams.len())
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

impl From<&Checkpoint> for Ack {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self { path: checkpoint.stream.clone(), offset: checkpoint.offset }
    }
}

impl ClaimRefused {
    /// True if the same claim may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(why) if why.is_retryable())
    }
}
