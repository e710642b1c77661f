//! What readers see of a stream: only what is durable.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use parking_lot::Mutex;
use sys::UnixMs;
use tokio::sync::{Notify, futures::OwnedNotified};
use wire::{Address, ContentType, Expiry, Offset};

use super::place::{Extent, FileId};
use crate::{
    Head, HeadError, Incarnation, OffsetTrimmed, ReadError, StreamGone, StreamNotFound,
    table::{Meta, touch_slack},
};

/// Extents looked up at a time.
const EXTENTS_MAX: usize = 8192;

/// One stream, as published.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: Incarnation,
    pub(super) address: Address,
    pub(super) origin: Option<Parent>,
    content_type: ContentType,
    expiry: Expiry,
    created_at: UnixMs,
    touched: Option<SharedTouch>,
    forks: AtomicU32,
    // Held to copy a few numbers or extents.
    view: Mutex<View>,
}

/// Where a fork's inherited messages are.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub(super) stream: Arc<Stream>,
    /// The inherited messages end here.
    pub(super) end: Offset,
}

/// Only streams with a sliding lifetime have one.
#[derive(Debug)]
struct SharedTouch {
    newest: Arc<AtomicU64>,
    durable: AtomicU64,
}

#[derive(Debug)]
struct View {
    life: Life,
    earliest: Offset,
    tail: Offset,
    closed: bool,
    extents: Vec<Extent>,
    /// Made by the first reader that waits.
    waiting: Option<Arc<Notify>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Live,
    Retired,
    Dropped,
}

/// Where a read backwards begins.
pub(super) struct BackFrom {
    pub(super) start: Offset,
    /// One read takes no more than what follows it.
    pub(super) is_limit: bool,
}

/// Whether a waiting reader may go on.
pub(super) enum Wait {
    Ready(Head),
    Until(OwnedNotified),
}

impl Stream {
    pub(super) fn new(
        id: Incarnation,
        meta: &Meta,
        parent: Option<Arc<Self>>,
        extents: Vec<Extent>,
    ) -> Self {
        let durable = AtomicU64::new(meta.touched.durable().get());
        let origin = meta.origin.as_ref().zip(parent);
        Self {
            id,
            address: meta.address.clone(),
            origin: origin.map(|(origin, stream)| Parent { stream, end: origin.end }),
            content_type: meta.content_type.clone(),
            expiry: meta.expiry,
            created_at: meta.created_at,
            touched: meta.touched.shared().map(|newest| SharedTouch { newest, durable }),
            forks: AtomicU32::new(0),
            view: Mutex::new(View {
                life: if meta.retired { Life::Retired } else { Life::Live },
                earliest: meta.earliest,
                tail: meta.tail,
                closed: meta.closed,
                extents,
                waiting: None,
            }),
        }
    }

    /// The head, if the stream is there for its users.
    pub(super) fn head(&self, now: UnixMs) -> Result<Head, HeadError> {
        let view = self.view.lock();
        self.check_alive(&view, now)?;
        Ok(self.head_of(&view))
    }

    /// The extent that holds `from`, and those after it that begin before `until` and not after
    /// `byte_limit`: at most [`EXTENTS_MAX`], so that nobody waits long for the lock.
    pub(super) fn extents_between(
        &self,
        from: Offset,
        until: Offset,
        byte_limit: u64,
    ) -> Vec<Extent> {
        let view = self.view.lock();
        let after = view.extents.partition_point(|extent| extent.start <= from);
        let found = view.extents[after.saturating_sub(1)..].iter();
        let wanted =
            |extent: &&Extent| extent.start < until && extent.start.byte.get() <= byte_limit;
        found.take_while(wanted).take(EXTENTS_MAX).copied().collect()
    }

    /// Where the extent begins that holds `byte`, or the first of those that one read before `end`
    /// can take.
    pub(super) fn extent_back_from(&self, byte: u64, end: Offset) -> Option<BackFrom> {
        let view = self.view.lock();
        let until = view.extents.partition_point(|extent| extent.start < end);
        let holds = view.extents.partition_point(|extent| extent.start.byte.get() <= byte);
        let limit = until.saturating_sub(EXTENTS_MAX / 2);
        let first = holds.saturating_sub(1).max(limit);
        let extent = view.extents[..until].get(first)?;
        Some(BackFrom { start: extent.start, is_limit: limit >= holds.max(1) })
    }

    /// Where the first extent after `from` begins.
    pub(super) fn extent_after(&self, from: Offset) -> Option<Offset> {
        let view = self.view.lock();
        let after = view.extents.partition_point(|extent| extent.start <= from);
        view.extents.get(after).map(|extent| extent.start)
    }

    pub(super) fn extents(&self) -> (Vec<Extent>, Offset) {
        let view = self.view.lock();
        (view.extents.clone(), view.tail)
    }

    /// The extents that hold some of the messages in `needed`.
    pub(super) fn needed_extents(&self, needed: &std::ops::Range<Offset>) -> Vec<Extent> {
        let (extents, tail) = self.extents();
        let ends = extents.iter().skip(1).map(|next| next.start).chain([tail]);
        let is_needed =
            |(extent, end): &(&Extent, Offset)| extent.start < needed.end && *end > needed.start;
        extents.iter().zip(ends).filter(is_needed).map(|(extent, _)| *extent).collect()
    }

