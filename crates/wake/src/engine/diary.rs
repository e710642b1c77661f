//! The diary: a system stream of the same log, in which everything stands before it counts.

use std::sync::Arc;

use log::{
    Append, AppendError, Create, Freshness, Log, Outcome, ReadError, StreamNotFound, Unavailable,
};
use wire::{
    Address, ContentType, Epoch, Messages, Offset, Producer, ProducerSeq, ReadFrom, SystemPath,
    caps::{APPEND_MESSAGES_MAX, CHUNK_BYTES_DEFAULT},
};

use super::OpenError;
use crate::{
    book::{Book, Entry, Line},
    caps::{DIARY_APPEND_BYTES, MARKS_PER_MESSAGE_MAX},
};

/// Where it is.
const PATH: &str = "wake/diary";
/// Who writes it: each engine with an epoch of its own, so that an older one cannot go on.
const WRITER: &str = "wake";
/// Entries per subscription, and in any case, before the story is told anew.
const ENTRIES_PER_SUBSCRIPTION: usize = 8;
const ENTRIES_MIN: usize = 10_000;

/// The diary, open for writing.
#[derive(Debug)]
pub(super) struct Diary {
    log: Arc<dyn Log>,
    address: Address,
    producer: Producer,
    /// Entries since the story was last told anew.
    entries: usize,
    /// Bytes of these.
    bytes: usize,
    /// Bytes of the story when it was last told; none before that.
    told_bytes: usize,
}

/// Why nothing could be written.
#[derive(Debug)]
pub(super) enum NotWritten {
    /// Another engine has taken over.
    TakenOver,
    /// It may be there or not: only the log knows.
    Unavailable(Unavailable),
}

impl Diary {
    /// Takes the diary over, and reads the book from it.
    pub(super) async fn open(log: Arc<dyn Log>) -> Result<(Self, Book), OpenError> {
        let address = Address::from(PATH.parse::<SystemPath>().expect("a plain path"));
        let content_type = Some(ContentType::json());
        let create = Create { content_type, ..Create::default() };
        let _ = log.create(&address, create).await?;
        let id = WRITER.parse().expect("a plain id");
        let producer = Producer { id, epoch: Epoch::new(0), seq: ProducerSeq::new(0) };
        let mut diary = Self { log, address, producer, entries: 0, bytes: 0, told_bytes: 0 };
        diary.take_over().await?;
        let book = diary.read().await?;
        Ok((diary, book))
    }

