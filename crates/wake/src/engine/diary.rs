//! The diary: a system stream of the same log, in which everything stands before it counts.

use std::sync::Arc;

use log::{
    Append, AppendError, Create, Freshness, Log, Outcome, ReadError, StreamNotFound, Unavailable,
};
use wire::{
    Address, ContentType, Epoch, Messages, Offset, Producer, ProducerSeq, ReadFrom, SystemPath,
    caps::CHUNK_BYTES_DEFAULT,
};

use super::OpenError;
use crate::book::{Book, Entry};

/// Where it is.
const PATH: &str = "wake/diary";
/// Who writes it: each engine with an epoch of its own, so that an older one cannot go on.
const WRITER: &str = "wake";
/// Entries per subscription, and in any case, before the story is told anew.
const ENTRIES_PER_SUBSCRIPTION: usize = 8;
const ENTRIES_MIN: usize = 10_000;
/// Bytes of one append, unless a single entry is larger.
const APPEND_BYTES_USUAL: usize = 1024 * 1024;

/// The diary, open for writing.
#[derive(Debug)]
pub(super) struct Diary {
    log: Arc<dyn Log>,
    address: Address,
    producer: Producer,
    /// Entries since the story was last told anew.
    entries: usize,
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
        let mut diary = Self { log, address, producer, entries: 0 };
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
        self.entries = 0;
        loop {
            let chunk = self.log.read(&self.address, from, CHUNK_BYTES_DEFAULT).await?;
            for message in chunk.messages() {
                let entry = serde_json::from_slice::<Option<Entry>>(message);
                let entry = entry.map_err(|error| OpenError::Damaged(error.to_string()))?;
                entry.iter().for_each(|entry| book.apply(entry));
                self.entries += 1;
            }
            from = ReadFrom::At(chunk.next);
            if chunk.freshness != Freshness::Behind {
                return Ok(book);
            }
        }
    }

    /// Writes entries, all or none.
    pub(super) async fn write(&mut self, entries: &[Entry]) -> Result<(), NotWritten> {
        if entries.is_empty() {
            return Ok(());
        }
        let texts: Vec<Vec<u8>> =
            entries.iter().filter_map(|entry| serde_json::to_vec(entry).ok()).collect();
        let Ok(messages) = Messages::copied(texts.iter().map(Vec::as_slice)) else {
            return Err(NotWritten::Unavailable(Unavailable::Overloaded));
        };
        let written = self.append(messages).await;
        self.entries += entries.len();
        written.map(|_| ()).map_err(|error| match error {
            AppendError::Fenced(_) | AppendError::Gap(_) => NotWritten::TakenOver,
            AppendError::Unavailable(why) => NotWritten::Unavailable(why),
            other => NotWritten::Unavailable(Unavailable::Poisoned(other.to_string())),
        })
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
            && self.log.capabilities().trim
    }

    /// Tells the story anew, and drops what was told before.
    pub(super) async fn retell(&mut self, book: &Book) -> Result<(), NotWritten> {
        let head = self.log.head(&self.address).await;
        let start = head.map_err(|error| NotWritten::Unavailable(unavailable(error.into())))?.tail;
        self.entries = 0;
        let mut batch = Batch::default();
        for (id, subscription) in book.iter() {
            let is = crate::subscription::Event::Is(Box::new(subscription.clone()));
            batch.add(Entry { id: id.clone(), events: vec![is] }, subscription.links.len());
            if batch.is_full() {
                self.write(&std::mem::take(&mut batch).entries).await?;
            }
        }
        self.write(&batch.entries).await?;
        self.trim(start).await;
        Ok(())
    }

    async fn trim(&self, before: Offset) {
        // What is told twice does no harm; the next telling tries again.
        let _ = self.log.trim(&self.address, before).await;
    }
}

/// Entries that go into one append.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    /// As far as can be told without writing them.
    bytes: usize,
}

impl Batch {
    fn add(&mut self, entry: Entry, links: usize) {
        /// Of one link, and of the rest.
        const BYTES_USUAL: usize = 256;
        self.entries.push(entry);
        self.bytes += (links + 4) * BYTES_USUAL;
    }

    fn is_full(&self) -> bool {
        self.bytes >= APPEND_BYTES_USUAL
    }
}

fn unavailable(error: ReadError) -> Unavailable {
    match error {
        ReadError::Unavailable(why) => why,
        _ => Unavailable::Read(StreamNotFound.to_string()),
    }
}
