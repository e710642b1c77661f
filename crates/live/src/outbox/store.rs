//! What an outbox has written down: a stream of its own, in a log that is here.
//!
//! ```text
//! {"opened": id}  {"for": …}  {"over": 0}  {"entry": 1}  {"entry": 2}  {"over": 1} ...
//!  ^ whoever opens it writes what waits once more, after this, and trims what was before
//! ```

use log::{Append, AppendError, Create, Freshness, ReadError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use state::Json;
use sys::{Cancellation, Sys};
use wire::{ContentType, Epoch, Messages, Offset, Producer, ProducerId, ProducerSeq, ReadFrom};

use crate::stream::Stream;
use crate::{caps::READ_BYTES, error::PersistError, retry::Retry};

/// Something to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Grows from one to the next, in all lives of the outbox.
    pub(crate) number: u64,
    /// Who knows what to do with it.
    pub(crate) action: SmolStr,
    pub(crate) body: Json,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Opened(String),
    /// What its entries are for.
    For(String),
    Entry(EntryLine),
    /// All entries up to this one were sent, or refused for good.
    Over(u64),
}

#[derive(Serialize, Deserialize)]
struct EntryLine {
    number: u64,
    action: SmolStr,
    body: Box<RawValue>,
}

/// The stream of an outbox, and the right to write to it.
pub(super) struct Store {
    stream: Stream,
    sys: Sys,
    cancellation: Cancellation,
    id: String,
    /// What its entries are for.
    purpose: String,
    producer: Producer,
    /// How many lines there are.
    lines: usize,
    /// The highest number that was ever given. It lasts, since clocks are set back now and then.
    last_number: u64,
}

/// What is found by reading the stream.
#[derive(Default)]
struct Found {
    id: Option<String>,
    purpose: Option<String>,
    entries: Vec<Entry>,
    last_number: u64,
    end: Option<Offset>,
}

impl Store {
    /// Takes an outbox over from whoever had it before; answers also what waits in it.
    pub(super) async fn open(
        stream: Stream,
        purpose: String,
        sys: &Sys,
        cancellation: Cancellation,
    ) -> Result<(Self, Vec<Entry>), PersistError> {
        let able = stream.log.capabilities();
        if !able.trim || !able.expected_offset {
            let why = "an outbox needs a log with trim and expected offsets, such as one here";
            return Err(PersistError::fatal(why));
        }
        create(&stream).await?;
        let id: ProducerId = "outbox".parse().map_err(PersistError::fatal)?;
        let epoch = sys.clock.unix_ms().get().saturating_mul(1_000) + sys.chance.below(1_000);
        let producer = Producer { id, epoch: Epoch::new(epoch), seq: ProducerSeq::FIRST };
        let name = format!("{:016x}", sys.chance.u64());
        let (sys, lines, last_number) = (sys.clone(), 0, 0);
        let mut store =
            Self { stream, sys, cancellation, id: name, purpose, producer, lines, last_number };
        loop {
            let found = store.read().await?;
            found.check(&store)?;
            store.last_number = found.last_number;
            if let Some(id) = found.id {
                store.id = id;
            }
            match store.rewrite(&found.entries, found.end).await {
                Ok(()) => return Ok((store, found.entries)),
                // Somebody wrote to it meanwhile.
                Err(Refused::Moved) => {}
                Err(Refused::Fenced(current)) => {
                    store.producer.epoch = Epoch::new(current.get() + 1);
                }
                Err(Refused::Other(error)) => return Err(error),
            }
        }
    }

    /// What tells this outbox from all others.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The highest number that an entry ever had.
    pub(super) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Makes entries last.
    pub(super) async fn push(&mut self, entries: &[Entry]) -> Result<(), PersistError> {
        let numbers = entries.iter().map(|entry| entry.number);
        self.last_number = numbers.fold(self.last_number, u64::max);
        let lines = entries.iter().map(entry_line).collect::<Result<Vec<_>, _>>()?;
        self.append(&lines, None).await.map_err(Refused::into_error)
    }

    /// Notes that all entries up to this one need no more work.
    pub(super) async fn over(&mut self, through: u64) -> Result<(), PersistError> {
        self.append(&[Line::Over(through)], None).await.map_err(Refused::into_error)
    }

    /// True if most of what is written down is over.
    pub(super) fn is_wasteful(&self, waiting: usize) -> bool {
        self.lines > 4 * waiting + 1_024
    }

    /// Writes down what waits, and forgets everything before.
    pub(super) async fn compact(&mut self, waiting: &[Entry]) -> Result<(), PersistError> {
        let tail = self.stream.log.head(&self.stream.address).await;
        let tail = tail.map_err(PersistError::fatal)?.tail;
        self.rewrite(waiting, Some(tail)).await.map_err(Refused::into_error)
    }

    async fn rewrite(&mut self, waiting: &[Entry], end: Option<Offset>) -> Result<(), Refused> {
        let over = waiting.first().map_or(self.last_number, |first| first.number.saturating_sub(1));
        let mut lines =
            vec![Line::Opened(self.id.clone()), Line::For(self.purpose.clone()), Line::Over(over)];
        for entry in waiting {
            lines.push(entry_line(entry).map_err(Refused::Other)?);
        }
        self.append(&lines, end).await?;
        self.lines = lines.len();
        if let Some(end) = end {
            // What cannot be trimmed now is the next time.
            let _ = self.stream.log.trim(&self.stream.address, end).await;
        }
        Ok(())
    }

