//! What can go wrong: a struct per fact, an enum per operation.
//!
//! Each enum answers two questions: may I retry, and did anything happen?

use std::borrow::Cow;

use thiserror::Error;
use wire::{ContentType, Epoch, Offset, ProducerSeq, StreamSeq};

/// No stream has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no such stream; create it first")]
pub struct StreamNotFound;

/// The stream was deleted, and its forks still need its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stream was deleted; its name is free again when its last fork is gone")]
pub struct StreamGone;

/// The stream is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stream is closed; nothing can be appended")]
pub struct StreamClosed {
    /// Where it ends.
    pub tail: Offset,
}

/// Another stream has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a stream with this name exists and differs in {differs_in}")]
pub struct StreamExists {
    /// The setting that differs.
    pub differs_in: Cow<'static, str>,
}

/// The append or fork says another content type than the stream's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the stream holds {stream}, not {given}")]
pub struct ContentTypeMismatch {
    /// The stream's.
    pub stream: ContentType,
    /// The caller's.
    pub given: ContentType,
}

/// `Stream-Seq` did not grow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Sequence conflict: Stream-Seq {given} is not above the last one, {last}")]
pub struct StreamSeqConflict {
    /// The stream's last.
    pub last: StreamSeq,
    /// The caller's.
    pub given: StreamSeq,
    /// The tail.
    pub tail: Offset,
}

/// The tail is elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("Expected offset conflict: the tail is {tail}; read up to it and decide again")]
pub struct ExpectedOffsetConflict {
    /// The tail.
    pub tail: Offset,
}

/// A newer life of this producer has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("producer epoch {current} has taken over; stop, or claim a higher epoch")]
pub struct ProducerFenced {
    /// The newer life.
    pub current: Epoch,
}

/// An append of this producer is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("producer sequence {received} leaves a gap; send {expected} first")]
pub struct ProducerGap {
    /// What would be accepted.
    pub expected: ProducerSeq,
    /// What came.
    pub received: ProducerSeq,
}

/// A new epoch began in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a new producer epoch starts with sequence 0, not {received}")]
pub struct ProducerEpochStart {
    /// What came.
    pub received: ProducerSeq,
}

/// The stream remembers as many producers as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stream has too many producers; reuse producer ids")]
pub struct TooManyProducers;

/// An erase would take along a fork that it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a fork of the stream stands where this erase may not reach; delete the stream instead")]
pub struct ForkedElsewhere;

/// The offset is not one of this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("offset {0} does not stand between two messages of this stream")]
pub struct OffsetUnknown(pub Offset);

/// The offset lies past the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the place asked for lies past the tail, {tail}")]
pub struct OffsetBeyondTail {
    /// The tail.
    pub tail: Offset,
}

/// The messages at this offset were trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the messages before {earliest} are no longer kept; start from there, or from -1")]
pub struct OffsetTrimmed {
    /// The earliest offset kept.
    pub earliest: Offset,
}

/// Messages that were durable cannot be read any more: their bytes are damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the messages of {stream} from {from} up to {until} are damaged or missing on the disk; run \
     headwater doctor, or read on from {until}"
)]
pub struct MessagesDamaged {
    /// The stream that stores them: the one that was read, or one that it was forked from.
    pub stream: String,
    /// The first of them.
    pub from: Offset,
    /// What can be read again.
    pub until: Offset,
}

/// The implementation lacks this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this log cannot {what}")]
pub struct Unsupported {
    /// What it cannot do.
    pub what: &'static str,
}

/// The log cannot serve now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// Too much is in flight; nothing was stored.
    #[error("the log is busy; retry after a moment")]
    Overloaded,
    /// A write failed, so nothing more is accepted until the log is opened again.
    #[error("a write to the disk failed and the log accepts no more; restart to recover: {0}")]
    Poisoned(String),
    /// There is no space left; nothing was stored.
    #[error("there is no room on the disk; free some and retry: {0}")]
    DiskFull(String),
    /// The disk gave no file to store more in, though it may have room; nothing was stored.
    #[error("the disk gave no file to write to, and not for want of room: {0}")]
    NoFile(String),
    /// The log is being closed.
    #[error("the log is closing; retry when it is back")]
    Closing,
    /// A read failed.
    #[error("reading the disk failed: {0}")]
    Read(String),
    /// Messages are damaged; other messages and other streams are not concerned.
    #[error(transparent)]
    Damaged(MessagesDamaged),
    /// The log is elsewhere, and no answer came: what was asked may have happened.
    #[error("the server did not answer: {0}")]
    Unreachable(String),
    /// The log is elsewhere, and does not let us in.
    #[error("the server refused: {0}")]
    Denied(String),
    /// The log is elsewhere, and what it answered means nothing to us.
    #[error("the server answered what nobody can read: {0}")]
    Unreadable(String),
}