    /// Puts regrouped extents in the place of those in segments up to `through`.
    pub(super) fn regrouped(&self, mut extents: Vec<Extent>, through: u32) {
        let mut view = self.view.lock();
        let newer =
            |extent: &&Extent| matches!(extent.place.file, FileId::Segment(n) if n > through);
        extents.extend(view.extents.iter().filter(newer));
        extents.shrink_to_fit();
        view.extents = extents;
    }

    /// Fails if a trim or a delete has overtaken a reader at `start`.
    pub(super) fn check_kept(&self, start: Offset) -> Result<(), ReadError> {
        let view = self.view.lock();
        if view.life == Life::Dropped {
            return Err(StreamNotFound.into());
        }
        match start < view.earliest {
            true => Err(OffsetTrimmed { earliest: view.earliest }.into()),
            false => Ok(()),
        }
    }

    /// Waits for the tail to pass `after`.
    pub(super) fn wait(&self, after: Offset, now: UnixMs) -> Result<Wait, HeadError> {
        let mut view = self.view.lock();
        self.check_alive(&view, now)?;
        if view.tail > after || view.closed {
            return Ok(Wait::Ready(self.head_of(&view)));
        }
        let waiting = view.waiting.get_or_insert_default().clone();
        // Registered while the view is locked, so that no change is missed.
        Ok(Wait::Until(waiting.notified_owned()))
    }

    /// Remembers a read; true if that must be made durable before the read is answered.
    pub(super) fn touch(&self, now: UnixMs) -> bool {
        let (Some(touched), Expiry::Sliding(ttl)) = (&self.touched, self.expiry) else {
            return false;
        };
        touched.newest.fetch_max(now.get(), Ordering::AcqRel);
        let durable = UnixMs::new(touched.durable.load(Ordering::Acquire));
        now > durable.plus(touch_slack(ttl))
    }

    pub(super) fn publish_append(&self, extent: Option<Extent>, meta: &Published) {
        let mut view = self.view.lock();
        view.extents.extend(extent);
        view.tail = meta.tail;
        view.closed = meta.closed;
        self.publish_touch(meta.at);
        wake(&mut view);
    }

    /// Takes in an extent that a log holds beyond its checkpoint.
    pub(super) fn recovered(&self, extent: Extent) {
        self.view.lock().extents.push(extent);
    }

    pub(super) fn publish_touch(&self, at: UnixMs) {
        if let Some(touched) = &self.touched {
            touched.durable.fetch_max(at.get(), Ordering::AcqRel);
        }
    }

    pub(super) fn publish_trim(&self, before: Offset) {
        self.view.lock().earliest = before;
    }

    pub(super) fn publish_retired(&self) {
        let mut view = self.view.lock();
        view.life = Life::Retired;
        wake(&mut view);
    }

    pub(super) fn publish_fork(&self) {
        self.forks.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn publish_fork_dropped(&self) {
        self.forks.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn publish_dropped(&self) {
        let mut view = self.view.lock();
        view.life = Life::Dropped;
        wake(&mut view);
    }

    /// Extents that reach past what a crash left of the tail: none, or recovery is wrong.
    pub(super) fn check_recovered(&self, meta: &Meta) -> bool {
        let mut view = self.view.lock();
        view.tail = meta.tail;
        view.closed = meta.closed;
        view.earliest = meta.earliest;
        view.extents.windows(2).all(|pair| pair[0].start < pair[1].start)
            && view.extents.last().is_none_or(|last| last.start < meta.tail)
    }

    fn check_alive(&self, view: &View, now: UnixMs) -> Result<(), HeadError> {
        match view.life {
            Life::Live if self.expired(now) => match self.forks.load(Ordering::Acquire) {
                0 => Err(StreamNotFound.into()),
                _ => Err(StreamGone.into()),
            },
            Life::Live => Ok(()),
            Life::Retired => Err(StreamGone.into()),
            Life::Dropped => Err(StreamNotFound.into()),
        }
    }

    fn expired(&self, now: UnixMs) -> bool {
        match (self.expiry, &self.touched) {
            (Expiry::At(time), _) => time.unix_ms() <= now.get(),
            (Expiry::Sliding(ttl), Some(touched)) => {
                let newest = UnixMs::new(touched.newest.load(Ordering::Acquire));
                newest.plus(ttl.duration()) <= now
            }
            _ => false,
        }
    }

    fn head_of(&self, view: &View) -> Head {
        Head {
            incarnation: self.id,
            content_type: self.content_type.clone(),
            expiry: self.expiry,
            earliest: view.earliest,
            tail: view.tail,
            closed: view.closed,
            created_at: self.created_at,
        }
    }
}

/// What an append changes for readers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    pub(super) tail: Offset,
    pub(super) closed: bool,
    pub(super) at: UnixMs,
}

fn wake(view: &mut View) {
    if let Some(waiting) = view.waiting.take() {
        waiting.notify_waiters();
    }
}
