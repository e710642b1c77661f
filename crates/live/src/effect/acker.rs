//! Acknowledgements: one owner of a cursor, which writes it together with what handlers commit.

use std::collections::BTreeSet;

use log::{Append, AppendError, Outcome};
use query::{Key, Value};
use smol_str::SmolStr;
use state::{BadName, Draft, Json, TxId, TypeName};
use sys::{Cancellation, Sys};
use tokio::sync::{mpsc, oneshot};
use wire::{Epoch, Producer, ProducerId, ProducerSeq};

use super::{EventId, cursor::Cursor};
use crate::{retry::Retry, stream::Stream};

/// Rows for [`Context::commit`](super::Context::commit).
#[derive(Debug, Default)]
pub struct Rows {
    drafts: Vec<Result<Draft, String>>,
}

impl Rows {
    pub(super) fn push_put(&mut self, name: &str, key: &Key, row: serde_json::Result<String>) {
        let draft = || {
            let row: Json = row.map_err(text)?.parse().map_err(text::<state::BadJson>)?;
            let (name, key) = names(name, key)?;
            Ok(Draft::upsert(name, key, row))
        };
        self.drafts.push(draft());
    }

    pub(super) fn push_delete(&mut self, name: &str, key: &Key) {
        self.drafts.push(names(name, key).map(|(name, key)| Draft::delete(name, key)));
    }
}

/// A row's type and key on the wire.
fn names(name: &str, key: &Key) -> Result<(TypeName, state::Key), String> {
    let key = match key {
        Value::Text(text) => text.parse(),
        other => other.to_string().parse(),
    };
    Ok((name.parse().map_err(text::<BadName>)?, key.map_err(text::<BadName>)?))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn text<E: ToString>(error: E) -> String {
    error.to_string()
}

/// Rows could not be committed. None of them was written, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// There is no stream to write to.
    #[error("only durable effects can commit rows")]
    NotDurable,
    /// A row that cannot be written.
    #[error("a row cannot be written: {0}")]
    BadRow(String),
    /// Another runner does the work of this effect now.
    #[error("another runner has taken this effect over; this one has stopped")]
    Fenced,
    /// The stream cannot be written to. After a restart the event is delivered again, unless the
    /// rows were written after all.
    #[error("the stream cannot be written to: {0}")]
    Stream(String),
}

/// What an acker is asked to do.
enum Ack {
    /// These events are with their handlers.
    Delivered(Vec<EventId>),
    /// All ticks before this position were looked at, and had no other events.
    Passed(u64),
    /// These events are done.
    Done(Vec<EventId>),
    /// These rows are to be written, and with them the events are done.
    Commit(Vec<EventId>, Vec<Draft>, oneshot::Sender<Result<(), CommitError>>),
}

/// The way to an acker.
#[derive(Clone, Debug)]
pub(super) struct AckerHandle(mpsc::Sender<Ack>);

const ACKS_WAITING_MAX: usize = 64;

impl AckerHandle {
    /// Waits until something can be told at once; none if the acker is gone, which has said why.
    pub(super) async fn room(&self) -> Option<Room> {
        self.0.clone().reserve_owned().await.ok().map(Room)
    }

    pub(super) async fn done(&self, ids: Vec<EventId>) {
        let _ = self.0.send(Ack::Done(ids)).await;
    }

    pub(super) async fn commit(&self, ids: Vec<EventId>, rows: Rows) -> Result<(), CommitError> {
        let drafts = rows.drafts.into_iter().collect::<Result<Vec<_>, _>>();
        let drafts = drafts.map_err(CommitError::BadRow)?;
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send(Ack::Commit(ids, drafts, reply)).await;
        sent.map_err(|_| CommitError::Fenced)?;
        answer.await.map_err(|_| CommitError::Fenced)?
    }

    /// Waits until the acker is gone.
    pub(super) async fn gone(&self) {
        self.0.closed().await;
    }
}

/// Room to tell an acker something without waiting.
pub(super) struct Room(mpsc::OwnedPermit<Ack>);

impl Room {
    /// These events go to their handlers.
    pub(super) fn delivered(self, ids: Vec<EventId>) {
        self.0.send(Ack::Delivered(ids));
    }

    /// Nothing else happened before this position.
    pub(super) fn passed(self, position: u64) {
        self.0.send(Ack::Passed(position));
    }
}

/// The owner of a cursor.
pub(super) struct Acker {
    effect: SmolStr,
    stream: Stream,
    sys: Sys,
    producer: ProducerId,
    seq: ProducerSeq,
    cursor: Cursor,
    /// Events that are with their handlers, in the order of the stream.
    outstanding: BTreeSet<(u64, Key)>,
    /// The first tick that was not delivered yet.
    frontier: u64,
    inbox: mpsc::Receiver<Ack>,
    /// When the effect ends, what cannot be written at once is left to its next life.
    cancellation: Cancellation,
}

/// The stream did not take what an acker wrote.
enum Refused {
    Fenced(Epoch),
    Other(String),
}

impl Acker {
    /// Takes a cursor over from whoever had it before, and writes it.
    pub(super) async fn claim(
        effect: &SmolStr,
        stream: &Stream,
        sys: &Sys,
        mut cursor: Cursor,
        cancellation: Cancellation,
    ) -> Result<(Self, AckerHandle), CommitError> {
        let producer: ProducerId = format!("effect/{effect}").parse().map_err(|error| {
            CommitError::BadRow(format!("the effect cannot be called {effect:?}: {error}"))
        })?;
        let (sender, inbox) = mpsc::channel(ACKS_WAITING_MAX);
        cursor.epoch += 1;
        let mut acker = Self {
            effect: effect.clone(),
            stream: stream.clone(),
            sys: sys.clone(),
            producer,
            seq: ProducerSeq::FIRST,
            frontier: cursor.position,
            cursor,
            outstanding: BTreeSet::new(),
            inbox,
            cancellation,
        };
        loop {
            match acker.write(Vec::new(), "claim").await {
                Ok(()) => return Ok((acker, AckerHandle(sender))),
                Err(Refused::Fenced(current)) => acker.cursor.epoch = current.get() + 1,
                Err(Refused::Other(why)) => return Err(CommitError::Stream(why)),
            }
        }
    }

