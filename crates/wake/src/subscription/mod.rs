//! One subscription as it stands, and what may happen to it: pure, so that the same code serves,
//! recovers and is tested.
//!
//! ```text
//!            pending work               2xx, or a worker claims
//!   (idle) ───────────────▶ Calling ────────────────────────────▶ Held ──▶ (idle)
//!      ▲                    Offered                                 │  done, released,
//!      │                      │  ▲                                  │  or silent too long
//!      │     a failure        ▼  │  in its time                     │
//!      │                    Waiting                                 │
//!      └──────────────────────┴──── 2xx with done ──────────────────┘
//! ```
//!
//! That is the way of one wake. A subscription has one at a time, for all its streams together; or,
//! if its config says so, one for each stream, which then knows nothing of the others.

mod event;
mod queue;
mod told;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sys::UnixMs;
use wire::{Offset, StreamPath};

pub use self::event::Ack;
pub(crate) use self::event::{Event, Link, Linked, Sight, Stage, Task, Wake};
use self::{queue::Queue, told::Told};
use crate::{
    Concurrency, Config, Delivery,
    caps::{
        LINKS_PER_ENTRY_MAX, RETRY_FIRST, RETRY_JITTER_PERCENT, RETRY_MAX, STREAMS_PER_REQUEST_MAX,
        STREAMS_PER_WAKE_MAX, WAKES_MAX,
    },
    error::{
        AlreadyClaimed, BadReport, ClaimError, Fenced, InvalidAck, NoPendingWork, ProgressError,
    },
};

/// One subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Told", into = "Told")]
pub(crate) struct Subscription {
    pub(crate) config: Config,
    /// What URLs of this server begin with, as its maker sees them.
    pub(crate) base: String,
    pub(crate) created_at: u64,
    pub(crate) links: BTreeMap<StreamPath, Link>,
    /// How many of those a client named.
    explicit_count: usize,
    /// Of the newest wake.
    pub(crate) generation: u64,
    /// Those under way, by generation.
    pub(crate) wakes: BTreeMap<u64, Wake>,
    /// The streams of those wakes; no stream is in two of them.
    busy: BTreeMap<StreamPath, u64>,
    /// Linked streams with work that are in none of them.
    queue: Queue,
}

/// How a stream stands that the pattern covers and no link tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlinked {
    /// It is not there.
    Gone,
    /// Its watermark says that so much of it is done.
    Marked(Offset),
}

/// What a worker reports of its wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The wake it works on.
    pub wake_id: String,
    /// That wake's generation.
    pub generation: u64,
    /// What is done; each stream once.
    pub acks: Vec<Ack>,
    /// Whether that is all.
    pub done: bool,
}

impl Progress {
    /// Whether it may be looked at: all of it is written down, so it must be bounded.
    ///
    /// # Errors
    /// [`BadReport`] says what is too much.
    pub fn check(&self) -> Result<(), BadReport> {
        if self.acks.len() > STREAMS_PER_REQUEST_MAX {
            return Err(BadReport::TooManyAcks);
        }
        let mut streams = HashSet::with_capacity(self.acks.len());
        match self.acks.iter().find(|ack| !streams.insert(&ack.path)) {
            Some(ack) => Err(BadReport::AckedTwice(ack.path.clone())),
            None => Ok(()),
        }
    }
}

/// What a webhook answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Everything that the wake listed is done.
    Done,
    /// It will call back.
    Accepted,
    /// It could not be reached, or refused.
    Failed,
}

impl Subscription {
    pub(crate) fn new(config: Config, base: String, now: UnixMs) -> Self {
        Self {
            config,
            base,
            created_at: now.get(),
            links: BTreeMap::new(),
            explicit_count: 0,
            generation: 0,
            wakes: BTreeMap::new(),
            busy: BTreeMap::new(),
            queue: Queue::default(),
        }
    }

    /// Itself as it is told: in one event, or in parts, each of which fits an append.
    pub(crate) fn told(mut self) -> impl Iterator<Item = Event> {
        let mut parts = Vec::new();
        if self.links.len() > LINKS_PER_ENTRY_MAX {
            self.explicit_count = 0;
            let mut links = std::mem::take(&mut self.links).into_iter().peekable();
            while links.peek().is_some() {
                let part = links.by_ref().take(LINKS_PER_ENTRY_MAX);
                parts.push(Event::Part(part.map(|(path, link)| Linked { path, link }).collect()));
            }
        }
        parts.into_iter().chain([Event::Is(Box::new(self))])
    }

