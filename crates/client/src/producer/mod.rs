//! Producers: appends that are stored exactly once, in order, many at a time.
//!
//! One task owns a producer. What is submitted waits in line; a batch leaves at once if none is
//! under way, else when it is full or has lingered. Each batch has a sequence number of its own,
//! so the server knows a repeated one, and one that came too early is sent again in its turn.
//!
//! ```text
//!   reserve ──▶ submit ──▶ in line ──▶ under way ──▶ ticket: stored
//!   waits for room                  ▲        │
//!                                   └─ early ┘ or fenced and claimed anew
//! ```

mod line;
mod owner;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use log::Closing;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use wire::{
    BadMessages, ContentType, Epoch, ProducerId, ProducerSeq, caps::APPEND_BYTES_MAX, json,
};

use crate::{
    Failure, OffsetToken, Refusal, Stream,
    caps::{IN_FLIGHT_MAX, PRODUCER_BYTES_MAX, PRODUCER_MESSAGES_MAX},
};
use line::Item;
use owner::{Command, Owner};

/// How a producer works.
#[derive(Debug)]
#[must_use = "a producer begins with start"]
pub struct ProducerSettings {
    stream: Stream,
    id: ProducerId,
    epoch: Option<Epoch>,
    claims: Option<bool>,
    content_type: Option<ContentType>,
    linger: Duration,
    batch_bytes_max: usize,
    batch_messages_max: usize,
    in_flight_max: usize,
}

/// Numbers that make no producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadProducerSettings {
    /// Batches without room.
    #[error("a batch must have room for 1 to {APPEND_BYTES_MAX} bytes")]
    BatchBytes,
    /// Batches without messages.
    #[error("a batch must have room for at least one message")]
    BatchMessages,
    /// Nothing may leave.
    #[error("from 1 to {IN_FLIGHT_MAX} batches may be under way")]
    InFlight,
}

/// Why messages were not stored, or may not have been.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ProducerError {
    /// It is no message.
    #[error(transparent)]
    Message(#[from] BadMessages),
    /// It is no JSON value, and the stream holds those.
    #[error("the message is not one JSON value: {0}")]
    NotJson(String),
    /// A newer life of this producer has taken over.
    #[error("epoch {current} of this producer has taken over; stop, or claim a higher one")]
    Fenced {
        /// The newer life.
        current: Epoch,
    },
    /// The stream is closed.
    #[error("the stream is closed; nothing can be appended")]
    Closed,
    /// The server lacks what we sent before: it has lost something.
    #[error("the server expects sequence {expected}, but {sent} is the oldest not stored")]
    Gap {
        /// What would be accepted.
        expected: ProducerSeq,
        /// What was sent.
        sent: ProducerSeq,
    },
    /// The server refused it, and nothing of its batch is stored. Those after it go on.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The message is larger than what was reserved for it.
    #[error("{given} bytes do not fit into the room that was reserved for {reserved}")]
    LargerThanReserved {
        /// What was asked for.
        reserved: usize,
        /// What was submitted.
        given: usize,
    },
    /// No answer came, whatever was tried: it may be stored or not.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// An earlier batch failed, so this one was not sent.
    #[error("an earlier batch failed, and nothing may overtake it: {0}")]
    Behind(String),
    /// The producer has ended.
    #[error("the producer has ended; start another")]
    Ended,
}

/// Appends exactly once. Cheap to clone; it ends with its last clone, once all is stored.
#[derive(Clone, Debug)]
pub struct Producer {
    commands: mpsc::Sender<Command>,
    bytes: Arc<Semaphore>,
    is_json: bool,
}

/// Room for a message.
#[derive(Debug)]
#[must_use = "room is for a message to be submitted"]
pub struct Permit {
    slot: mpsc::OwnedPermit<Command>,
    room: OwnedSemaphorePermit,
    reserved: usize,
    is_json: bool,
}

/// What becomes of a message. The message is on its way whether or not anybody waits.
#[derive(Debug)]
#[must_use = "only the ticket says whether the message was stored"]
pub struct Ticket(oneshot::Receiver<Result<Receipt, ProducerError>>);

/// The message is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The stream's end after its batch.
    pub tail: OffsetToken,
    /// Whether an earlier attempt had stored it.
    pub is_duplicate: bool,
    /// In which life.
    pub epoch: Epoch,
    /// In which batch of that life.
    pub seq: ProducerSeq,
}

impl ProducerSettings {
    pub(crate) fn new(stream: Stream, id: ProducerId) -> Self {
        Self {
            stream,
            id,
            epoch: None,
            claims: None,
            content_type: None,
            linger: Duration::ZERO,
            batch_bytes_max: 1024 * 1024,
            batch_messages_max: 10_000,
            in_flight_max: 4,
        }
    }

    /// Which life it is. If not said, a new one is claimed.
    pub fn epoch(self, epoch: Epoch) -> Self {
        Self { epoch: Some(epoch), ..self }
    }

    /// Claims a higher epoch whenever somebody else has taken over, instead of giving up. If not
    /// said, a producer claims its own epoch when it begins, and gives up once it is fenced.
    pub fn claims(self, claims: bool) -> Self {
        Self { claims: Some(claims), ..self }
    }

    /// What the stream holds. If not said, the server is asked.
    pub fn content_type(self, content_type: ContentType) -> Self {
        Self { content_type: Some(content_type), ..self }
    }

    /// How long a batch that is not full waits while another one is under way. If not said, until
    /// none is. A message that comes while nothing is under way never waits.
    pub fn linger(self, linger: Duration) -> Self {
        Self { linger, ..self }
    }

