//! What is known of one life of a name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use log::Incarnation;
use sys::UnixMs;
use wire::{Address, ContentType, Expiry, Offset, StreamSeq};

use super::{Known, Oracle, Standing, TAG_BYTES, Tick, Verdict, demand};

/// One stream.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) address: Address,
    pub(crate) incarnation: Incarnation,
    pub(crate) content_type: ContentType,
    pub(crate) expiry: Expiry,
    pub(crate) origin: Option<Origin>,
    /// What was submitted with its create or fork.
    pub(crate) creation: usize,
    /// The append of each own message that is known, by position.
    pub(crate) placed: BTreeMap<u64, usize>,
    /// Appends that are not settled for good.
    pub(super) open: Vec<usize>,
    /// It ends here or later.
    pub(crate) tail: Offset,
    /// The highest `Stream-Seq` that was certainly stored.
    pub(super) seq: Option<StreamSeq>,
    /// It begins here, or at a trim that is under way.
    pub(crate) earliest: Offset,
    pub(crate) closed: bool,
    /// Closes under way, or without an answer.
    pub(super) closing: usize,
    /// Deletes under way, or without an answer.
    pub(super) deleting: usize,
    /// The same for deletes that take the forks, too.
    pub(super) erasing: usize,
    pub(super) died: Option<Tick>,
    pub(super) erased: Option<Tick>,
    pub(super) forks: Vec<Incarnation>,
    /// A fork may have been made, and have outlived its time before anybody saw it.
    pub(super) may_have_unseen_forks: bool,
    touched: Touched,
}

/// Where a fork comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) parent: Incarnation,
    /// The inherited messages end here.
    pub(crate) end: Offset,
}

/// When a stream was last read or written.
#[derive(Clone, Copy, Debug)]
struct Touched {
    /// For certain.
    certainly: UnixMs,
    /// At the latest.
    perhaps: UnixMs,
}

impl Stream {
    pub(super) fn new(
        address: Address,
        head: &log::Head,
        origin: Option<Origin>,
        creation: usize,
        made: std::ops::RangeInclusive<UnixMs>,
    ) -> Self {
        Self {
            address,
            incarnation: head.incarnation,
            content_type: head.content_type.clone(),
            expiry: head.expiry,
            origin,
            creation,
            placed: BTreeMap::new(),
            open: Vec::new(),
            tail: head.tail,
            seq: None,
            earliest: head.earliest,
            closed: head.closed,
            closing: 0,
            deleting: 0,
            erasing: 0,
            died: None,
            erased: None,
            forks: Vec::new(),
            may_have_unseen_forks: false,
            touched: Touched { certainly: *made.start(), perhaps: *made.end() },
        }
    }

    pub(crate) fn own_start(&self) -> Offset {
        self.origin.map_or(Offset::START, |origin| origin.end)
    }

    /// A read or write is under way.
    pub(super) fn may_be_touched(&mut self, now: UnixMs) {
        if !self.must_be_expired(now) {
            self.touched.perhaps = self.touched.perhaps.max(now);
        }
    }

    /// A read or write that began at `begun` was answered.
    pub(super) fn touched(&mut self, begun: UnixMs, now: UnixMs) {
        self.touched.certainly = self.touched.certainly.max(begun);
        self.touched.perhaps = self.touched.perhaps.max(now);
    }

    pub(super) fn may_be_expired(&self, now: UnixMs) -> bool {
        match self.expiry {
            Expiry::Never => false,
            Expiry::Sliding(ttl) => self.touched.certainly.plus(ttl.duration()) <= now,
            Expiry::At(time) => time.unix_ms() <= now.get(),
        }
    }

    pub(super) fn must_be_expired(&self, now: UnixMs) -> bool {
        match self.expiry {
            Expiry::Never => false,
            Expiry::Sliding(ttl) => {
                let slack = ttl.duration() / 10 + Duration::from_millis(1);
                self.touched.perhaps.plus(ttl.duration() + slack) <= now
            }
            Expiry::At(time) => time.unix_ms() <= now.get(),
        }
    }

    /// Somebody was told that the stream goes on to `tail`.
    pub(super) fn reach(&mut self, tail: Offset) -> Verdict {
        demand(tail.position != self.tail.position || tail.byte == self.tail.byte, || {
            format!("{self} has two offsets for one position: {tail} and {}", self.tail)
        })?;
        self.tail = self.tail.max(tail);
        Ok(())
    }

