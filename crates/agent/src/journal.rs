//! What an agent writes: one producer, one epoch, one transaction after the other.
//!
//! Every append carries the producer `agent/{name}` and the epoch of the takeover. Whoever takes
//! over writes with a higher one, and from then on nothing of the runner before is taken.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use live::{Retry, Row};
use log::{Append, AppendError, Log, Outcome};
use state::{Draft, Json, TxId};
use sys::{Cancellation, Sys};
use wire::{Address, Epoch, Messages, Producer, ProducerId, ProducerSeq, caps::INTEGER_MAX};

use crate::{
    caps::DELETES_PER_APPEND_MAX,
    rows::{Chunk, Runner, now},
};

/// Something could not be written. Nothing of it was, unless it is said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another runner does the work of this agent now.
    #[error(
        "another runner has taken this agent over (takeover {epoch}); this one has stopped and \
         wrote nothing more"
    )]
    TakenOver {
        /// The takeover.
        epoch: u64,
    },
    /// A row that cannot be written.
    #[error("a row cannot be written: {0}")]
    BadRow(String),
    /// The stream cannot be written to.
    #[error("the stream cannot be written to: {0}")]
    Stream(String),
    /// The agent was ended while the stream could not be reached.
    #[error("the agent was ended while its stream could not be reached: {0}")]
    Ended(String),
}

/// An append on its way. Dropped, it may or may not arrive; its number is used up all the same.
pub(crate) type Flight = Pin<Box<dyn Future<Output = Result<(), JournalError>> + Send>>;

/// The one writer of an agent's rows.
pub(crate) struct Journal {
    log: Arc<dyn Log>,
    address: Address,
    sys: Sys,
    producer: ProducerId,
    epoch: Epoch,
    seq: ProducerSeq,
    /// When the last append was begun, by the monotonic clock.
    appended_at: Duration,
    cancellation: Cancellation,
}

/// Whom an agent may be taken over from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takeover {
    /// From the runner that is there, whoever that is.
    Any,
    /// From the one that is known: if another has come since, it stays.
    Known,
}

/// Rows that are written together, or not at all. Only if so many chunks are deleted that one
/// append cannot hold them, they go before the rest, the last one first.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// From the last chunk to the first, so that whoever reads some of them shows a begin.
    deletes: Vec<Drafted>,
    rows: Vec<Drafted>,
}

/// A draft, or why there is none.
type Drafted = Result<Draft, String>;

impl Writes {
    /// A new row.
    pub(crate) fn insert<R: Row>(&mut self, row: &R) {
        self.push::<R>(row, Draft::insert);
    }

    /// A row that takes the place of the one before.
    pub(crate) fn update<R: Row>(&mut self, row: &R) {
        self.push::<R>(row, Draft::update);
    }

    /// Chunks that were never said, from the last to the first.
    pub(crate) fn delete_chunks(
        &mut self,
        generation: &str,
        from_last: impl IntoIterator<Item = u64>,
    ) {
        self.deletes.extend(from_last.into_iter().map(|index| {
            let id = Chunk::id_of(generation, index);
            let names = || Some(Draft::delete(Chunk::NAME.parse().ok()?, id.parse().ok()?));
            names().ok_or_else(|| format!("{id:?} cannot be a key"))
        }));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.deletes.is_empty() && self.rows.is_empty()
    }

    fn push<R: Row>(&mut self, row: &R, draft: fn(state::TypeName, state::Key, Json) -> Draft) {
        self.rows.push(encode(row).map(|(name, key, value)| draft(name, key, value)));
    }

    /// What goes into each append; the rows are in the last.
    fn appends(self) -> Vec<Vec<Drafted>> {
        let mut appends = vec![Vec::new()];
        for delete in self.deletes {
            match appends.last_mut() {
                Some(last) if last.len() < DELETES_PER_APPEND_MAX => last.push(delete),
                _ => appends.push(vec![delete]),
            }
        }
        if let Some(last) = appends.last_mut() {
            last.extend(self.rows);
        }
        appends
    }
}

fn encode<R: Row>(row: &R) -> Result<(state::TypeName, state::Key, Json), String> {
    let value = serde_json::to_string(row).map_err(|error| error.to_string())?;
    let value: Json = value.parse().map_err(|error: state::BadJson| error.to_string())?;
    let key = match row.key() {
        live::Value::Text(text) => text.parse(),
        other => other.to_string().parse(),
    };
    let bad = |error: state::BadName| error.to_string();
    Ok((R::NAME.parse().map_err(bad)?, key.map_err(bad)?, value))
}