    /// Learns where a linked stream ends, if it is the one that was seen.
    pub(crate) fn moved(&mut self, path: &StreamPath, sight: Sight) {
        if let Some(link) = self.links.get_mut(path)
            && link.life == sight.life
        {
            link.tail = sight.tail;
        }
        self.weigh(path);
    }

    /// True if streams that wait for a link should be looked for: of the links that named streams
    /// leave over, at least one is free, and so many that a pass over all streams pays.
    pub(crate) fn has_room(&self, links_max: usize) -> bool {
        let free = links_max.saturating_sub(self.links.len());
        free > 0 && 2 * free >= links_max.saturating_sub(self.explicit_count)
    }

    /// True if a wake is for this stream.
    pub(crate) fn is_busy(&self, path: &StreamPath) -> bool {
        self.busy.contains_key(path)
    }

    /// True while deliveries fail.
    pub(crate) fn is_failing(&self) -> bool {
        self.wakes.values().any(|wake| matches!(wake.stage, Stage::Waiting { .. }))
    }

    /// When the next delivery is tried, if one has failed.
    pub(crate) fn next_attempt_at(&self) -> Option<u64> {
        let waiting = self.wakes.values().filter_map(|wake| match wake.stage {
            Stage::Waiting { next_at } => Some(next_at),
            _ => None,
        });
        waiting.min()
    }

    /// True if a delivery has failed and not succeeded since, be it tried again right now.
    pub(crate) fn is_set_back(&self) -> bool {
        self.wakes.values().any(|wake| wake.failures > 0)
    }

    /// True if a wake calls to work that nobody is at.
    pub(crate) fn calls_to_work(&self) -> bool {
        self.wakes.values().any(|wake| !wake.is_held())
    }

