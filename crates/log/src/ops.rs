//! What is asked of a log, and what it answers.

use bytes::Bytes;
use sys::UnixMs;
use wire::{
    Address, ContentType, Epoch, Expiry, Messages, Offset, Producer, ProducerSeq, ReadFrom,
    StreamPath, StreamSeq, SubOffset,
};

use crate::OffsetBeyondTail;

/// What an implementation can do beyond the Durable Streams protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// [`crate::Log::list`].
    pub list: bool,
    /// [`Append::expected`].
    pub expected_offset: bool,
    /// [`crate::Log::trim`].
    pub trim: bool,
    /// [`crate::Log::watch`].
    pub watch: bool,
    /// System streams.
    pub system_streams: bool,
}

impl Capabilities {
    /// All of them.
    pub const ALL: Self =
        Self { list: true, expected_offset: true, trim: true, watch: true, system_streams: true };
}

/// Which life of an address a stream is: a stream made anew under an old name has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub(crate) u64);

impl Incarnation {
    /// From the number that the log which keeps the stream gave it.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// As a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Whether an operation ends the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    /// More may follow.
    #[default]
    LeaveOpen,
    /// Nothing can follow.
    Close,
}

/// A stream to make.
#[derive(Clone, Debug, Default)]
pub struct Create {
    /// What its messages are; `application/octet-stream` if not said.
    pub content_type: Option<ContentType>,
    /// How long it lives.
    pub expiry: Expiry,
    /// Its first messages.
    pub messages: Messages,
    /// Whether they are also its last.
    pub closing: Closing,
}

/// A stream to make from another.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The stream to continue.
    pub source: Address,
    /// Where to leave it; its tail if not said.
    pub offset: Option<Offset>,
    /// How far past that offset, in messages of a JSON stream or bytes of any other.
    pub sub_offset: SubOffset,
    /// Must be the source's, if said.
    pub content_type: Option<ContentType>,
    /// How long the fork lives.
    pub lifetime: Lifetime,
    /// Messages after the inherited ones.
    pub messages: Messages,
    /// Whether they are also its last.
    pub closing: Closing,
}

/// How long a fork lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// As its source does, with a window of its own.
    #[default]
    Inherited,
    /// As said.
    Own(Expiry),
}

impl Fork {
    /// A fork of `source` at its tail.
    #[must_use]
    pub fn of(source: impl Into<Address>) -> Self {
        Self {
            source: source.into(),
            offset: None,
            sub_offset: SubOffset::default(),
            content_type: None,
            lifetime: Lifetime::Inherited,
            messages: Messages::none(),
            closing: Closing::LeaveOpen,
        }
    }
}

/// The answer to a create or a fork.
#[derive(Clone, Debug)]
#[must_use = "says whether the stream is new"]
pub struct Created {
    /// New, or confirmed.
    pub outcome: Outcome,
    /// The stream as it is now.
    pub head: Head,
}

/// Whether an operation that may be repeated did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    New,
    /// It had been done before.
    Duplicate,
}

/// Messages to append, and the conditions under which.
#[derive(Clone, Debug)]
pub struct Append {
    /// The messages; none only together with [`Closing::Close`].
    pub messages: Messages,
    /// Must be the stream's, if said; ignored without messages.
    pub content_type: Option<ContentType>,
    /// Makes the append safe to repeat.
    pub producer: Option<Producer>,
    /// Must exceed the last one.
    pub seq: Option<StreamSeq>,
    /// Must be the tail.
    pub expected: Option<Offset>,
    /// Whether to close the stream, too.
    pub closing: Closing,
}

impl Append {
    /// These messages, unconditionally.
    #[must_use]
    pub fn messages(messages: Messages) -> Self {
        Self {
            messages,
            content_type: None,
            producer: None,
            seq: None,
            expected: None,
            closing: Closing::LeaveOpen,
        }
    }
}

/// The answer to an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "says where the stream ends now"]
pub struct Appended {
    /// Stored now, or stored before.
    pub outcome: Outcome,
    /// The tail.
    pub tail: Offset,
    /// Whether the stream is closed.
    pub closed: bool,
    /// What is remembered of the producer.
    pub producer: Option<ProducerState>,
}

/// The newest append of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Its life.
    pub epoch: Epoch,
    /// The highest sequence accepted in that life.
    pub seq: ProducerSeq,
}

/// Whole messages, and where the reader stands after them.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Which life of the address was read.
    pub incarnation: Incarnation,
    /// What the messages are.
    pub content_type: ContentType,
    /// Where the first message begins.
    pub start: Offset,
    /// Where the next read begins.
    pub next: Offset,
    /// The messages, in runs as they are stored.
    pub runs: Vec<Messages>,
    /// Where the reader stands.
    pub freshness: Freshness,
}

/// Where a reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// More can be read at once.
    Behind,
    /// At the tail of an open stream.
    UpToDate,
    /// At the end of a closed stream.
    Closed,
}

impl Chunk {
    /// All bytes, end to end.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        match self.runs.as_slice() {
            [only] => only.data().clone(),
            runs => {
                let mut bytes = Vec::with_capacity(runs.iter().map(|run| run.data().len()).sum());
                runs.iter().for_each(|run| bytes.extend_from_slice(run.data()));
                bytes.into()
            }
        }
    }

    /// Some if the reader who asked for `from` was ahead of the tail: what it has seen after the
    /// tail is not in the log, as after the restore of an older copy.
    #[must_use]
    pub fn overshoot(&self, from: ReadFrom) -> Option<OffsetBeyondTail> {
        match from {
            ReadFrom::At(asked) if asked > self.next => Some(OffsetBeyondTail { tail: self.next }),
            _ => None,
        }
    }

    /// The messages, first to last.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.runs.iter().flat_map(Messages::iter)
    }
}

/// What is known of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which life of the address.
    pub incarnation: Incarnation,
    /// What its messages are.
    pub content_type: ContentType,
    /// Its lifetime as set.
    pub expiry: Expiry,
    /// The earliest offset that can be read.
    pub earliest: Offset,
    /// Where the next message will stand.
    pub tail: Offset,
    /// Whether it is closed.
    pub closed: bool,
    /// When it was made.
    pub created_at: UnixMs,
}

/// How to delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delete {
    /// The stream; its forks keep what they inherited.
    #[default]
    Stream,
    /// The stream and every fork of it, and its bytes from the disk as soon as possible.
    Erase,
}

/// Which streams to list.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Only paths that begin with this text.
    pub prefix: String,
    /// Only paths after this one.
    pub after: Option<StreamPath>,
    /// At most this many; 0 for a full page of [`wire::caps::LIST_PAGE_MAX`].
    pub limit: usize,
}

/// One page of streams.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The streams, in order of their paths.
    pub streams: Vec<Listed>,
    /// Ask for more with [`List::after`] this; none if this was all.
    pub next: Option<StreamPath>,
}

/// One stream of a page.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its path.
    pub path: StreamPath,
    /// What is known of it.
    pub head: Head,
}
