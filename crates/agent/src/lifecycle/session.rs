//! Sessions: what the work sees of its wake.

use std::sync::Arc;

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use wake::{InvalidAck, Work};
use wire::{Offset, StreamPath};

use super::{Cancellation, Checkpoint, Lease, Lost, keeper::Message};
use crate::caps::CHECKPOINT_STREAMS_MAX;

/// A wake while it is worked on. Cheap to clone; it does not keep the wake alive, its runner does.
#[derive(Clone, Debug)]
pub struct Session {
    pub(super) lease: Arc<Lease>,
    pub(super) keeper: mpsc::WeakSender<Message>,
    pub(super) cancellation: Cancellation,
}

/// A checkpoint that lies before an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{stream} was done up to {last}, and cannot go back to {given}")]
pub struct Regression {
    /// The stream.
    pub stream: StreamPath,
    /// Where it was before.
    pub last: Offset,
    /// The checkpoint.
    pub given: Offset,
}

/// Why a checkpoint was not made. Nothing changed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// It goes back.
    #[error(transparent)]
    Regression(#[from] Regression),
    /// It names too many streams.
    #[error("a checkpoint may name {CHECKPOINT_STREAMS_MAX} streams; make several")]
    TooMany,
    /// It is not one of the stream.
    #[error(transparent)]
    Refused(#[from] InvalidAck),
    /// The wake is over.
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl Session {
    /// The wake.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What there is to do.
    #[must_use]
    pub fn streams(&self) -> &[Work] {
        &self.lease.streams
    }

    /// Tells spawned work when the wake is over.
    #[must_use]
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Says how far the work has come, durably: what is checkpointed is not called for again. All
    /// of it or nothing. Reports that are not answered are sent again while the lease lasts.
    ///
    /// # Errors
    /// [`CheckpointError`]; a checkpoint that goes back is a [`Regression`].
    pub async fn checkpoint(&self, checkpoints: Vec<Checkpoint>) -> Result<(), CheckpointError> {
        if checkpoints.len() > CHECKPOINT_STREAMS_MAX {
            return Err(CheckpointError::TooMany);
        }
        self.ask(|reply| Message::Checkpoint { checkpoints, reply }).await?
    }

    /// Says that the work goes on. The runner does so by itself; this is for work that wants to
    /// know before it does something dear.
    ///
    /// # Errors
    /// [`Lost`] if the wake is over.
    pub async fn heartbeat(&self) -> Result<(), Lost> {
        self.ask(|reply| Message::Heartbeat { reply }).await?
    }

    async fn ask<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Result<T, Lost> {
        let keeper = self.keeper.upgrade().ok_or(Lost)?;
        let (reply, answer) = oneshot::channel();
        keeper.send(message(reply)).await.map_err(|_| Lost)?;
        // Only the runner keeps the wake alive.
        drop(keeper);
        answer.await.map_err(|_| Lost)
    }
}