    /// Bytes of one batch; 1 MiB unless said.
    pub fn batch_bytes_max(self, batch_bytes_max: usize) -> Self {
        Self { batch_bytes_max, ..self }
    }

    /// Messages of one batch; 10,000 unless said.
    pub fn batch_messages_max(self, batch_messages_max: usize) -> Self {
        Self { batch_messages_max, ..self }
    }

    /// Batches under way at a time; 4 unless said.
    pub fn in_flight_max(self, in_flight_max: usize) -> Self {
        Self { in_flight_max, ..self }
    }

    /// Whether these settings make a producer.
    ///
    /// # Errors
    /// [`BadProducerSettings`] says which number makes no sense.
    pub fn check(&self) -> Result<(), BadProducerSettings> {
        if !(1..=APPEND_BYTES_MAX).contains(&self.batch_bytes_max) {
            return Err(BadProducerSettings::BatchBytes);
        }
        if self.batch_messages_max == 0 {
            return Err(BadProducerSettings::BatchMessages);
        }
        if !(1..=IN_FLIGHT_MAX).contains(&self.in_flight_max) {
            return Err(BadProducerSettings::InFlight);
        }
        Ok(())
    }

    /// Begins. Nothing is sent before something is submitted.
    ///
    /// # Errors
    /// If the settings make no sense, or the server had to be asked what the stream holds and
    /// did not say.
    pub async fn start(self) -> Result<Producer, Failure> {
        self.check().map_err(|error| Failure::Unaskable(error.to_string()))?;
        let content_type = match &self.content_type {
            Some(content_type) => content_type.clone(),
            None => {
                let known = self.stream.head().await?.content_type;
                known.unwrap_or_else(ContentType::octet_stream)
            }
        };
        let is_json = content_type.is_json();
        let (commands, inbox) = mpsc::channel(PRODUCER_MESSAGES_MAX);
        let spawn = self.stream.client.http.sys.spawn.clone();
        spawn.task("producer", Owner::new(self, content_type).run(inbox));
        Ok(Producer { commands, bytes: Arc::new(Semaphore::new(PRODUCER_BYTES_MAX)), is_json })
    }
}

impl Producer {
    /// Waits for room for a message of this size.
    ///
    /// # Errors
    /// [`ProducerError::Ended`], or [`ProducerError::Message`] if no message may be that large.
    pub async fn reserve(&self, bytes: usize) -> Result<Permit, ProducerError> {
        let wanted = u32::try_from(bytes).ok().filter(|_| bytes <= APPEND_BYTES_MAX);
        let wanted = wanted.ok_or(BadMessages::MessageTooLarge)?;
        let room = self.bytes.clone().acquire_many_owned(wanted).await;
        let room = room.map_err(|_| ProducerError::Ended)?;
        let slot = self.commands.clone().reserve_owned().await.map_err(|_| ProducerError::Ended)?;
        Ok(Permit { slot, room, reserved: bytes, is_json: self.is_json })
    }

    /// Waits for room, and submits.
    ///
    /// # Errors
    /// As [`Producer::reserve`] fails; what becomes of the message is for its ticket to say.
    pub async fn append(&self, message: impl Into<Bytes>) -> Result<Ticket, ProducerError> {
        let message = message.into();
        Ok(self.reserve(message.len()).await?.submit(message))
    }

    /// Waits until all that was submitted before is stored.
    ///
    /// # Errors
    /// If something was not, since the last flush.
    pub async fn flush(&self) -> Result<(), ProducerError> {
        self.command(|reply| Command::Flush { reply }).await
    }

    /// Stores what was submitted before, then closes the stream, with a last message or without.
    ///
    /// # Errors
    /// If the producer has failed before, or the stream could not be closed. Messages that were
    /// refused are told by their tickets, and do not keep the stream open.
    pub async fn close(&self, last: Option<Bytes>) -> Result<Receipt, ProducerError> {
        if let Some(last) = &last {
            check(last, self.is_json)?;
        }
        self.command(|reply| Command::Close { last, reply }).await
    }

    async fn command<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, ProducerError>>) -> Command,
    ) -> Result<T, ProducerError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| ProducerError::Ended)?;
        answer.await.unwrap_or(Err(ProducerError::Ended))
    }
}

impl Permit {
    /// Puts a message in line, in the order of the calls.
    pub fn submit(self, message: impl Into<Bytes>) -> Ticket {
        let message = message.into();
        let (reply, answer) = oneshot::channel();
        let (reserved, given) = (self.reserved, message.len());
        let fits = match given <= reserved {
            true => check(&message, self.is_json),
            false => Err(ProducerError::LargerThanReserved { reserved, given }),
        };
        match fits {
            Ok(()) => {
                self.slot.send(Command::Submit(Item { message, reply, _room: self.room }));
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
        Ticket(answer)
    }
}

impl Future for Ticket {
    type Output = Result<Receipt, ProducerError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.0).poll(context);
        answer.map(|answer| answer.unwrap_or(Err(ProducerError::Ended)))
    }
}

impl ProducerError {
    /// True if the same messages may be stored by another producer later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Failed(failure) => failure.is_retryable(),
            Self::Behind(_) | Self::Ended => true,
            _ => false,
        }
    }
}

fn check(message: &Bytes, is_json: bool) -> Result<(), ProducerError> {
    if message.is_empty() {
        return Err(BadMessages::EmptyMessage.into());
    }
    if is_json {
        json::check(message.trim_ascii())
            .map_err(|error| ProducerError::NotJson(error.to_string()))?;
    }
    Ok(())
}

/// What closing means for a batch.
const fn closing(is_last: bool) -> Closing {
    if is_last { Closing::Close } else { Closing::LeaveOpen }
}
