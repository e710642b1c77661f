//! What an effect writes: one producer, one append after the other, each once.

use log::{Append, AppendError, Chunk, Freshness, Outcome, Unavailable};
use smol_str::SmolStr;
use state::{BadName, Body, Draft, TxId};
use sys::{Cancellation, Sys};
use wire::{
    Epoch, Messages, Offset, Producer, ProducerId, ProducerSeq, ReadFrom, caps::INTEGER_MAX,
};

use super::{
    CommitError,
    cursor::{Claim, TYPE},
};
use crate::{caps::READ_BYTES, retry::Retry, stream::Stream};

/// The one writer of an effect. Whoever claims the effect later fences it off.
pub(super) struct Pen {
    effect: SmolStr,
    stream: Stream,
    sys: Sys,
    producer: ProducerId,
    epoch: u64,
    seq: ProducerSeq,
    /// Where the stream ended after the last append.
    end: Option<Offset>,
    /// When the effect ends, what cannot be written at once is left to its next life.
    cancellation: Cancellation,
}

/// The stream did not take what was written.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another runner is in charge.
    Fenced(Epoch),
    /// It does not take these messages. Whether they were stored is known only if nothing was sent.
    Rejected(String, Sent),
    /// It takes nothing.
    Stream(String),
}

/// Whether something that was rejected had been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    No,
}

impl From<Refused> for CommitError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Fenced(_) => Self::Fenced,
            Refused::Rejected(why, _) => Self::Refused(why),
            Refused::Stream(why) => Self::Stream(why),
        }
    }
}

impl Pen {
    pub(super) fn new(
        effect: &SmolStr,
        stream: &Stream,
        sys: &Sys,
        cancellation: Cancellation,
    ) -> Result<Self, CommitError> {
        let producer = format!("effect/{effect}").parse().map_err(|error| {
            CommitError::BadRow(format!("the effect cannot be called {effect:?}: {error}"))
        })?;
        let (effect, stream, sys) = (effect.clone(), stream.clone(), sys.clone());
        let (epoch, seq) = (0, ProducerSeq::FIRST);
        Ok(Self { effect, stream, sys, producer, epoch, seq, end: None, cancellation })
    }

    pub(super) fn sys(&self) -> &Sys {
        &self.sys
    }

    pub(super) fn effect(&self) -> &SmolStr {
        &self.effect
    }

    /// Which runner of the effect this is.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Takes the effect over from whoever ran it before, as a runner after that of an epoch. All
    /// that others wrote for it stands before the claim. Tells the claim, and where the stream
    /// ended then.
    pub(super) async fn claim(&mut self, after: u64) -> Result<(Claim, u64), CommitError> {
        self.epoch = self.epoch.max(after);
        loop {
            self.epoch += 1;
            self.seq = ProducerSeq::FIRST;
            let runner = format!("{:016x}", self.sys.chance.u64());
            let seen_at = Some(self.sys.clock.unix_ms().get());
            let claim = Claim { epoch: self.epoch, runner, seen_at };
            let draft = claim
                .draft(&self.effect)
                .ok_or_else(|| CommitError::BadRow(format!("{:?} cannot be a key", self.effect)))?;
            match self.append(vec![draft]).await {
                Ok((Outcome::Duplicate, _)) => {
                    // Another runner had the same idea and was first, or it is our own whose
                    // answer was lost; nobody can tell.
                }
                Ok((_, end)) => return Ok((claim, end)),
                Err(Refused::Fenced(current)) if current.get() >= INTEGER_MAX => {
                    let why = format!("somebody has claimed the last epoch there is, {current:?}");
                    return Err(CommitError::Stream(why));
                }
                Err(Refused::Fenced(current)) => self.epoch = self.epoch.max(current.get()),
                Err(refused) => return Err(refused.into()),
            }
        }
    }

    /// Appends, once: a repeated append is known by its number. Tells whether it was stored now or
    /// before, and where the stream ends.
    pub(super) async fn append(&mut self, drafts: Vec<Draft>) -> Result<(Outcome, u64), Refused> {
        let bad = |error: &dyn std::fmt::Display| Refused::Rejected(error.to_string(), Sent::No);
        let txid = self.next_txid()?;
        let messages = state::transaction(&txid, drafts).map_err(|error| bad(&error))?;
        let (outcome, end) = self.store(messages).await?;
        self.seq = self.seq.next();
        self.end = Some(end);
        Ok((outcome, end.position.get()))
    }

    /// The name of the next transaction.
    pub(super) fn next_txid(&self) -> Result<TxId, Refused> {
        let txid = format!("effect/{}.{:x}.{}", self.effect, self.epoch, self.seq.get());
        let bad = |error: BadName| Refused::Rejected(error.to_string(), Sent::No);
        txid.parse().map_err(bad)
    }

    /// Where the stream ended after the last append.
    pub(super) fn end(&self) -> Option<Offset> {
        self.end
    }

    /// Whether a transaction that was written after a place has any row but the cursor.
    pub(super) async fn has_rows(
        &self,
        txid: &TxId,
        after: Option<Offset>,
    ) -> Result<bool, Refused> {
        let mut from = after.map_or(ReadFrom::Start, ReadFrom::At);
        loop {
            let chunk = self.read(from).await?;
            let is_its_row = |message| {
                let event = state::decode(message);
                let is_its = event.headers.txid.as_deref() == Some(txid.as_str());
                is_its && matches!(event.body, Body::Change(change) if change.type_name != TYPE)
            };
            if chunk.messages().any(is_its_row) {
                return Ok(true);
            }
            if chunk.freshness != Freshness::Behind {
                return Ok(false);
            }
            from = ReadFrom::At(chunk.next);
        }
    }

    async fn read(&self, from: ReadFrom) -> Result<Chunk, Refused> {
        let mut failures = 0;
        loop {
            match self.stream.log.read(&self.stream.address, from, READ_BYTES).await {
                Ok(chunk) => return Ok(chunk),
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &self.sys.chance);
                    if !self.cancellation.rest(pause, &self.sys).await {
                        return Err(Refused::Stream(error.to_string()));
                    }
                }
                Err(error) => return Err(Refused::Stream(error.to_string())),
            }
        }
    }

    async fn store(&self, messages: Messages) -> Result<(Outcome, Offset), Refused> {
        let (id, epoch) = (self.producer.clone(), Epoch::new(self.epoch));
        let producer = Producer { id, epoch, seq: self.seq };
        let mut failures = 0;
        loop {
            let append =
                Append { producer: Some(producer.clone()), ..Append::messages(messages.clone()) };
            match self.stream.log.append(&self.stream.address, append).await {
                Ok(appended) => return Ok((appended.outcome, appended.tail)),
                Err(AppendError::Fenced(fenced)) => return Err(Refused::Fenced(fenced.current)),
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &self.sys.chance);
                    if !self.cancellation.rest(pause, &self.sys).await {
                        return Err(Refused::Stream(error.to_string()));
                    }
                }
                Err(error) if is_of_messages(&error) => {
                    return Err(Refused::Rejected(error.to_string(), Sent::Yes));
                }
                Err(error) => return Err(Refused::Stream(error.to_string())),
            }
        }
    }
}

/// True if other messages might be taken. A server that is elsewhere has bounds of its own.
fn is_of_messages(error: &AppendError) -> bool {
    matches!(error, AppendError::Unavailable(Unavailable::Denied(_) | Unavailable::Unreadable(_)))
}
