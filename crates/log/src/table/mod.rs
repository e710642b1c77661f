//! The pure heart of every engine: what each stream is, what may be done to it, and the change
//! that does it.
//!
//! Deciding and changing are apart. `decide_*` judges a request against the table and answers with
//! [`Change`]s; [`Table::apply`] folds a change in. An engine makes the changes durable in
//! between; recovery only applies. Times and ids are given, so the same changes always make the
//! same table.

mod append;
mod create;
mod meta;
mod remove;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap},
};

use smallvec::SmallVec;
use sys::UnixMs;
use wire::{Address, ContentType, Expiry, Messages, Offset, Producer, StreamSeq, SubOffset};

#[cfg(feature = "file")]
pub(crate) use self::meta::{Touched, touch_slack};
pub(crate) use self::{
    create::{ForkPoint, Forking},
    meta::{Meta, ProducerEntry},
};
use crate::{Incarnation, StreamGone, StreamNotFound};

/// Every stream of a log.
#[derive(Debug, Default)]
pub(crate) struct Table {
    streams: HashMap<Incarnation, Meta, foldhash::fast::FixedState>,
    addresses: BTreeMap<Address, Incarnation>,
    /// Every fork, by its parent.
    forks: BTreeSet<(Incarnation, Incarnation)>,
    deadlines: BinaryHeap<Reverse<(UnixMs, Incarnation)>>,
    /// The newest id that was ever given; ids begin with 1.
    last: u64,
}

/// A change of exactly one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Create(Box<NewStream>),
    Append(Box<NewMessages>),
    Touch {
        id: Incarnation,
        at: UnixMs,
    },
    Trim {
        id: Incarnation,
        before: Offset,
    },
    /// Deleted for everybody but its forks.
    Retire {
        id: Incarnation,
    },
    /// Deleted.
    Drop {
        id: Incarnation,
        erase: bool,
    },
}

/// A stream that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewStream {
    pub(crate) id: Incarnation,
    pub(crate) address: Address,
    pub(crate) content_type: ContentType,
    pub(crate) expiry: Expiry,
    pub(crate) at: UnixMs,
    pub(crate) origin: Option<Origin>,
    pub(crate) messages: Messages,
    pub(crate) closed: bool,
}

/// Where a fork comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) parent: Incarnation,
    /// The inherited messages end here; the fork's own begin.
    pub(crate) end: Offset,
    /// The earliest inherited message when the fork was made.
    pub(crate) earliest: Offset,
    /// As asked for, to recognise the same request again.
    pub(crate) offset: Option<Offset>,
    pub(crate) sub_offset: SubOffset,
}

/// Messages that are appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewMessages {
    pub(crate) id: Incarnation,
    pub(crate) at: UnixMs,
    pub(crate) start: Offset,
    pub(crate) messages: Messages,
    pub(crate) producer: Option<Producer>,
    pub(crate) seq: Option<StreamSeq>,
    pub(crate) close: bool,
}

/// The part of a stream that one stream of its lineage stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) id: Incarnation,
    pub(crate) end: Offset,
}

/// An answer, and the changes that must be durable before it is given.
#[derive(Debug)]
pub(crate) struct Decided<T> {
    pub(crate) answer: T,
    pub(crate) changes: Changes,
}

pub(crate) type Changes = SmallVec<[Change; 1]>;

/// Why a name leads to no stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Absent {
    NotFound,
    Gone,
    /// It has outlived its time and waits to be dropped.
    Expired(Incarnation),
}

impl Table {
    /// The live stream of this name.
    pub(crate) fn find(
        &self,
        address: &Address,
        now: UnixMs,
    ) -> Result<(Incarnation, &Meta), Absent> {
        let id = *self.addresses.get(address).ok_or(Absent::NotFound)?;
        let meta = self.meta(id);
        let expired = meta.expired(now);
        if meta.retired || (expired && meta.forks > 0) {
            Err(Absent::Gone)
        } else if expired {
            Err(Absent::Expired(id))
        } else {
            Ok((id, meta))
        }
    }

    /// What is known of a stream that a change or an index speaks of.
    ///
    /// # Panics
    /// If there is none: changes are applied in the order they were decided in.
    pub(crate) fn meta(&self, id: Incarnation) -> &Meta {
        self.streams.get(&id).expect("changes speak of streams that exist")
    }

    pub(crate) fn get(&self, id: Incarnation) -> Option<&Meta> {
        self.streams.get(&id)
    }

    pub(crate) fn addresses(&self) -> &BTreeMap<Address, Incarnation> {
        &self.addresses
    }

    /// The part of a stream's own messages that somebody can still read.
    #[cfg(feature = "file")]
    pub(crate) fn needed(&self, id: Incarnation) -> std::ops::Range<Offset> {
        let meta = self.meta(id);
        let last = Offset::new(wire::caps::ORDINAL_MAX, wire::caps::ORDINAL_MAX);
        let mut needed = if meta.retired { last..Offset::START } else { meta.earliest..last };
        for child in self.children(id) {
            let end = self.meta(child).own_start();
            let from = self.needed(child).start;
            if from < end {
                needed = needed.start.min(from)..needed.end.max(end);
            }
        }
        needed
    }