    /// Appends until it is known what came of it: a repeated append is recognised by its number.
    async fn append(&mut self, lines: &[Line], expected: Option<Offset>) -> Result<(), Refused> {
        let texts: Result<Vec<_>, _> = lines.iter().map(serde_json::to_string).collect();
        let texts = texts.map_err(|error| Refused::Other(PersistError::fatal(error)))?;
        let messages = Messages::copied(texts.iter().map(String::as_bytes));
        let messages = messages.map_err(|error| Refused::Other(PersistError::fatal(error)))?;
        let mut failures = 0;
        loop {
            let producer = Some(self.producer.clone());
            let append = Append { producer, expected, ..Append::messages(messages.clone()) };
            match self.stream.log.append(&self.stream.address, append).await {
                Ok(_) => {
                    self.producer.seq = self.producer.seq.next();
                    self.lines += lines.len();
                    return Ok(());
                }
                Err(AppendError::ExpectedOffset(_)) => return Err(Refused::Moved),
                Err(AppendError::Fenced(fenced)) => return Err(Refused::Fenced(fenced.current)),
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &self.sys.chance);
                    tracing::warn!(%error, failures, "an outbox cannot write to its own stream");
                    if !self.cancellation.rest(pause, &self.sys).await {
                        return Err(Refused::Other(PersistError::fatal(error)));
                    }
                }
                Err(error) => return Err(Refused::Other(PersistError::fatal(error))),
            }
        }
    }

    async fn read(&self) -> Result<Found, PersistError> {
        let (mut found, mut from, mut failures) = (Found::default(), ReadFrom::Start, 0);
        loop {
            match self.stream.log.read(&self.stream.address, from, READ_BYTES).await {
                Ok(chunk) => {
                    chunk.messages().try_for_each(|message| found.take(message))?;
                    (from, found.end) = (ReadFrom::At(chunk.next), Some(chunk.next));
                    if chunk.freshness != Freshness::Behind {
                        return Ok(found);
                    }
                }
                // Somebody trimmed it meanwhile.
                Err(ReadError::Trimmed(_)) => (found, from) = (Found::default(), ReadFrom::Start),
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &self.sys.chance);
                    if !self.cancellation.rest(pause, &self.sys).await {
                        return Err(PersistError::fatal(error));
                    }
                }
                Err(error) => return Err(PersistError::fatal(error)),
            }
        }
    }
}

async fn create(stream: &Stream) -> Result<(), PersistError> {
    let json: ContentType = "application/json".parse().map_err(PersistError::fatal)?;
    let create = Create { content_type: Some(json), ..Create::default() };
    let created = stream.log.create(&stream.address, create).await;
    created.map(drop).map_err(PersistError::fatal)
}

impl Found {
    /// Who sends to one place what waits for another does harm.
    fn check(&self, store: &Store) -> Result<(), PersistError> {
        match &self.purpose {
            Some(other) if *other != store.purpose && !self.entries.is_empty() => {
                Err(PersistError::fatal(format!(
                    "{} transactions wait in this outbox for {other}, and it was opened for {}; \
                     give each an outbox of its own",
                    self.entries.len(),
                    store.purpose,
                )))
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, message: &[u8]) -> Result<(), PersistError> {
        let line: Line = serde_json::from_slice(message).map_err(|error| {
            let found = String::from_utf8_lossy(&message[..message.len().min(80)]).into_owned();
            PersistError::fatal(format!(
                "the stream of the outbox holds something else: {found}: {error}"
            ))
        })?;
        match line {
            Line::Opened(id) => *self = Self { id: Some(id), ..Self::default() },
            Line::For(purpose) => self.purpose = Some(purpose),
            Line::Entry(EntryLine { number, action, body }) => {
                self.last_number = self.last_number.max(number);
                self.entries.push(Entry { number, action, body: Json::from(&*body) });
            }
            Line::Over(through) => {
                self.last_number = self.last_number.max(through);
                self.entries.retain(|entry| entry.number > through);
            }
        }
        Ok(())
    }
}

fn entry_line(entry: &Entry) -> Result<Line, PersistError> {
    let body = RawValue::from_string(entry.body.as_str().to_owned());
    let body = body.map_err(PersistError::fatal)?;
    Ok(Line::Entry(EntryLine { number: entry.number, action: entry.action.clone(), body }))
}

/// The stream of the outbox did not take what was written.
enum Refused {
    /// It has more than was read.
    Moved,
    /// It has another owner.
    Fenced(Epoch),
    Other(PersistError),
}

impl Refused {
    fn into_error(self) -> PersistError {
        match self {
            Self::Moved => PersistError::fatal("somebody else writes to the stream of the outbox"),
            Self::Fenced(_) => PersistError::fatal(
                "the outbox was opened elsewhere; what waits in it is sent from there",
            ),
            Self::Other(error) => error,
        }
    }
}