impl Journal {
    /// Takes an agent over from whoever ran it before; tells the transaction that says so. All
    /// that others wrote as this agent stands before it. If only a known runner may be taken over,
    /// the row that comes back by the stream tells who did.
    pub(crate) async fn take_over(
        (log, address): (Arc<dyn Log>, Address),
        runner: &mut Runner,
        takeover: Takeover,
        sys: &Sys,
        cancellation: Cancellation,
    ) -> Result<(Self, TxId), JournalError> {
        let producer = format!("agent/{}", runner.id).parse();
        let producer = producer.map_err(|error: wire::BadProducer| {
            JournalError::BadRow(format!("an agent cannot be called {:?}: {error}", runner.id))
        })?;
        let (epoch, seq) = (Epoch::new(runner.epoch), ProducerSeq::FIRST);
        let (sys, appended_at) = (sys.clone(), sys.clock.elapsed());
        let mut journal =
            Self { log, address, sys, producer, epoch, seq, appended_at, cancellation };
        loop {
            runner.epoch = journal.epoch.get() + 1;
            runner.claimed_at = now(&journal.sys);
            journal.epoch = Epoch::new(runner.epoch);
            journal.seq = ProducerSeq::FIRST;
            let mut writes = Writes::default();
            match runner.epoch {
                1 => writes.insert(runner),
                _ => writes.update(runner),
            }
            let txid = journal.txid()?;
            match journal.append(writes)?.await {
                Ok(()) => return Ok((journal, txid)),
                Err(JournalError::TakenOver { epoch })
                    if takeover == Takeover::Known && epoch == runner.epoch =>
                {
                    return Ok((journal, txid));
                }
                Err(error @ JournalError::TakenOver { .. }) if takeover == Takeover::Known => {
                    return Err(error);
                }
                Err(JournalError::TakenOver { epoch }) if epoch >= INTEGER_MAX => {
                    let why = format!("somebody has claimed the last epoch there is, {epoch}");
                    return Err(JournalError::Stream(why));
                }
                Err(JournalError::TakenOver { epoch }) => journal.epoch = Epoch::new(epoch),
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes rows, and waits until they last.
    pub(crate) async fn commit(&mut self, writes: Writes) -> Result<(), JournalError> {
        self.append(writes)?.await
    }

    /// The same, unless there is nothing to write.
    pub(crate) async fn commit_some(&mut self, writes: Writes) -> Result<(), JournalError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.commit(writes).await
    }

    /// Begins to write rows. Appends last in the order in which they were begun.
    pub(crate) fn append(&mut self, writes: Writes) -> Result<Flight, JournalError> {
        let appends = writes.appends().into_iter().map(|drafts| self.append_one(drafts));
        let appends: Vec<_> = appends.collect::<Result<_, _>>()?;
        Ok(Box::pin(async move {
            for append in appends {
                append.await?;
            }
            Ok(())
        }))
    }

    /// When it last began to write, by the monotonic clock.
    pub(crate) const fn appended_at(&self) -> Duration {
        self.appended_at
    }

    /// How much it has written.
    pub(crate) fn appends(&self) -> u64 {
        self.seq.get()
    }

    fn append_one(&mut self, drafts: Vec<Drafted>) -> Result<Flight, JournalError> {
        let drafts: Result<Vec<_>, _> = drafts.into_iter().collect();
        let drafts = drafts.map_err(JournalError::BadRow)?;
        let messages = state::transaction(&self.txid()?, drafts);
        let messages = messages.map_err(|error| JournalError::BadRow(error.to_string()))?;
        let producer = Producer { id: self.producer.clone(), epoch: self.epoch, seq: self.seq };
        self.seq = self.seq.next();
        self.appended_at = self.sys.clock.elapsed();
        let (log, address) = (Arc::clone(&self.log), self.address.clone());
        let (sys, cancellation) = (self.sys.clone(), self.cancellation.clone());
        Ok(Box::pin(
            async move { send(&*log, &address, messages, producer, &sys, &cancellation).await },
        ))
    }

    /// The name of the next transaction.
    fn txid(&self) -> Result<TxId, JournalError> {
        let txid = format!("{}.{:x}.{}", self.producer.as_str(), self.epoch.get(), self.seq.get());
        txid.parse().map_err(|error: state::BadName| JournalError::BadRow(error.to_string()))
    }
}

/// Appends until it is known what came of it: a repeated append is known by its number.
async fn send(
    log: &dyn Log,
    address: &Address,
    messages: Messages,
    producer: Producer,
    sys: &Sys,
    cancellation: &Cancellation,
) -> Result<(), JournalError> {
    let is_first = producer.seq == ProducerSeq::FIRST;
    let (mut failures, mut is_last) = (0, false);
    loop {
        let append =
            Append { producer: Some(producer.clone()), ..Append::messages(messages.clone()) };
        let error = match log.append(address, append).await {
            // Another runner had the same idea and was first, or it is our own whose answer was
            // lost; nobody can tell, and to claim once more is right in both cases.
            Ok(appended) if is_first && appended.outcome == Outcome::Duplicate => {
                return Err(JournalError::TakenOver { epoch: producer.epoch.get() });
            }
            Ok(_) => return Ok(()),
            Err(AppendError::Fenced(fenced)) => {
                return Err(JournalError::TakenOver { epoch: fenced.current.get() });
            }
            // The append before it is still on its way.
            Err(error @ AppendError::Gap(_)) => error,
            Err(error) if error.is_retryable() => error,
            Err(error) => return Err(JournalError::Stream(error.to_string())),
        };
        failures += 1;
        tracing::debug!(%error, failures, "an append of an agent is tried again");
        if is_last {
            return Err(JournalError::Ended(error.to_string()));
        }
        // Whoever is to end while it waits for a stream tries once more: it may be back.
        is_last = !cancellation.rest(Retry::default().pause(failures, &sys.chance), sys).await;
    }
}
