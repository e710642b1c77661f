//! Why a stream is not compacted.

use log::{AppendError, HeadError, ReadError, TrimError};
use state::Skip;
use wire::{ContentType, Position, caps::MESSAGE_BYTES_MAX};

/// Why a stream was not compacted. What it says is the same as before.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// The log lacks what it takes.
    #[error(
        "this log can neither trim a stream nor append under an expected offset, so it cannot \
         compact; only Headwater's engines and servers can"
    )]
    Unsupported,
    /// Nothing can be appended, so no snapshot either.
    #[error("the stream is closed, so no snapshot can be appended; fork it, and compact the fork")]
    Closed,
    /// State Protocol messages are JSON.
    #[error("the stream holds {0}; only streams of State Protocol messages can be compacted")]
    NotJson(ContentType),
    /// A message that no row would remember.
    #[error(
        "the message at position {} would be lost: {reason}; drop what cannot be read, or leave \
         the stream as it is",
        position.get()
    )]
    NotState {
        /// Where it stands.
        position: Position,
        /// Why it was skipped.
        reason: Skip,
    },
    /// A cursor that tells no position, as one of a later version may look.
    #[error(
        "the cursor of effect {effect:?} cannot be read, so it is unknown what it still needs; \
         forget the effect, or wait: it is forgotten once it was not seen for 30 days"
    )]
    BadCursor {
        /// The effect.
        effect: String,
    },
    /// A message that has no room to say where it stood.
    #[error(
        "the message at position {} has no room to say so: with it, it would have more than \
         {MESSAGE_BYTES_MAX} bytes; update or delete its row",
        position.get()
    )]
    TooLarge {
        /// Where it stands.
        position: Position,
    },
    /// Somebody else was quicker.
    #[error("the stream was written to, or compacted by another, meanwhile; try again")]
    Moved,
    /// The stream cannot be found.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The stream cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// The snapshot cannot be appended.
    #[error("the snapshot cannot be written: {0}")]
    Append(AppendError),
    /// The snapshot is there, and what is before it, too.
    #[error("the snapshot is written, but the old messages are still there; try again: {0}")]
    Trim(TrimError),
}

impl CompactError {
    /// True if the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Moved => true,
            Self::Head(error) => error.is_retryable(),
            Self::Read(error) => error.is_retryable(),
            Self::Append(error) => error.is_retryable(),
            Self::Trim(error) => error.is_retryable(),
            _ => false,
        }
    }
}

impl From<ReadError> for CompactError {
    fn from(error: ReadError) -> Self {
        match error {
            // It was there a moment ago, so another compaction has come to its end.
            ReadError::Trimmed(_) => Self::Moved,
            error => Self::Read(error),
        }
    }
}

impl From<AppendError> for CompactError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::ExpectedOffset(_) | AppendError::Fenced(_) => Self::Moved,
            AppendError::Closed(_) => Self::Closed,
            error => Self::Append(error),
        }
    }
}