    /// Folds one change in.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create(new) => self.insert(new.id, Meta::new(new)),
            Change::Append(new) => self.meta_mut(new.id).append(new),
            Change::Touch { id, at } => self.meta_mut(*id).touch(*at),
            Change::Trim { id, before } => self.meta_mut(*id).earliest = *before,
            Change::Retire { id } => self.meta_mut(*id).retired = true,
            Change::Drop { id, .. } => self.remove(*id),
        }
    }

    /// Puts a stream in whole, as a checkpoint holds it.
    pub(crate) fn insert(&mut self, id: Incarnation, mut meta: Meta) {
        self.last = self.last.max(id.0);
        if let Some(origin) = &meta.origin {
            let parent = self.streams.get_mut(&origin.parent).expect("a fork has its parent");
            parent.forks += 1;
            meta.depth = parent.depth + 1;
            self.forks.insert((origin.parent, id));
        }
        self.addresses.insert(meta.address.clone(), id);
        self.streams.insert(id, meta);
        self.watch_deadline(id);
    }

    /// Has [`Table::due`] name the stream when its time is over.
    pub(crate) fn watch_deadline(&mut self, id: Incarnation) {
        let alive = self.streams.get(&id).filter(|meta| !meta.retired);
        if let Some(deadline) = alive.and_then(Meta::deadline) {
            self.deadlines.push(Reverse((deadline, id)));
        }
    }

    /// Streams whose time is over, at most `limit` of them.
    pub(crate) fn due(&mut self, now: UnixMs, limit: usize) -> Vec<Incarnation> {
        let mut due = Vec::new();
        while let Some(Reverse((deadline, id))) = self.deadlines.peek().copied()
            && deadline <= now
            && due.len() < limit
        {
            self.deadlines.pop();
            // A deadline that readers or writers have moved comes up again.
            match self.streams.get(&id).and_then(Meta::deadline) {
                Some(moved) if moved > now => self.deadlines.push(Reverse((moved, id))),
                Some(_) => due.push(id),
                None => {}
            }
        }
        due
    }

    /// The stretches that make up a stream, oldest ancestor first.
    pub(crate) fn lineage(&self, id: Incarnation) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        let (mut id, mut end) = (id, self.meta(id).tail);
        loop {
            let meta = self.meta(id);
            let start = meta.own_start().min(end);
            stretches.push(Stretch { id, end });
            match &meta.origin {
                Some(origin) => (id, end) = (origin.parent, start),
                None => break,
            }
        }
        stretches.reverse();
        stretches
    }

    /// Ids up to and including this one are taken.
    #[cfg(feature = "file")]
    pub(crate) fn skip_to(&mut self, id: Incarnation) {
        self.last = self.last.max(id.0);
    }

    #[cfg(feature = "file")]
    pub(crate) fn last_id(&self) -> Incarnation {
        Incarnation(self.last)
    }

    /// The forks of a stream.
    fn children(&self, parent: Incarnation) -> impl Iterator<Item = Incarnation> {
        let all = (parent, Incarnation(0))..=(parent, Incarnation(u64::MAX));
        self.forks.range(all).map(|(_, child)| *child)
    }

    fn next_id(&self) -> Incarnation {
        Incarnation(self.last + 1)
    }

    pub(crate) fn meta_mut(&mut self, id: Incarnation) -> &mut Meta {
        self.streams.get_mut(&id).expect("changes speak of streams that exist")
    }

    fn remove(&mut self, id: Incarnation) {
        let meta = self.streams.remove(&id).expect("changes speak of streams that exist");
        assert_eq!(meta.forks, 0, "a stream is dropped after its forks");
        // A checkpoint may hold a stream beside the newer one of the same name.
        if self.addresses.get(&meta.address) == Some(&id) {
            self.addresses.remove(&meta.address);
        }
        if let Some(origin) = &meta.origin {
            self.meta_mut(origin.parent).forks -= 1;
            self.forks.remove(&(origin.parent, id));
        }
    }
}

impl Change {
    /// The stream that changes.
    pub(crate) fn id(&self) -> Incarnation {
        match self {
            Self::Create(new) => new.id,
            Self::Append(new) => new.id,
            Self::Touch { id, .. }
            | Self::Trim { id, .. }
            | Self::Retire { id }
            | Self::Drop { id, .. } => *id,
        }
    }

    /// The messages it adds, and where the first of them stands.
    pub(crate) fn messages(&self) -> Option<(Offset, &Messages)> {
        let (start, messages) = match self {
            Self::Create(new) => (new.start(), &new.messages),
            Self::Append(new) => (new.start, &new.messages),
            _ => return None,
        };
        (!messages.is_empty()).then_some((start, messages))
    }
}

impl NewStream {
    /// Where its own messages begin.
    pub(crate) fn start(&self) -> Offset {
        self.origin.as_ref().map_or(Offset::START, |origin| origin.end)
    }
}

impl<T> Decided<T> {
    fn nothing_to_do(answer: T) -> Self {
        Self { answer, changes: Changes::new() }
    }

    fn one(answer: T, change: Change) -> Self {
        Self { answer, changes: SmallVec::from_iter([change]) }
    }
}

macro_rules! absent_is {
    ($($error:ty),*) => {$(
        impl From<Absent> for $error {
            fn from(absent: Absent) -> Self {
                match absent {
                    Absent::NotFound | Absent::Expired(_) => StreamNotFound.into(),
                    Absent::Gone => StreamGone.into(),
                }
            }
        }
    )*};
}

absent_is!(
    crate::AppendError,
    crate::ReadError,
    crate::HeadError,
    crate::TrimError,
    crate::DeleteError,
    crate::ForkError
);