    /// Begins an epoch above all others.
    async fn take_over(&mut self) -> Result<(), OpenError> {
        loop {
            match self.append(Messages::one("null").expect("one small message")).await {
                Ok(Outcome::New) => return Ok(()),
                Ok(Outcome::Duplicate) => self.begin_epoch(self.producer.epoch.get() + 1),
                Err(AppendError::Fenced(fact)) => self.begin_epoch(fact.current.get() + 1),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn begin_epoch(&mut self, epoch: u64) {
        self.producer.epoch = Epoch::new(epoch);
        self.producer.seq = ProducerSeq::new(0);
    }

    /// Everything that is written.
    pub(super) async fn read(&mut self) -> Result<Book, OpenError> {
        let (mut book, mut from) = (Book::default(), ReadFrom::Start);
        (self.entries, self.bytes) = (0, 0);
        loop {
            let chunk = self.log.read(&self.address, from, CHUNK_BYTES_DEFAULT).await?;
            for message in chunk.messages() {
                let line = serde_json::from_slice::<Option<Line>>(message);
                let line = line.map_err(|error| OpenError::Damaged(error.to_string()))?;
                match line {
                    Some(line) => book.read(&line),
                    None => book.taken_over(),
                }
                self.entries += 1;
                self.bytes += message.len();
            }
            from = ReadFrom::At(chunk.next);
            if chunk.freshness != Freshness::Behind {
                return Ok(book);
            }
        }
    }

    /// Writes a draft, in as many appends as it takes. A crash leaves the first entries of it, each
    /// of them whole: what the owner had come to when it decided that much.
    pub(super) async fn write(&mut self, draft: &Draft) -> Result<(), NotWritten> {
        for texts in draft.appends() {
            let Ok(messages) = Messages::copied(texts.iter().map(Vec::as_slice)) else {
                tracing::error!("an entry of the diary is larger than an append may be");
                return Err(NotWritten::Unavailable(Unavailable::Overloaded));
            };
            self.bytes += messages.data().len();
            let written = self.append(messages).await;
            self.entries += texts.len();
            written.map_err(|error| match error {
                AppendError::Fenced(_) | AppendError::Gap(_) => NotWritten::TakenOver,
                AppendError::Unavailable(why) => NotWritten::Unavailable(why),
                other => NotWritten::Unavailable(Unavailable::Poisoned(other.to_string())),
            })?;
        }
        Ok(())
    }

    async fn append(&mut self, messages: Messages) -> Result<Outcome, AppendError> {
        let producer = Some(self.producer.clone());
        let append = Append { producer, ..Append::messages(messages) };
        let appended = self.log.append(&self.address, append).await?;
        self.producer.seq = self.producer.seq.next();
        Ok(appended.outcome)
    }

    /// True if most of what is written does not matter any more.
    pub(super) fn is_long(&self, book: &Book) -> bool {
        self.entries > ENTRIES_MIN.max(ENTRIES_PER_SUBSCRIPTION * book.len())
            // A few large subscriptions have a long story, however often it is told.
            && self.bytes > 2 * self.told_bytes
            && self.log.capabilities().trim
    }

    /// Tells the story anew, and drops what was told before.
    pub(super) async fn retell(&mut self, book: &Book) -> Result<(), NotWritten> {
        let head = self.log.head(&self.address).await;
        let start = head.map_err(|error| NotWritten::Unavailable(unavailable(error.into())))?.tail;
        (self.entries, self.bytes) = (0, 0);
        let mut draft = Draft::default();
        let mut last = None;
        let marks = std::iter::from_fn(|| {
            let marks = book.marks.part(last, MARKS_PER_MESSAGE_MAX);
            last = Some(*marks.last()?);
            Some(Line::Marks { marks })
        });
        let stories = book.iter().flat_map(|(id, subscription)| {
            let told = subscription.clone().told();
            told.map(|event| Line::Entry(Entry { id: id.clone(), events: vec![event] }))
        });
        for line in marks.chain(stories) {
            draft.add(&line);
            if draft.is_full() {
                self.write(&std::mem::take(&mut draft)).await?;
            }
        }
        self.write(&draft).await?;
        self.told_bytes = self.bytes;
        self.trim(start).await;
        Ok(())
    }

    async fn trim(&self, before: Offset) {
        // What is told twice does no harm; the next telling tries again.
        let _ = self.log.trim(&self.address, before).await;
    }
}

/// Entries that are to be written, in their order.
#[derive(Debug, Default)]
pub(super) struct Draft {
    texts: Vec<Vec<u8>>,
    bytes: usize,
}

impl Draft {
    pub(super) fn add(&mut self, line: &Line) {
        let text = line.text();
        self.bytes += text.len();
        self.texts.push(text);
    }

    /// True if it should be written before more is added.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= DIARY_APPEND_BYTES
    }

    /// What goes into one append each. An entry is never cut.
    fn appends(&self) -> impl Iterator<Item = &[Vec<u8>]> {
        let mut rest = &self.texts[..];
        std::iter::from_fn(move || {
            let mut bytes = 0;
            let fits = rest.iter().take(APPEND_MESSAGES_MAX).take_while(|text| {
                bytes += text.len();
                bytes <= DIARY_APPEND_BYTES
            });
            let count = fits.count().max(1);
            let (next, left) = rest.split_at_checked(count)?;
            rest = left;
            Some(next)
        })
    }
}

fn unavailable(error: ReadError) -> Unavailable {
    match error {
        ReadError::Unavailable(why) => why,
        _ => Unavailable::Read(StreamNotFound.to_string()),
    }
}
