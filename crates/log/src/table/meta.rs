//! What a log knows of one stream, apart from its messages.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use sys::UnixMs;
use wire::{
    Address, ContentType, Epoch, Expiry, Offset, Producer, ProducerId, ProducerSeq, StreamSeq,
    caps::PRODUCERS_PER_STREAM_MAX,
};

use super::{NewMessages, NewStream, Origin};
use crate::{Head, Incarnation};

/// One stream.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) address: Address,
    pub(crate) content_type: ContentType,
    pub(crate) expiry: Expiry,
    pub(crate) created_at: UnixMs,
    pub(crate) touched: Touched,
    pub(crate) origin: Option<Box<Origin>>,
    pub(crate) earliest: Offset,
    pub(crate) tail: Offset,
    pub(crate) closed: bool,
    /// The append that closed it, so that its retry is recognised.
    pub(crate) closer: Option<Box<Producer>>,
    pub(crate) producers: BTreeMap<ProducerId, ProducerEntry>,
    pub(crate) seq: Option<StreamSeq>,
    pub(crate) retired: bool,
    /// The newest change of it, in the engine's own order.
    #[cfg_attr(not(feature = "file"), expect(dead_code, reason = "for engines that recover"))]
    pub(crate) applied: u64,
    /// Derived: streams whose parent this is.
    pub(crate) forks: u32,
    /// Derived: how many parents in a row.
    pub(crate) depth: usize,
}

/// The newest append of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerEntry {
    pub(crate) epoch: Epoch,
    pub(crate) seq: ProducerSeq,
    pub(crate) at: UnixMs,
}

/// When a stream was last read or written: what is durable, and what readers have added since.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    durable: UnixMs,
    /// Only streams with a sliding lifetime need one; readers share it.
    newest: Option<Arc<AtomicU64>>,
}

impl Meta {
    pub(crate) fn new(new: &NewStream) -> Self {
        let start = new.start();
        Self {
            address: new.address.clone(),
            content_type: new.content_type.clone(),
            expiry: new.expiry,
            created_at: new.at,
            touched: Touched::new(new.expiry, new.at),
            origin: new.origin.clone().map(Box::new),
            earliest: new.origin.as_ref().map_or(Offset::START, |origin| origin.earliest),
            tail: start.after(new.messages.len() as u64, new.messages.data().len() as u64),
            closed: new.closed,
            closer: None,
            producers: BTreeMap::new(),
            seq: None,
            retired: false,
            applied: 0,
            forks: 0,
            depth: 0,
        }
    }

    pub(crate) fn head(&self, id: Incarnation) -> Head {
        Head {
            incarnation: id,
            content_type: self.content_type.clone(),
            expiry: self.expiry,
            earliest: self.earliest,
            tail: self.tail,
            closed: self.closed,
            created_at: self.created_at,
        }
    }

    /// Where its own messages begin: after those it inherited.
    pub(crate) fn own_start(&self) -> Offset {
        self.origin.as_ref().map_or(Offset::START, |origin| origin.end)
    }

    /// When it expires, as far as is known now.
    pub(crate) fn deadline(&self) -> Option<UnixMs> {
        match self.expiry {
            Expiry::Never => None,
            Expiry::Sliding(ttl) => Some(self.touched.newest().plus(ttl.duration())),
            Expiry::At(time) => Some(UnixMs::new(time.unix_ms())),
        }
    }

    pub(crate) fn expired(&self, now: UnixMs) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    pub(super) fn append(&mut self, new: &NewMessages) {
        assert_eq!(self.tail, new.start, "appends follow each other without a gap");
        self.tail = self.tail.after(new.messages.len() as u64, new.messages.data().len() as u64);
        if let Some(producer) = &new.producer {
            self.remember(producer, new.at);
        }
        if let Some(seq) = &new.seq {
            self.seq = Some(seq.clone());
        }
        if new.close {
            self.closed = true;
            self.closer = new.producer.clone().map(Box::new);
        }
        self.touch(new.at);
    }

    fn remember(&mut self, producer: &Producer, at: UnixMs) {
        let entry = ProducerEntry { epoch: producer.epoch, seq: producer.seq, at };
        let producers = &mut self.producers;
        producers.insert(producer.id.clone(), entry);
        if producers.len() > PRODUCERS_PER_STREAM_MAX
            && let Some(idlest) = producers.iter().min_by_key(|(_, entry)| entry.at)
        {
            let idlest = idlest.0.clone();
            producers.remove(&idlest);
        }
    }

    pub(super) fn touch(&mut self, at: UnixMs) {
        self.touched.durable = self.touched.durable.max(at);
        self.touched.by_reader(at);
    }
}

impl Touched {
    pub(crate) fn new(expiry: Expiry, at: UnixMs) -> Self {
        let sliding = matches!(expiry, Expiry::Sliding(_));
        Self { durable: at, newest: sliding.then(|| Arc::new(AtomicU64::new(at.get()))) }
    }

    /// Readers may have touched the stream after what a crash left, but not by more than this.
    #[cfg(feature = "file")]
    pub(crate) fn allow_for_lost_reads(&mut self, expiry: Expiry) {
        if let Expiry::Sliding(ttl) = expiry {
            self.by_reader(self.durable.plus(touch_slack(ttl)));
        }
    }

    fn by_reader(&self, at: UnixMs) {
        if let Some(newest) = &self.newest {
            newest.fetch_max(at.get(), Ordering::AcqRel);
        }
    }

    /// What readers share.
    #[cfg(feature = "file")]
    pub(crate) fn shared(&self) -> Option<Arc<AtomicU64>> {
        self.newest.clone()
    }

    #[cfg(feature = "file")]
    pub(crate) fn durable(&self) -> UnixMs {
        self.durable
    }

    fn newest(&self) -> UnixMs {
        self.newest
            .as_ref()
            .map_or(self.durable, |newest| UnixMs::new(newest.load(Ordering::Acquire)))
    }
}

/// How far the durable touch of a stream may lag behind its readers.
#[cfg(feature = "file")]
pub(crate) fn touch_slack(ttl: wire::Ttl) -> std::time::Duration {
    ttl.duration() / 10
}