/// Why a create failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Another stream has this name.
    #[error(transparent)]
    Exists(#[from] StreamExists),
    /// The name belongs to a deleted stream with forks.
    #[error(transparent)]
    Gone(#[from] StreamGone),
    /// The implementation lacks streams of this kind.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a fork failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The source does not exist.
    #[error(transparent)]
    SourceNotFound(#[from] StreamNotFound),
    /// The source, or the stream of the fork's name, was deleted and still has forks.
    #[error(transparent)]
    Gone(#[from] StreamGone),
    /// Another stream has this name.
    #[error(transparent)]
    Exists(#[from] StreamExists),
    /// The content type differs from the source's.
    #[error(transparent)]
    ContentType(#[from] ContentTypeMismatch),
    /// The offset is not one of the source.
    #[error(transparent)]
    OffsetUnknown(#[from] OffsetUnknown),
    /// The offset or sub-offset lies past the source's end.
    #[error(transparent)]
    BeyondTail(#[from] OffsetBeyondTail),
    /// The source no longer keeps what the fork would inherit.
    #[error(transparent)]
    Trimmed(#[from] OffsetTrimmed),
    /// A sub-offset needs an offset.
    #[error("a sub-offset counts from an offset; send Stream-Fork-Offset, too")]
    SubOffsetAlone,
    /// A fork of a fork of a fork …
    #[error("the chain of forks is too long; fork an earlier ancestor")]
    TooDeep,
    /// The implementation lacks streams of this kind.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why an append failed. Nothing was stored, unless it is [`AppendError::Unavailable`]: then
/// only a retry with a producer is safe.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AppendError {
    /// No such stream.
    #[error(transparent)]
    NotFound(#[from] StreamNotFound),
    /// Deleted.
    #[error(transparent)]
    Gone(#[from] StreamGone),
    /// Closed.
    #[error(transparent)]
    Closed(#[from] StreamClosed),
    /// Wrong content type.
    #[error(transparent)]
    ContentType(#[from] ContentTypeMismatch),
    /// `Stream-Seq` did not grow.
    #[error(transparent)]
    StreamSeq(#[from] StreamSeqConflict),
    /// The tail is elsewhere.
    #[error(transparent)]
    ExpectedOffset(#[from] ExpectedOffsetConflict),
    /// A newer epoch has taken over.
    #[error(transparent)]
    Fenced(#[from] ProducerFenced),
    /// A sequence is missing.
    #[error(transparent)]
    Gap(#[from] ProducerGap),
    /// A new epoch began in the middle.
    #[error(transparent)]
    EpochStart(#[from] ProducerEpochStart),
    /// Too many producers.
    #[error(transparent)]
    TooManyProducers(#[from] TooManyProducers),
    /// No messages, and no close.
    #[error("there is nothing to append; send at least one message")]
    Empty,
    /// The implementation lacks a condition of this append.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a read failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No such stream.
    #[error(transparent)]
    NotFound(#[from] StreamNotFound),
    /// Deleted.
    #[error(transparent)]
    Gone(#[from] StreamGone),
    /// The offset is not one of this stream.
    #[error(transparent)]
    OffsetUnknown(#[from] OffsetUnknown),
    /// The offset was trimmed.
    #[error(transparent)]
    Trimmed(#[from] OffsetTrimmed),
    /// The implementation lacks streams of this kind.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a stream's head cannot be told.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum HeadError {
    /// No such stream.
    #[error(transparent)]
    NotFound(#[from] StreamNotFound),
    /// Deleted.
    #[error(transparent)]
    Gone(#[from] StreamGone),
    /// The implementation lacks streams of this kind.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a trim failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum TrimError {
    /// No such stream.
    #[error(transparent)]
    NotFound(#[from] StreamNotFound),
    /// Deleted.
    #[error(transparent)]
    Gone(#[from] StreamGone),
    /// The offset is not one of this stream.
    #[error(transparent)]
    OffsetUnknown(#[from] OffsetUnknown),
    /// The offset lies past the end.
    #[error(transparent)]
    BeyondTail(#[from] OffsetBeyondTail),
    /// The implementation cannot trim.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a delete failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// No such stream.
    #[error(transparent)]
    NotFound(#[from] StreamNotFound),
    /// Deleted before.
    #[error(transparent)]
    Gone(#[from] StreamGone),
    /// It would take along what it may not.
    #[error(transparent)]
    ForkedElsewhere(#[from] ForkedElsewhere),
    /// The implementation cannot erase.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a list failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ListError {
    /// The implementation cannot list.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The log cannot serve now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a watch failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The implementation cannot watch.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// There are as many watchers as there may be.
    #[error("there are too many watchers; drop one")]
    TooMany,
}

macro_rules! answers_retry {
    ($($error:ty),*) => {$(
        impl $error {
            /// True if the same call may succeed later.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                matches!(self, Self::Unavailable(why) if why.is_retryable())
            }

            /// True if it is certain that nothing changed.
            #[must_use]
            pub fn has_no_side_effects(&self) -> bool {
                !matches!(self, Self::Unavailable(why) if why.leaves_doubt())
            }
        }
    )*};
}

answers_retry!(
    CreateError,
    ForkError,
    AppendError,
    ReadError,
    HeadError,
    TrimError,
    DeleteError,
    ListError
);

impl Unavailable {
    /// True if waiting helps: a poisoned log needs a restart first.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Overloaded
                | Self::DiskFull(_)
                | Self::NoFile(_)
                | Self::Closing
                | Self::Unreachable(_)
        )
    }

    /// True if what was asked may have happened.
    fn leaves_doubt(&self) -> bool {
        matches!(
            self,
            Self::Poisoned(_) | Self::Closing | Self::Unreachable(_) | Self::Unreadable(_)
        )
    }
}

impl From<HeadError> for ReadError {
    fn from(error: HeadError) -> Self {
        match error {
            HeadError::NotFound(fact) => Self::NotFound(fact),
            HeadError::Gone(fact) => Self::Gone(fact),
            HeadError::Unsupported(fact) => Self::Unsupported(fact),
            HeadError::Unavailable(fact) => Self::Unavailable(fact),
        }
    }
}