    /// When something is to be done about it even if nobody asks.
    pub(crate) fn due_at(&self) -> Option<UnixMs> {
        self.wakes.values().filter_map(Wake::due_at).min().map(UnixMs::new)
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Is(subscription) => *self = (**subscription).clone(),
            Event::Part(_) | Event::Deleted => {}
            Event::Linked(Linked { path, link }) => {
                // Of another life nothing is known that was known of the last.
                let same = self.links.get(path).filter(|known| known.life == link.life);
                let tail = same.map_or(link.tail, |known| known.tail);
                self.set_link(path, Some(Link { tail, ..*link }));
            }
            Event::Left(path) => self.set_link(path, None),
            Event::Unlinked(path) => {
                let matched = self.links.get(path).filter(|link| link.is_matched);
                let stays = matched.map(|link| Link { is_explicit: false, ..*link });
                self.set_link(path, stays);
            }
            Event::Woken(wake) => {
                self.generation = wake.generation;
                self.begin(wake.clone());
            }
            Event::Acked(acks) => acks.iter().for_each(|ack| self.acked(ack)),
            Event::Stage(stage) => self.wakes.values_mut().for_each(|wake| wake.enter(stage)),
            Event::Ended => {
                while let Some((_, wake)) = self.wakes.pop_first() {
                    self.end(&wake);
                }
            }
            Event::Entered { generation, stage } => {
                if let Some(wake) = self.wakes.get_mut(generation) {
                    wake.enter(stage);
                }
            }
            Event::Over { generation } => {
                if let Some(wake) = self.wakes.remove(generation) {
                    self.end(&wake);
                }
            }
        }
    }

    /// The only way in which links come and go.
    fn set_link(&mut self, path: &StreamPath, link: Option<Link>) {
        let is_explicit = |link: Option<Link>| link.is_some_and(|link| link.is_explicit);
        self.explicit_count += usize::from(is_explicit(link));
        let last = match link {
            Some(link) => self.links.insert(path.clone(), link),
            None => self.links.remove(path),
        };
        self.explicit_count -= usize::from(is_explicit(last));
        self.weigh(path);
    }

    fn begin(&mut self, wake: Wake) {
        for task in &wake.streams {
            self.busy.insert(task.path.clone(), wake.generation);
            self.queue.leave(&task.path);
        }
        self.wakes.insert(wake.generation, wake);
    }

    fn end(&mut self, wake: &Wake) {
        for task in &wake.streams {
            self.busy.remove(&task.path);
            self.weigh(&task.path);
        }
    }

    fn acked(&mut self, ack: &Ack) {
        if let Some(link) = self.links.get_mut(&ack.path) {
            link.acked = link.acked.max(Some(ack.offset));
            link.tail = link.tail.max(ack.offset);
        }
        self.weigh(&ack.path);
    }

    fn weigh(&mut self, path: &StreamPath) {
        let has_work = self.links.get(path).is_some_and(Link::has_work);
        if has_work && !self.busy.contains_key(path) {
            self.queue.join(path);
        } else {
            self.queue.leave(path);
        }
    }

    /// What a sight of a stream means for its link, and for a wake that was for the last one alone.
    /// Found by the pattern, a stream is linked as soon as it ends elsewhere than its watermark
    /// says; all of one without a watermark is new. Made anew, it is another stream; one that is
    /// gone, or empty, needs no link.
    pub(crate) fn saw(&self, path: &StreamPath, sight: Sight, mark: Option<Offset>) -> Vec<Event> {
        let linked = |link| Event::Linked(Linked { path: path.clone(), link });
        let is_empty = sight.tail == Offset::START;
        match self.links.get(path) {
            None if is_empty || mark == Some(sight.tail) || !self.config.covers(path) => Vec::new(),
            None => {
                let found = Link { is_matched: true, acked: mark, ..Link::default() };
                vec![linked(Link { life: sight.life, ..found })]
            }
            Some(link) if link.is_another(sight) || sight.life.is_none() && !link.is_explicit => {
                let anew = Link { acked: None, tail: Offset::START, life: sight.life, ..*link };
                let goes = is_empty && !link.is_explicit;
                let event = if goes { Event::Left(path.clone()) } else { linked(anew) };
                self.over_without(path).into_iter().chain([event]).collect()
            }
            Some(link) if link.life != sight.life => {
                vec![linked(Link { life: sight.life, ..*link })]
            }
            Some(_) => Vec::new(),
        }
    }

    /// The end of the wake that was for this stream, if it was for no other that is still there.
    fn over_without(&self, path: &StreamPath) -> Option<Event> {
        let wake = self.busy.get(path).and_then(|generation| self.wakes.get(generation))?;
        let mut others = wake.streams.iter().filter(|task| task.path != *path);
        let is_over = others.all(|task| self.link_of(task).is_none());
        is_over.then_some(Event::Over { generation: wake.generation })
    }

    /// Links a stream that a client names; only what comes after `acked` is work.
    pub(crate) fn name(
        &self,
        path: &StreamPath,
        sight: Sight,
        acked: Option<Offset>,
    ) -> Option<Event> {
        let link = match self.links.get(path) {
            Some(link) if link.is_explicit => return None,
            Some(link) => Link { is_explicit: true, ..*link },
            None => Link {
                is_explicit: true,
                is_matched: self.config.covers(path),
                acked,
                life: sight.life,
                tail: sight.tail,
            },
        };
        Some(Event::Linked(Linked { path: path.clone(), link }))
    }

    /// Unlinks a stream that a client names no more. A wake that was for this stream alone is over
    /// if nothing else links it: nobody would ever be done with it.
    pub(crate) fn unname(&self, path: &StreamPath) -> Vec<Event> {
        let stays = self.links.get(path).is_some_and(|link| link.is_matched);
        let over = if stays { None } else { self.over_without(path) };
        [Event::Unlinked(path.clone())].into_iter().chain(over).collect()
    }

    /// Calls to work that nobody was called to yet, as far as the config and the caps allow.
    pub(crate) fn rouse(&self, mut id: impl FnMut() -> String) -> Vec<Event> {
        let stage = match self.config.delivery {
            Delivery::Webhook(_) => Stage::Calling {},
            Delivery::PullWake(_) => Stage::Offered,
        };
        let mut generation = self.generation;
        let mut woken = |streams| {
            generation += 1;
            Event::Woken(Wake { id: id(), generation, streams, stage: stage.clone(), failures: 0 })
        };
        match self.config.concurrency {
            Concurrency::Subscription if !self.wakes.is_empty() || self.queue.is_empty() => {
                Vec::new()
            }
            Concurrency::Subscription => {
                let streams = self.queue.by_name().take(STREAMS_PER_WAKE_MAX);
                vec![woken(streams.filter_map(|path| self.task(path)).collect())]
            }
            Concurrency::Stream => {
                let room = WAKES_MAX.saturating_sub(self.wakes.len());
                let streams = self.queue.by_turn().take(room);
                streams.filter_map(|path| self.task(path)).map(|task| woken(vec![task])).collect()
            }
        }
    }

    fn task(&self, path: &StreamPath) -> Option<Task> {
        let Link { tail, life, .. } = *self.links.get(path)?;
        Some(Task { path: path.clone(), tail, life })
    }

    /// Gives the oldest wake that nobody has to a worker; its generation, and what happens to it.
    pub(crate) fn claim(&self, worker: &str, now: UnixMs) -> Result<(u64, Event), ClaimError> {
        let is_free = |wake: &&Wake| matches!(wake.stage, Stage::Offered | Stage::Waiting { .. });
        if let Some(wake) = self.wakes.values().find(is_free) {
            let stage =
                Stage::Held { holder: Some(worker.to_owned()), until: self.lease_from(now) };
            let generation = wake.generation;
            return Ok((generation, Event::Entered { generation, stage }));
        }
        let held = self.wakes.values().find_map(|wake| match &wake.stage {
            Stage::Held { holder, .. } => Some(AlreadyClaimed {
                holder: holder.clone().unwrap_or_default(),
                generation: wake.generation,
            }),
            _ => None,
        });
        Err(held.map_or(NoPendingWork.into(), ClaimError::from))
    }

    /// Streams that are acknowledged and have no link, but are covered by the pattern. Only the log
    /// and their watermarks tell whether there is anything wrong with that.
    pub(crate) fn unlinked(&self, acks: &[Ack]) -> impl Iterator<Item = StreamPath> {
        let is_unlinked = |path: &&StreamPath| {
            let is_known = self.links.contains_key(*path) || self.is_busy(path);
            !is_known && self.config.concurrency.is_usual() && self.config.covers(path)
        };
        acks.iter().map(|ack| &ack.path).filter(is_unlinked).cloned()
    }

    /// Takes a worker's report; `token` is the generation its token is for, and `unlinked` how
    /// those streams stand that [`Subscription::unlinked`] names.
    pub(crate) fn report(
        &self,
        token: u64,
        progress: &Progress,
        unlinked: &HashMap<StreamPath, Unlinked>,
        now: UnixMs,
    ) -> Result<Vec<Event>, ProgressError> {
        let wake = self.current(token, &progress.wake_id, progress.generation)?;
        let acks = self.valid_acks(wake, &progress.acks, unlinked)?;
        let mut events = Vec::with_capacity(2);
        if !acks.is_empty() {
            events.push(Event::Acked(acks));
        }
        let generation = wake.generation;
        events.push(if progress.done {
            Event::Over { generation }
        } else {
            let holder = match &wake.stage {
                Stage::Held { holder, .. } => holder.clone(),
                _ => None,
            };
            let stage = Stage::Held { holder, until: self.lease_from(now) };
            Event::Entered { generation, stage }
        });
        Ok(events)
    }

    /// Takes the wake back from a worker that gives it up.
    pub(crate) fn release(
        &self,
        token: u64,
        wake_id: &str,
        generation: u64,
    ) -> Result<Event, Fenced> {
        self.current(token, wake_id, generation).map(|_| Event::Over { generation })
    }

    /// The wake that is spoken of, if it is under way and somebody may work on it.
    fn current(&self, token: u64, wake_id: &str, generation: u64) -> Result<&Wake, Fenced> {
        let wake = self.wakes.get(&generation).ok_or(Fenced)?;
        let is_it = token == wake.generation && wake_id == wake.id;
        let is_at_work = match wake.stage {
            Stage::Held { .. } | Stage::Calling { .. } => true,
            // The call may have arrived although it seemed to fail.
            Stage::Waiting { .. } => matches!(self.config.delivery, Delivery::Webhook(_)),
            Stage::Offered => false,
        };
        if is_it && is_at_work { Ok(wake) } else { Err(Fenced) }
    }

    /// What is acknowledged of streams that are still there. What is gone, or was made anew since
    /// the wake asked for it, is of no use to acknowledge, and no fault of the worker; nor is a
    /// report that comes again, when its streams have come to rest.
    fn valid_acks(
        &self,
        wake: &Wake,
        acks: &[Ack],
        unlinked: &HashMap<StreamPath, Unlinked>,
    ) -> Result<Vec<Ack>, InvalidAck> {
        let tasks: HashMap<_, _> = wake.streams.iter().map(|task| (&task.path, task)).collect();
        let mut valid = Vec::with_capacity(acks.len());
        for ack in acks {
            let (task, link) = (tasks.get(&ack.path).copied(), self.links.get(&ack.path));
            let fits = |link: &Link| {
                ack.offset >= link.acked.unwrap_or_default() && ack.offset <= link.tail
            };
            match (task, link, self.config.concurrency) {
                (Some(task), link, _) => match link.filter(|link| task.is_of(link)) {
                    None => continue,
                    Some(link) if fits(link) => valid.push(ack.clone()),
                    Some(_) => return Err(ack.refused()),
                },
                // Another worker may be at any other stream.
                (None, _, Concurrency::Stream) => return Err(ack.refused()),
                (None, Some(link), _) if link.is_gone() => continue,
                (None, Some(link), _) if fits(link) => valid.push(ack.clone()),
                (None, Some(_), _) => return Err(ack.refused()),
                (None, None, _) => match unlinked.get(&ack.path) {
                    Some(Unlinked::Gone) => continue,
                    Some(Unlinked::Marked(done)) if *done == ack.offset => continue,
                    Some(Unlinked::Marked(_)) | None => return Err(ack.refused()),
                },
            }
        }
        Ok(valid)
    }

    /// Takes what the webhook answered, or whether the wake's message could be written. Nothing
    /// happens if that was for a wake that is over.
    pub(crate) fn delivered(
        &self,
        wake_id: &str,
        reply: Reply,
        now: UnixMs,
        chance: impl FnOnce(u64) -> u64,
    ) -> Vec<Event> {
        let Some(wake) = self.wakes.values().find(|wake| wake.id == wake_id) else {
            return Vec::new();
        };
        let generation = wake.generation;
        let stage = match (&wake.stage, reply) {
            // Also if it has called back before it answered.
            (Stage::Calling { .. } | Stage::Held { .. }, Reply::Done) => {
                return vec![Event::Acked(self.all_done(wake)), Event::Over { generation }];
            }
            (Stage::Calling {}, Reply::Accepted) => {
                Stage::Held { holder: None, until: self.lease_from(now) }
            }
            (Stage::Calling { .. } | Stage::Offered, Reply::Failed) => {
                Stage::Waiting { next_at: now.plus(pause(wake.failures, chance)).get() }
            }
            _ => return Vec::new(),
        };
        vec![Event::Entered { generation, stage }]
    }

    /// The link of a task's stream, if it is still there and still the same one.
    pub(crate) fn link_of(&self, task: &Task) -> Option<&Link> {
        self.links.get(&task.path).filter(|link| task.is_of(link))
    }

    fn all_done(&self, wake: &Wake) -> Vec<Ack> {
        let still_linked = wake.streams.iter().filter(|task| self.link_of(task).is_some());
        still_linked.map(|task| Ack { path: task.path.clone(), offset: task.tail }).collect()
    }

    /// What is due by itself: a silent worker loses its wake, a failed call is made again.
    pub(crate) fn overdue(&self, now: UnixMs) -> Vec<Event> {
        let is_due = |wake: &&Wake| wake.due_at().is_some_and(|at| at <= now.get());
        let next = |wake: &Wake| {
            let generation = wake.generation;
            let stage = match (&wake.stage, &self.config.delivery) {
                (Stage::Waiting { .. }, Delivery::Webhook(_)) => Stage::Calling {},
                (Stage::Waiting { .. }, Delivery::PullWake(_)) => Stage::Offered,
                (Stage::Calling { .. } | Stage::Held { .. } | Stage::Offered, _) => {
                    return Event::Over { generation };
                }
            };
            Event::Entered { generation, stage }
        };
        self.wakes.values().filter(is_due).map(next).collect()
    }

    fn lease_from(&self, now: UnixMs) -> u64 {
        now.plus(self.config.lease_ttl()).get()
    }
}

/// The wait before the next attempt: doubled each time, and never the same for everybody.
fn pause(failures: u32, chance: impl FnOnce(u64) -> u64) -> Duration {
    let doubled = RETRY_FIRST.saturating_mul(1 << failures.min(16)).min(RETRY_MAX);
    let ms = doubled.as_millis() as u64;
    let spread = ms * RETRY_JITTER_PERCENT / 100;
    Duration::from_millis(ms - spread + chance(2 * spread + 1))
}

#[cfg(test)]
mod tests;
