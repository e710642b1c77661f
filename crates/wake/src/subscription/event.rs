//! What happens to a subscription, as it is stored: kinds and fields are never used for another
//! meaning, and diaries that were written long ago are read for ever.

use serde::{Deserialize, Serialize};
use wire::{Offset, StreamPath};

use super::{Subscription, told};
use crate::InvalidAck;

/// What happened to a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// It is like this: it was made, or its story is told anew.
    Is(Box<Subscription>),
    /// Links that it has besides those that the next [`Event::Is`] names: they count from then on,
    /// so that a story that breaks off in between changes nothing.
    Part(Vec<Linked>),
    Deleted,
    Linked(Linked),
    /// A client does not name the stream any more.
    Unlinked(#[serde(with = "crate::text")] StreamPath),
    /// A stream that the pattern found is at rest, or gone: from now on its watermark speaks for
    /// it.
    Left(#[serde(with = "crate::text")] StreamPath),
    Woken(Wake),
    Acked(Vec<Ack>),
    /// The only wake has come so far; told before there could be several.
    Stage(Stage),
    /// The only wake is over; told before there could be several.
    Ended,
    /// A wake has come so far.
    Entered {
        generation: u64,
        stage: Stage,
    },
    /// A wake is over.
    Over {
        generation: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Linked {
    #[serde(with = "crate::text")]
    pub(crate) path: StreamPath,
    pub(crate) link: Link,
}

/// A stream that a subscription follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    /// Named by a client.
    pub(crate) is_explicit: bool,
    /// Found by the pattern.
    pub(crate) is_matched: bool,
    /// Up to where everything is done; none before the start.
    #[serde(with = "told::offset")]
    pub(crate) acked: Option<Offset>,
    /// Which life of the stream that is said of; none if it was not there, or if nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) life: Option<u64>,
    /// Where the stream ends, as far as is known; not stored, since the log knows.
    #[serde(skip)]
    pub(crate) tail: Offset,
}

/// A call to work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wake {
    pub(crate) id: String,
    pub(crate) generation: u64,
    /// What there is to do, as it stood.
    pub(crate) streams: Vec<Task>,
    pub(crate) stage: Stage,
    /// In a row.
    #[serde(default, skip_serializing_if = "told::is_zero")]
    pub(crate) failures: u32,
}

/// A stream with work, as it stood when the wake was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    #[serde(with = "crate::text")]
    pub(crate) path: StreamPath,
    #[serde(with = "crate::text")]
    pub(crate) tail: Offset,
    /// Which life of the stream it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) life: Option<u64>,
}

/// How far a wake has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// The webhook is being called, or waits for its turn to be. The lease does not run before the
    /// call is answered: however long the line is, no call is made twice. (Diaries may hold an
    /// `until` from when it did.)
    Calling {},
    /// A message in the wake stream asks for a worker.
    Offered,
    /// The call or the message failed, and is made again in its time.
    Waiting { next_at: u64 },
    /// A worker is at it.
    Held { holder: Option<String>, until: u64 },
}

/// How far a worker has come in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// The stream.
    #[serde(rename = "stream", with = "crate::text")]
    pub path: StreamPath,
    /// The end of what is done.
    #[serde(with = "crate::text")]
    pub offset: Offset,
}

/// A stream as the log shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Where it ends; at its start if it is not there.
    pub(crate) tail: Offset,
    /// Which life of its name it is; none if it is not there.
    pub(crate) life: Option<u64>,
}

impl Link {
    /// True if the stream is another one than it was.
    pub(super) fn is_another(&self, sight: Sight) -> bool {
        match self.life {
            Some(life) => sight.life != Some(life),
            // Lives were not always told apart: then it shows by its length.
            None => self.acked.is_some_and(|acked| acked > sight.tail),
        }
    }

    /// True if a client named it and it is not there. (What the pattern found has no link then.)
    pub(super) fn is_gone(&self) -> bool {
        self.life.is_none() && self.tail == Offset::START
    }

    /// True if a watermark can speak for it: the pattern alone found it, and all is done.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.is_explicit && self.acked == Some(self.tail)
    }

    /// True if it holds messages that nobody has acknowledged.
    pub(super) fn has_work(&self) -> bool {
        self.tail > self.acked.unwrap_or_default()
    }
}

impl Ack {
    pub(super) fn refused(&self) -> InvalidAck {
        InvalidAck { path: self.path.clone(), offset: self.offset }
    }
}

impl Task {
    /// True if the stream is still the one that the task is about, as far as that was told.
    pub(super) fn is_of(&self, link: &Link) -> bool {
        self.life.is_none() || self.life == link.life
    }
}

impl Wake {
    /// When something is to be done about it even if nobody asks.
    pub(super) fn due_at(&self) -> Option<u64> {
        match self.stage {
            Stage::Held { until, .. } => Some(until),
            Stage::Waiting { next_at } => Some(next_at),
            // The call itself tells how it ended.
            Stage::Calling {} | Stage::Offered => None,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Held { .. })
    }

    pub(super) fn enter(&mut self, stage: &Stage) {
        match stage {
            Stage::Waiting { .. } => self.failures = self.failures.saturating_add(1),
            Stage::Held { .. } => self.failures = 0,
            Stage::Calling {} | Stage::Offered => {}
        }
        self.stage = stage.clone();
    }
}
