//! The one owner of what is appended to a stream: in order, and each transaction once.

use log::{Append, AppendError, Freshness, Outcome, ReadError};
use state::TxId;
use sys::{Cancellation, Sys};
use tokio::sync::{mpsc, oneshot};
use wire::{Epoch, Messages, Offset, Producer, ProducerId, ProducerSeq, ReadFrom};

use super::Stream;
use crate::{
    caps::{OUTGOING_BYTES_MAX, OUTGOING_MAX, READ_BYTES, UNNAMED_PRODUCERS},
    error::PersistError,
    retry::Retry,
};

/// A transaction on its way to the stream.
pub(super) struct Outgoing {
    pub(super) txid: TxId,
    pub(super) messages: Messages,
    pub(super) reply: oneshot::Sender<Result<(), PersistError>>,
}

/// Under whose name a client writes.
pub(super) enum Identity {
    /// Its own: there is one process that has it.
    Named(ProducerId),
    /// One of a few that all clients without a name share, and take over from each other.
    Shared(ProducerId),
}

impl Identity {
    pub(super) fn of(client: Option<&str>, sys: &Sys) -> Result<Self, PersistError> {
        let Some(client) = client else { return Self::shared(sys) };
        let bad = |error: wire::BadProducer| {
            PersistError::fatal(format!("a client cannot be called {client:?}: {error}"))
        };
        Ok(Self::Named(format!("client/{client}").parse().map_err(bad)?))
    }

    fn shared(sys: &Sys) -> Result<Self, PersistError> {
        let id = format!("unnamed/{}", sys.chance.below(UNNAMED_PRODUCERS)).parse();
        id.map(Self::Shared).map_err(PersistError::fatal)
    }

    fn producer(&self) -> &ProducerId {
        match self {
            Self::Named(id) | Self::Shared(id) => id,
        }
    }
}

/// Appends transactions, those that wait together as one append.
pub(super) struct Outlet {
    stream: Stream,
    sys: Sys,
    identity: Identity,
    epoch: Epoch,
    seq: ProducerSeq,
    /// Where the stream ended when it was last known; what is being appended comes later.
    end: Option<Offset>,
    inbox: mpsc::Receiver<Outgoing>,
    /// Taken, but too much for the append before it.
    held: Option<Outgoing>,
    /// When the database is gone, nobody waits for a stream that cannot be reached.
    cancellation: Cancellation,
}

impl Outlet {
    /// An outlet, and the way to it.
    pub(super) fn new(
        stream: Stream,
        identity: Identity,
        sys: &Sys,
        cancellation: Cancellation,
    ) -> (Self, mpsc::Sender<Outgoing>) {
        // Above the epochs of earlier lives, and nobody else's: the time, and chance.
        let epoch = sys.clock.unix_ms().get().saturating_mul(1_000) + sys.chance.below(1_000);
        let (sender, inbox) = mpsc::channel(OUTGOING_MAX);
        let (epoch, seq, sys) = (Epoch::new(epoch), ProducerSeq::FIRST, sys.clone());
        let (end, held) = (None, None);
        (Self { stream, sys, identity, epoch, seq, end, inbox, held, cancellation }, sender)
    }

    /// Works until nobody can send any more.
    pub(super) async fn run(mut self) {
        while let Some(batch) = self.next().await {
            self.send(batch).await;
        }
    }

    /// What waits, as much as fits one append.
    async fn next(&mut self) -> Option<Vec<Outgoing>> {
        let first = match self.held.take() {
            Some(held) => held,
            None => self.inbox.recv().await?,
        };
        let mut bytes = first.messages.data().len();
        let mut batch = vec![first];
        while let Ok(next) = self.inbox.try_recv() {
            bytes += next.messages.data().len();
            if bytes > OUTGOING_BYTES_MAX {
                self.held = Some(next);
                break;
            }
            batch.push(next);
        }
        Some(batch)
    }

    async fn send(&mut self, batch: Vec<Outgoing>) {
        let all = Messages::copied(batch.iter().flat_map(|outgoing| outgoing.messages.iter()));
        let outcome = match all {
            Ok(messages) => self.append(&batch[0].txid, messages).await,
            Err(error) => Err(PersistError::fatal(error.to_string())),
        };
        match outcome {
            // One of them may be to blame, so each is tried by itself.
            Err(_) if batch.len() > 1 => {
                for outgoing in batch {
                    Box::pin(self.send(vec![outgoing])).await;
                }
            }
            outcome => {
                for Outgoing { txid, reply, .. } in batch {
                    tracing::trace!(%txid, is_stored = outcome.is_ok(), "appended");
                    let _ = reply.send(outcome.clone());
                }
            }
        }
    }