    /// Works until everybody who may acknowledge is gone, or another runner has taken over.
    pub(super) async fn run(mut self) {
        while let Some(first) = self.inbox.recv().await {
            let mut acks = vec![first];
            while let Ok(next) = self.inbox.try_recv() {
                acks.push(next);
            }
            if let Err(refused) = self.take(acks).await {
                let why = match refused {
                    Refused::Fenced(_) => "another runner has taken over".to_owned(),
                    Refused::Other(why) => why,
                };
                tracing::warn!(effect = %self.effect, %why, "a durable effect stops");
                return;
            }
        }
    }

    /// Takes acknowledgements, and writes them all at once.
    async fn take(&mut self, acks: Vec<Ack>) -> Result<(), Refused> {
        let (mut drafts, mut replies, mut name) = (Vec::new(), Vec::new(), None);
        let mut is_changed = false;
        for ack in acks {
            match ack {
                Ack::Delivered(ids) => self.deliver(ids),
                Ack::Passed(position) => {
                    self.frontier = self.frontier.max(position);
                    is_changed |= self.advance();
                }
                Ack::Done(ids) => is_changed |= self.finish(ids),
                Ack::Commit(ids, rows, reply) => {
                    name = name.or_else(|| ids.first().map(ToString::to_string));
                    is_changed = true;
                    self.finish(ids);
                    drafts.extend(rows);
                    replies.push(reply);
                }
            }
        }
        if !is_changed {
            return Ok(());
        }
        let written = self.write(drafts, name.as_deref().unwrap_or("done")).await;
        let answer = match &written {
            Ok(()) => Ok(()),
            Err(Refused::Fenced(_)) => Err(CommitError::Fenced),
            Err(Refused::Other(why)) => Err(CommitError::Stream(why.clone())),
        };
        replies.into_iter().for_each(|reply| drop(reply.send(answer.clone())));
        written
    }

    fn deliver(&mut self, ids: Vec<EventId>) {
        for id in ids {
            self.frontier = self.frontier.max(id.position + 1);
            self.outstanding.insert((id.position, id.key));
        }
    }

    /// Notes that events are done; false if that was known.
    fn finish(&mut self, ids: Vec<EventId>) -> bool {
        let mut is_changed = false;
        for EventId { position, key, .. } in ids {
            if self.outstanding.remove(&(position, key.clone())) {
                self.cursor.done.insert((position, key));
                is_changed = true;
            }
        }
        self.advance();
        is_changed
    }

    /// Moves the cursor as far as it may; false if it stays.
    fn advance(&mut self) -> bool {
        let oldest = self.outstanding.first().map_or(self.frontier, |(position, _)| *position);
        let is_moved = oldest > self.cursor.position;
        let position = self.cursor.position.max(oldest);
        self.cursor.position = position;
        self.cursor.done.retain(|(own, _)| *own >= position);
        is_moved
    }

    /// Begins where the stream begins now, since what the cursor needs is not kept any more.
    pub(super) async fn begin_at(&mut self, start: u64) -> Result<Cursor, CommitError> {
        let position = start.saturating_sub(1);
        self.cursor = Cursor { start, position, done: BTreeSet::new(), ..self.cursor.clone() };
        self.frontier = position;
        match self.write(Vec::new(), "begin").await {
            Ok(()) => Ok(self.cursor.clone()),
            Err(Refused::Fenced(_)) => Err(CommitError::Fenced),
            Err(Refused::Other(why)) => Err(CommitError::Stream(why)),
        }
    }

    /// Appends rows and the cursor, once: a repeated append is known by its number.
    async fn write(&mut self, mut drafts: Vec<Draft>, name: &str) -> Result<(), Refused> {
        let bad = |error: &dyn std::fmt::Display| Refused::Other(error.to_string());
        let cursor = self.cursor.draft(&self.effect);
        drafts.push(cursor.ok_or_else(|| bad(&"the effect's name cannot be a key"))?);
        let txid = format!("effect/{}.{:x}.{}", self.effect, self.cursor.epoch, self.seq.get());
        tracing::trace!(%txid, name, "acknowledging");
        let txid: TxId = txid.parse().map_err(|error| bad(&error))?;
        let messages = state::transaction(&txid, drafts).map_err(|error| bad(&error))?;
        let producer = Producer {
            id: self.producer.clone(),
            epoch: Epoch::new(self.cursor.epoch),
            seq: self.seq,
        };
        let mut failures = 0;
        loop {
            let append =
                Append { producer: Some(producer.clone()), ..Append::messages(messages.clone()) };
            match self.stream.log.append(&self.stream.address, append).await {
                // A duplicate at the start is another runner with the same idea.
                Ok(appended) if failures == 0 && appended.outcome == Outcome::Duplicate => {
                    return Err(Refused::Fenced(producer.epoch));
                }
                Ok(_) => break,
                Err(AppendError::Fenced(fenced)) => return Err(Refused::Fenced(fenced.current)),
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &self.sys.chance);
                    if !self.cancellation.rest(pause, &self.sys).await {
                        return Err(bad(&error));
                    }
                }
                Err(error) => return Err(bad(&error)),
            }
        }
        self.seq = self.seq.next();
        Ok(())
    }
}
