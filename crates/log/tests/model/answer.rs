//! What a log answers, in words that the model has, too.

use std::collections::HashMap;

use log::{
    AppendError, Appended, Chunk, CreateError, Created, DeleteError, ForkError, Freshness, Head,
    HeadError, Incarnation, Outcome, Page, ReadError, TrimError,
};
use sys::UnixMs;
use wire::{Expiry, Offset};

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Created {
        new: bool,
        seen: Seen,
    },
    Appended {
        new: bool,
        tail: Offset,
        closed: bool,
        producer: Option<(u64, u64)>,
    },
    Chunk {
        life: usize,
        start: Offset,
        next: Offset,
        texts: Vec<String>,
        freshness: Freshness,
    },
    Seen(Seen),
    Page {
        streams: Vec<(String, Seen)>,
        next: Option<String>,
    },
    Deleted,
    /// It waits for the tail to move.
    Waits,
    /// There was nothing to ask.
    Silence,
    Refused(Refusal),
}

/// What is known of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How many streams were made before it.
    pub(crate) life: usize,
    pub(crate) json: bool,
    pub(crate) expiry: Expiry,
    pub(crate) earliest: Offset,
    pub(crate) tail: Offset,
    pub(crate) closed: bool,
    pub(crate) created_at: UnixMs,
}

/// Why an operation was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotFound,
    Gone,
    Exists,
    ContentType,
    Closed {
        tail: Offset,
    },
    Empty,
    StreamSeq {
        tail: Offset,
    },
    ExpectedOffset {
        tail: Offset,
    },
    Fenced {
        current: u64,
    },
    EpochStart {
        received: u64,
    },
    Gap {
        expected: u64,
        received: u64,
    },
    OffsetUnknown,
    Trimmed {
        earliest: Offset,
    },
    BeyondTail {
        tail: Offset,
    },
    SubOffsetAlone,
    /// Nothing the model would ever say.
    Unexpected(String),
}

/// Numbers the lives of streams in the order they were first heard of.
#[derive(Debug, Default)]
pub(crate) struct Lives(HashMap<Incarnation, usize>);

impl Lives {
    fn number(&mut self, incarnation: Incarnation) -> usize {
        let next = self.0.len();
        *self.0.entry(incarnation).or_insert(next)
    }

    pub(crate) fn seen(&mut self, head: &Head) -> Seen {
        Seen {
            life: self.number(head.incarnation),
            json: head.content_type.is_json(),
            expiry: head.expiry,
            earliest: head.earliest,
            tail: head.tail,
            closed: head.closed,
            created_at: head.created_at,
        }
    }

    pub(crate) fn created(&mut self, created: &Created) -> Answer {
        Answer::Created { new: created.outcome == Outcome::New, seen: self.seen(&created.head) }
    }

    pub(crate) fn chunk(&mut self, chunk: &Chunk) -> Answer {
        let text = |message: &[u8]| String::from_utf8_lossy(message).into_owned();
        Answer::Chunk {
            life: self.number(chunk.incarnation),
            start: chunk.start,
            next: chunk.next,
            texts: chunk.messages().map(text).collect(),
            freshness: chunk.freshness,
        }
    }

    pub(crate) fn page(&mut self, page: &Page) -> Answer {
        let streams = page.streams.iter();
        Answer::Page {
            streams: streams.map(|one| (one.path.to_string(), self.seen(&one.head))).collect(),
            next: page.next.as_ref().map(ToString::to_string),
        }
    }
}

impl From<Appended> for Answer {
    fn from(appended: Appended) -> Self {
        let state = appended.producer;
        Self::Appended {
            new: appended.outcome == Outcome::New,
            tail: appended.tail,
            closed: appended.closed,
            producer: state.map(|state| (state.epoch.get(), state.seq.get())),
        }
    }
}

impl From<CreateError> for Refusal {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Exists(_) => Self::Exists,
            CreateError::Gone(_) => Self::Gone,
            other => Self::Unexpected(other.to_string()),
        }
    }
}

impl From<ForkError> for Refusal {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::SourceNotFound(_) => Self::NotFound,
            ForkError::Gone(_) => Self::Gone,
            ForkError::Exists(_) => Self::Exists,
            ForkError::ContentType(_) => Self::ContentType,
            ForkError::OffsetUnknown(_) => Self::OffsetUnknown,
            ForkError::BeyondTail(fact) => Self::BeyondTail { tail: fact.tail },
            ForkError::Trimmed(fact) => Self::Trimmed { earliest: fact.earliest },
            ForkError::SubOffsetAlone => Self::SubOffsetAlone,
            other => Self::Unexpected(other.to_string()),
        }
    }
}

impl From<AppendError> for Refusal {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::NotFound(_) => Self::NotFound,
            AppendError::Gone(_) => Self::Gone,
            AppendError::Closed(fact) => Self::Closed { tail: fact.tail },
            AppendError::ContentType(_) => Self::ContentType,
            AppendError::StreamSeq(fact) => Self::StreamSeq { tail: fact.tail },
            AppendError::ExpectedOffset(fact) => Self::ExpectedOffset { tail: fact.tail },
            AppendError::Fenced(fact) => Self::Fenced { current: fact.current.get() },
            AppendError::EpochStart(fact) => Self::EpochStart { received: fact.received.get() },
            AppendError::Gap(fact) => {
                Self::Gap { expected: fact.expected.get(), received: fact.received.get() }
            }
            AppendError::Empty => Self::Empty,
            other => Self::Unexpected(other.to_string()),
        }
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound(_) => Self::NotFound,
            ReadError::Gone(_) => Self::Gone,
            ReadError::OffsetUnknown(_) => Self::OffsetUnknown,
            ReadError::Trimmed(fact) => Self::Trimmed { earliest: fact.earliest },
            other => Self::Unexpected(other.to_string()),
        }
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Self {
        match error {
            HeadError::NotFound(_) => Self::NotFound,
            HeadError::Gone(_) => Self::Gone,
            other => Self::Unexpected(other.to_string()),
        }
    }
}

impl From<TrimError> for Refusal {
    fn from(error: TrimError) -> Self {
        match error {
            TrimError::NotFound(_) => Self::NotFound,
            TrimError::Gone(_) => Self::Gone,
            TrimError::OffsetUnknown(_) => Self::OffsetUnknown,
            TrimError::BeyondTail(fact) => Self::BeyondTail { tail: fact.tail },
            other => Self::Unexpected(other.to_string()),
        }
    }
}

impl From<DeleteError> for Refusal {
    fn from(error: DeleteError) -> Self {
        match error {
            DeleteError::NotFound(_) => Self::NotFound,
            DeleteError::Gone(_) => Self::Gone,
            other => Self::Unexpected(other.to_string()),
        }
    }
}