    /// Appends until it is known what came of it: a repeated append is recognised by its number.
    /// The append holds this transaction, and perhaps others.
    async fn append(&mut self, txid: &TxId, messages: Messages) -> Result<(), PersistError> {
        let (mut failures, mut is_in_doubt) = (0, false);
        self.learn_end().await;
        loop {
            let id = self.identity.producer().clone();
            let producer = Producer { id, epoch: self.epoch, seq: self.seq };
            let append = Append { producer: Some(producer), ..Append::messages(messages.clone()) };
            let error = match self.stream.log.append(&self.stream.address, append).await {
                // Another client without a name may have drawn the same epoch: then it is its.
                Ok(appended)
                    if appended.outcome == Outcome::Duplicate
                        && self.is_shared()
                        && !(is_in_doubt && self.is_stored(txid).await?) =>
                {
                    (self.epoch, self.seq) = (Epoch::new(self.epoch.get() + 1), ProducerSeq::FIRST);
                    continue;
                }
                Ok(appended) => {
                    self.seq = self.seq.next();
                    self.end = Some(appended.tail);
                    return Ok(());
                }
                Err(error) => error,
            };
            is_in_doubt |= !error.has_no_side_effects();
            match (&self.identity, error) {
                (_, error) if error.is_retryable() => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &self.sys.chance);
                    tracing::debug!(%error, failures, "a write waits for its stream");
                    if !self.cancellation.rest(pause, &self.sys).await {
                        return Err(PersistError { why: error.to_string(), is_retryable: true });
                    }
                }
                // It can be stored no more if it is not: the epoch that fences it off is durable.
                (Identity::Shared(_), AppendError::Fenced(fenced)) => {
                    if is_in_doubt && self.is_stored(txid).await? {
                        return Ok(());
                    }
                    is_in_doubt = false;
                    self.identity = Identity::shared(&self.sys)?;
                    self.epoch = Epoch::new(self.epoch.get().max(fenced.current.get()) + 1);
                    self.seq = ProducerSeq::FIRST;
                }
                (Identity::Shared(_), AppendError::Gap(_)) => {
                    (self.epoch, self.seq) = (Epoch::new(self.epoch.get() + 1), ProducerSeq::FIRST);
                }
                // An earlier life had a clock that was ahead; this one has written nothing yet.
                (_, AppendError::Fenced(fenced)) if self.seq == ProducerSeq::FIRST => {
                    self.epoch = Epoch::new(fenced.current.get() + 1);
                }
                (_, AppendError::Fenced(_)) => {
                    let why = "another process writes under the name of this client";
                    return Err(PersistError::fatal(why));
                }
                (_, error) => return Err(PersistError::fatal(error.to_string())),
            }
        }
    }

    fn is_shared(&self) -> bool {
        matches!(self.identity, Identity::Shared(_))
    }

    /// Learns where the stream ends, unless that is known: what is appended next comes later.
    async fn learn_end(&mut self) {
        if self.end.is_none() && self.is_shared() {
            let head = self.stream.log.head(&self.stream.address).await;
            self.end = head.ok().map(|head| head.tail);
        }
    }

    /// Whether a transaction is in the stream, after the end that was known before it was sent.
    async fn is_stored(&self, txid: &TxId) -> Result<bool, PersistError> {
        let (mut from, mut failures) = (self.end.map_or(ReadFrom::Start, ReadFrom::At), 0);
        loop {
            match self.stream.log.read(&self.stream.address, from, READ_BYTES).await {
                Ok(chunk) => {
                    let is_its = |message| {
                        state::decode(message).headers.txid.as_deref() == Some(txid.as_str())
                    };
                    if chunk.messages().any(is_its) {
                        return Ok(true);
                    }
                    if chunk.freshness != Freshness::Behind {
                        return Ok(false);
                    }
                    from = ReadFrom::At(chunk.next);
                }
                // What a compaction has kept begins later, and keeps the names of transactions.
                Err(ReadError::Trimmed(_)) => from = ReadFrom::Start,
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &self.sys.chance);
                    if !self.cancellation.rest(pause, &self.sys).await {
                        return Err(PersistError { why: error.to_string(), is_retryable: true });
                    }
                }
                Err(error) => return Err(PersistError::fatal(error.to_string())),
            }
        }
    }
}
