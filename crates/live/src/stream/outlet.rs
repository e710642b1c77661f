//! The one owner of what is appended to a stream: in order, and each transaction once.

use log::{Append, AppendError};
use state::TxId;
use sys::{Cancellation, Sys};
use tokio::sync::{mpsc, oneshot};
use wire::{Epoch, Messages, Producer, ProducerId, ProducerSeq};

use super::Stream;
use crate::{
    caps::{OUTGOING_BYTES_MAX, OUTGOING_MAX},
    error::PersistError,
    retry::Retry,
};

/// A transaction on its way to the stream.
pub(super) struct Outgoing {
    pub(super) txid: TxId,
    pub(super) messages: Messages,
    pub(super) reply: oneshot::Sender<Result<(), PersistError>>,
}

/// Appends transactions, those that wait together as one append.
pub(super) struct Outlet {
    stream: Stream,
    sys: Sys,
    producer: ProducerId,
    epoch: Epoch,
    seq: ProducerSeq,
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
        client: &str,
        sys: &Sys,
        cancellation: Cancellation,
    ) -> Result<(Self, mpsc::Sender<Outgoing>), PersistError> {
        let bad =
            |error| PersistError::fatal(format!("a client cannot be called {client:?}: {error}"));
        let producer = format!("client/{client}")
            .parse()
            .map_err(|error: wire::BadProducer| bad(error.to_string()))?;
        // Above the epochs of earlier lives, and nobody else's: the time, and chance.
        let epoch = sys.clock.unix_ms().get().saturating_mul(1_000) + sys.chance.below(1_000);
        let (sender, inbox) = mpsc::channel(OUTGOING_MAX);
        let (epoch, seq, sys) = (Epoch::new(epoch), ProducerSeq::FIRST, sys.clone());
        Ok((Self { stream, sys, producer, epoch, seq, inbox, held: None, cancellation }, sender))
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
            Ok(messages) => self.append(messages).await,
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
    async fn append(&mut self, messages: Messages) -> Result<(), PersistError> {
        let mut failures = 0;
        loop {
            let producer = Producer { id: self.producer.clone(), epoch: self.epoch, seq: self.seq };
            let append = Append { producer: Some(producer), ..Append::messages(messages.clone()) };
            match self.stream.log.append(&self.stream.address, append).await {
                Ok(_) => {
                    self.seq = self.seq.next();
                    return Ok(());
                }
                Err(error) if error.is_retryable() => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &self.sys.chance);
                    tracing::debug!(%error, failures, "a write waits for its stream");
                    if !self.cancellation.rest(pause, &self.sys).await {
                        return Err(PersistError { why: error.to_string(), is_retryable: true });
                    }
                }
                // An earlier life had a clock that was ahead; this one has written nothing yet.
                Err(AppendError::Fenced(fenced)) if self.seq == ProducerSeq::FIRST => {
                    self.epoch = Epoch::new(fenced.current.get() + 1);
                }
                Err(AppendError::Fenced(_)) => {
                    let why = "another process writes under the name of this client";
                    return Err(PersistError::fatal(why));
                }
                Err(error) => return Err(PersistError::fatal(error.to_string())),
            }
        }
    }
}
