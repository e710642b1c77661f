//! The line: what waits, what is under way, what came too early. Pure, so that it can be tested
//! without a server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use wire::{Epoch, ProducerSeq, framing};

use super::{ProducerError, Receipt};

/// A message in line.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) message: Bytes,
    pub(super) reply: oneshot::Sender<Result<Receipt, ProducerError>>,
    /// Given back when the message is stored or given up.
    pub(super) _room: OwnedSemaphorePermit,
}

/// Messages that are stored together, and perhaps the last ones.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) seq: ProducerSeq,
    pub(super) items: Vec<Item>,
    /// Whether all before it were settled when it was sent.
    is_alone: bool,
    /// Who wants the stream closed with it.
    pub(super) closer: Option<Closer>,
}

/// Whoever closes the stream, and what it says last.
#[derive(Debug)]
pub(super) struct Closer {
    pub(super) last: Option<Bytes>,
    pub(super) reply: oneshot::Sender<Result<Receipt, ProducerError>>,
}

/// How messages are put into a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// As one JSON array.
    Json,
    /// Each with its length.
    Framed,
    /// End to end.
    Joined,
}

/// Which batches leave when.
#[derive(Debug)]
pub(super) struct Line {
    waiting: VecDeque<Item>,
    waiting_bytes: usize,
    /// Sent before their turn, and refused for it.
    early: BTreeMap<ProducerSeq, Batch>,
    under_way: BTreeSet<ProducerSeq>,
    /// Set while nothing may leave, because those that are not stored get other numbers.
    renumbering: Option<Renumber>,
    pub(super) epoch: Epoch,
    next_seq: ProducerSeq,
    batch_bytes_max: usize,
    batch_messages_max: usize,
}

/// From which number on, and in which life.
#[derive(Clone, Copy, Debug)]
struct Renumber {
    epoch: Epoch,
    from: ProducerSeq,
}