    /// Somebody was told that the stream begins at `earliest`.
    pub(super) fn trimmed_to(&mut self, earliest: Offset, trims: &[Offset]) -> Verdict {
        demand(earliest >= self.earliest, || {
            format!("{self} was trimmed to {}, and begins at {earliest} again", self.earliest)
        })?;
        demand(earliest == self.earliest || trims.contains(&earliest), || {
            format!("{self} begins at {earliest}, but nobody trimmed it there: {trims:?}")
        })?;
        self.earliest = earliest;
        Ok(())
    }
}

impl Oracle {
    /// Whether a stream is there for its users.
    pub(super) fn standing(&self, id: Incarnation, now: UnixMs) -> Standing {
        let stream = &self.streams[&id];
        let mut lineage = self.lineage(id);
        if stream.died.is_some() || lineage.any(|stream| stream.erased.is_some()) {
            return Standing::Absent;
        }
        let doomed = stream.deleting > 0 || self.lineage(id).any(|stream| stream.erasing > 0);
        match (stream.must_be_expired(now), stream.may_be_expired(now) || doomed) {
            (true, _) => Standing::Absent,
            (false, true) => Standing::Unsure,
            (false, false) => Standing::Live,
        }
    }

    /// True if the stream was gone for certain at an earlier moment.
    pub(super) fn was_gone(&self, id: Incarnation, before: &Known) -> bool {
        self.was_deleted(id, before) || self.streams[&id].must_be_expired(before.at)
    }

    /// True if the stream was deleted for certain at an earlier moment.
    pub(super) fn was_deleted(&self, id: Incarnation, before: &Known) -> bool {
        let by_then = |moment: Option<Tick>| moment.is_some_and(|tick| tick <= before.tick);
        by_then(self.streams[&id].died) || self.lineage(id).any(|stream| by_then(stream.erased))
    }

    /// True if the stream, or one that it descends from, was certainly erased.
    pub(crate) fn is_erased(&self, id: Incarnation) -> bool {
        self.lineage(id).any(|stream| stream.erased.is_some())
    }

    /// The tags of the messages that nobody but this stream stores.
    pub(crate) fn tags_of(&self, id: Incarnation) -> BTreeSet<String> {
        let stream = &self.streams[&id];
        let numbers: BTreeSet<usize> = stream.placed.values().copied().collect();
        let messages = numbers.iter().flat_map(|number| {
            // A message that is part of another has that one's tag.
            let own = format!("{number:06}.");
            let tags = self.submitted[*number].messages.iter().filter_map(|m| m.get(..TAG_BYTES));
            let tags = tags.map(|tag| String::from_utf8_lossy(tag).into_owned());
            tags.filter(move |tag| tag.starts_with(&own))
        });
        messages.collect()
    }

    /// The stream, the one it was forked from, and so on.
    pub(super) fn lineage(&self, id: Incarnation) -> impl Iterator<Item = &Stream> {
        let parent = |stream: &&Stream| Some(&self.streams[&stream.origin?.parent]);
        std::iter::successors(Some(&self.streams[&id]), parent)
    }

    /// The stream of the lineage that stores this position.
    pub(super) fn owner(&self, id: Incarnation, position: u64) -> Incarnation {
        let stores = |stream: &&Stream| stream.own_start().position.get() <= position;
        self.lineage(id).find(stores).map_or(id, |stream| stream.incarnation)
    }

    /// Whether `offset` stands between two messages; none if that is not known.
    pub(crate) fn is_boundary(&self, id: Incarnation, offset: Offset) -> Option<bool> {
        let stream = &self.streams[&id];
        if offset.position == stream.tail.position {
            return Some(offset == stream.tail);
        }
        self.offset_at(id, offset.position.get()).map(|known| known == offset)
    }

    /// Where a known message stands.
    pub(crate) fn offset_at(&self, id: Incarnation, position: u64) -> Option<Offset> {
        let owner = &self.streams[&self.owner(id, position)];
        let append = &self.submitted[*owner.placed.get(&position)?];
        let place = append.place.expect("placed");
        Some(append.offset_of(place, (position - place.position.get()) as usize))
    }

    /// A known message.
    pub(crate) fn message_at(&self, id: Incarnation, position: u64) -> Option<&bytes::Bytes> {
        let owner = &self.streams[&self.owner(id, position)];
        let append = &self.submitted[*owner.placed.get(&position)?];
        let place = append.place.expect("placed");
        append.messages.get((position - place.position.get()) as usize)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} (life {})", self.address, self.incarnation.get())
    }
}