impl Line {
    pub(super) fn new(epoch: Epoch, batch_bytes_max: usize, batch_messages_max: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            early: BTreeMap::new(),
            under_way: BTreeSet::new(),
            renumbering: None,
            epoch,
            next_seq: ProducerSeq::FIRST,
            batch_bytes_max,
            batch_messages_max,
        }
    }

    pub(super) fn submit(&mut self, item: Item) {
        self.waiting_bytes += item.message.len();
        self.waiting.push_back(item);
    }

    /// True while nothing may leave, because numbers are about to change.
    pub(super) fn is_renumbering(&self) -> bool {
        self.renumbering.is_some()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// True if nothing is left to store.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.early.is_empty() && self.under_way.is_empty()
    }

    /// True if what waits fills a batch.
    pub(super) fn is_full(&self) -> bool {
        self.waiting_bytes >= self.batch_bytes_max || self.waiting.len() >= self.batch_messages_max
    }

    /// The batch whose turn it is to be sent again; it goes alone.
    pub(super) fn next_early(&mut self) -> Option<Batch> {
        if self.renumbering.is_some() || !self.under_way.is_empty() {
            return None;
        }
        let (seq, batch) = self.early.pop_first()?;
        self.under_way.insert(seq);
        Some(Batch { is_alone: true, ..batch })
    }

    /// A batch of what waits.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        if self.renumbering.is_some() || !self.early.is_empty() || self.waiting.is_empty() {
            return None;
        }
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let Some(item) = self.waiting.front() {
            let is_first = items.is_empty();
            bytes += item.message.len();
            let is_full = items.len() == self.batch_messages_max || bytes > self.batch_bytes_max;
            if is_full && !is_first {
                break;
            }
            items.extend(self.waiting.pop_front());
        }
        self.waiting_bytes -= items.iter().map(|item| item.message.len()).sum::<usize>();
        Some(self.numbered(items, None))
    }

    /// The batch that closes the stream.
    pub(super) fn last_batch(&mut self, closer: Closer) -> Batch {
        self.numbered(Vec::new(), Some(closer))
    }

    fn numbered(&mut self, items: Vec<Item>, closer: Option<Closer>) -> Batch {
        let seq = self.next_seq;
        self.next_seq = seq.next();
        let is_alone = self.under_way.is_empty();
        self.under_way.insert(seq);
        Batch { seq, items, is_alone, closer }
    }

    /// It is stored, or will never be.
    pub(super) fn settled(&mut self, seq: ProducerSeq) {
        self.under_way.remove(&seq);
        self.renumber_if_quiet();
    }

    /// It came before one that was sent before it. An error if there was none: then the server
    /// has lost something.
    pub(super) fn too_early(&mut self, batch: Batch) -> Result<(), Batch> {
        if batch.is_alone {
            return Err(batch);
        }
        self.put_back(batch);
        Ok(())
    }

    /// It was refused for good, so those after it take its number.
    pub(super) fn skipped(&mut self, seq: ProducerSeq) {
        let earlier = self.renumbering.map(|renumber| renumber.from);
        let from = earlier.map_or(seq, |from| from.min(seq));
        let epoch = self.renumbering.map_or(self.epoch, |renumber| renumber.epoch);
        self.renumbering = Some(Renumber { epoch, from });
        self.settled(seq);
    }

    /// Somebody else has taken over, and is taken over from.
    pub(super) fn claimed(&mut self, batch: Batch, epoch: Epoch) {
        let epoch = self.renumbering.map_or(epoch, |renumber| renumber.epoch.max(epoch));
        self.renumbering = Some(Renumber { epoch, from: ProducerSeq::FIRST });
        self.put_back(batch);
    }

    fn put_back(&mut self, batch: Batch) {
        let seq = batch.seq;
        self.early.insert(seq, batch);
        self.settled(seq);
    }

    fn renumber_if_quiet(&mut self) {
        if !self.under_way.is_empty() {
            return;
        }
        let Some(Renumber { epoch, from }) = self.renumbering.take() else { return };
        self.epoch = epoch;
        self.next_seq = from;
        for (_, batch) in std::mem::take(&mut self.early) {
            let seq = self.next_seq;
            self.next_seq = seq.next();
            self.early.insert(seq, Batch { seq, ..batch });
        }
    }

    /// Everything that is not under way, given up.
    pub(super) fn abandon(&mut self) -> (Vec<Item>, Vec<Closer>) {
        let early = std::mem::take(&mut self.early);
        let (mut items, mut closers) = (Vec::new(), Vec::new());
        for batch in early.into_values() {
            items.extend(batch.items);
            closers.extend(batch.closer);
        }
        items.extend(self.waiting.drain(..));
        self.waiting_bytes = 0;
        (items, closers)
    }
}

impl Batch {
    /// The body of the request.
    pub(super) fn body(&self, packing: Packing) -> Bytes {
        let items = self.items.iter().map(|item| &item.message);
        let last = self.closer.iter().filter_map(|closer| closer.last.as_ref());
        let messages = items.chain(last);
        let overhead = framing::PREFIX_BYTES + 1;
        let size: usize = messages.clone().map(|message| message.len() + overhead).sum();
        if size == 0 {
            return Bytes::new();
        }
        let mut body = BytesMut::with_capacity(size + 2);
        for message in messages {
            match packing {
                Packing::Json => body.put_u8(if body.is_empty() { b'[' } else { b',' }),
                Packing::Framed => body.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX)),
                Packing::Joined => {}
            }
            body.put_slice(message);
        }
        if packing == Packing::Json {
            body.put_u8(b']');
        }
        body.freeze()
    }

    /// Tells everybody what became of it.
    pub(super) fn tell(self, outcome: &Result<Receipt, ProducerError>) {
        let replies = self.items.into_iter().map(|item| item.reply);
        for reply in replies.chain(self.closer.map(|closer| closer.reply)) {
            let _ = reply.send(outcome.clone());
        }
    }
}
