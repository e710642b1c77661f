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

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sys::UnixMs;
use wire::{Offset, StreamPath};

use crate::{
    Config, Delivery,
    caps::{RETRY_FIRST, RETRY_JITTER_PERCENT, RETRY_MAX, STREAMS_PER_WAKE_MAX},
    error::{AlreadyClaimed, ClaimError, Fenced, InvalidAck, NoPendingWork, ProgressError},
};

/// One subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subscription {
    pub(crate) config: Config,
    /// What URLs of this server begin with, as its maker sees them.
    pub(crate) base: String,
    pub(crate) created_at: u64,
    #[serde(with = "links")]
    pub(crate) links: BTreeMap<StreamPath, Link>,
    /// Of the newest wake.
    pub(crate) generation: u64,
    pub(crate) wake: Option<Wake>,
    /// In a row.
    pub(crate) failures: u32,
    /// Linked streams with messages that nobody has acknowledged; follows from links and tails.
    #[serde(skip)]
    pending: BTreeSet<StreamPath>,
}

/// A stream that a subscription follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    /// Named by a client.
    pub(crate) is_explicit: bool,
    /// Found by the pattern.
    pub(crate) is_matched: bool,
    /// Up to where everything is done; none before the start.
    #[serde(with = "offset")]
    pub(crate) acked: Option<Offset>,
    /// Where the stream ends, as far as is known; not stored, since the log knows.
    #[serde(skip)]
    pub(crate) tail: Offset,
}

/// A call to work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wake {
    pub(crate) id: String,
    pub(crate) generation: u64,
    /// What there is to do, as it stood.
    pub(crate) streams: Vec<Task>,
    pub(crate) stage: Stage,
}

/// A stream with work, as it stood when the wake was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    #[serde(with = "crate::text")]
    pub(crate) path: StreamPath,
    #[serde(with = "crate::text")]
    pub(crate) tail: Offset,
}

/// How far a wake has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// The webhook is being called; the lease runs.
    Calling { until: u64 },
    /// A message in the wake stream asks for a worker.
    Offered,
    /// The call or the message failed, and is made again in its time.
    Waiting { next_at: u64 },
    /// A worker is at it.
    Held { holder: Option<String>, until: u64 },
}

/// What happened to a subscription. Stored, so kinds are never reused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Event {
    /// It is like this: it was made, or its story is told anew.
    Is(Box<Subscription>),
    Deleted,
    Linked(Linked),
    /// A client does not name the stream any more.
    Unlinked(#[serde(with = "crate::text")] StreamPath),
    Woken(Wake),
    Acked(Vec<Ack>),
    Stage(Stage),
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Linked {
    #[serde(with = "crate::text")]
    pub(crate) path: StreamPath,
    pub(crate) link: Link,
}

/// How far a worker has come in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// The stream.
    #[serde(rename = "stream", with = "crate::text")]
    pub path: StreamPath,
    /// The end of what is done.
    #[serde(with = "crate::text")]
    pub offset: Offset,
}

/// What a worker reports of its wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The wake it works on.
    pub wake_id: String,
    /// That wake's generation.
    pub generation: u64,
    /// What is done.
    pub acks: Vec<Ack>,
    /// Whether that is all.
    pub done: bool,
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
            generation: 0,
            wake: None,
            failures: 0,
            pending: BTreeSet::new(),
        }
    }

    /// Learns where a linked stream ends.
    pub(crate) fn moved(&mut self, path: &StreamPath, tail: Offset) {
        if let Some(link) = self.links.get_mut(path) {
            link.tail = tail;
        }
        self.weigh(path);
    }

    /// True while deliveries fail.
    pub(crate) fn is_failing(&self) -> bool {
        matches!(self.wake, Some(Wake { stage: Stage::Waiting { .. }, .. }))
    }

    /// When something is to be done about it even if nobody asks.
    pub(crate) fn due_at(&self) -> Option<UnixMs> {
        match &self.wake.as_ref()?.stage {
            Stage::Calling { until } | Stage::Held { until, .. } => Some(UnixMs::new(*until)),
            Stage::Waiting { next_at } => Some(UnixMs::new(*next_at)),
            Stage::Offered => None,
        }
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Is(subscription) => *self = (**subscription).clone(),
            Event::Deleted => {}
            Event::Linked(Linked { path, link }) => {
                let tail = self.links.get(path).map_or(link.tail, |known| known.tail);
                self.links.insert(path.clone(), Link { tail, ..*link });
                self.weigh(path);
            }
            Event::Unlinked(path) => {
                if let Some(link) = self.links.get_mut(path) {
                    link.is_explicit = false;
                    if !link.is_matched {
                        self.links.remove(path);
                    }
                }
                self.weigh(path);
            }
            Event::Woken(wake) => {
                self.generation = wake.generation;
                self.wake = Some(wake.clone());
            }
            Event::Acked(acks) => acks.iter().for_each(|ack| self.acked(ack)),
            Event::Stage(stage) => self.enter(stage),
            Event::Ended => self.wake = None,
        }
    }

    fn enter(&mut self, stage: &Stage) {
        match stage {
            Stage::Waiting { .. } => self.failures = self.failures.saturating_add(1),
            Stage::Held { .. } => self.failures = 0,
            Stage::Calling { .. } | Stage::Offered => {}
        }
        if let Some(wake) = &mut self.wake {
            wake.stage = stage.clone();
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
        let has_work =
            self.links.get(path).is_some_and(|link| link.tail > link.acked.unwrap_or_default());
        if has_work {
            self.pending.insert(path.clone());
        } else {
            self.pending.remove(path);
        }
    }

    /// Links a stream that the pattern found: what it holds is work, for nobody has seen it.
    pub(crate) fn discover(&self, path: &StreamPath) -> Option<Event> {
        let is_new = !self.links.get(path).is_some_and(|link| link.is_matched);
        let known = self.links.get(path).copied().unwrap_or_default();
        (is_new && self.config.covers(path)).then(|| {
            Event::Linked(Linked { path: path.clone(), link: Link { is_matched: true, ..known } })
        })
    }

    /// Links a stream that a client names; only what comes after `tail` is work.
    pub(crate) fn name(&self, path: &StreamPath, tail: Offset) -> Option<Event> {
        let link = match self.links.get(path) {
            Some(link) if link.is_explicit => return None,
            Some(link) => Link { is_explicit: true, ..*link },
            None => Link {
                is_explicit: true,
                is_matched: self.config.covers(path),
                acked: Some(tail),
                tail,
            },
        };
        Some(Event::Linked(Linked { path: path.clone(), link }))
    }

    /// Calls to work, if there is some and nobody was called yet.
    pub(crate) fn rouse(&self, id: impl FnOnce() -> String, now: UnixMs) -> Option<Event> {
        if self.wake.is_some() || self.pending.is_empty() {
            return None;
        }
        let task = |path: &StreamPath| {
            let tail = self.links.get(path)?.tail;
            Some(Task { path: path.clone(), tail })
        };
        let streams = self.pending.iter().filter_map(task).take(STREAMS_PER_WAKE_MAX).collect();
        let stage = match self.config.delivery {
            Delivery::Webhook(_) => Stage::Calling { until: self.lease_from(now) },
            Delivery::PullWake(_) => Stage::Offered,
        };
        let generation = self.generation + 1;
        Some(Event::Woken(Wake { id: id(), generation, streams, stage }))
    }

    /// Gives the wake to a worker.
    pub(crate) fn claim(&self, worker: &str, now: UnixMs) -> Result<Vec<Event>, ClaimError> {
        let wake = self.wake.as_ref().ok_or(NoPendingWork)?;
        match &wake.stage {
            Stage::Held { holder, .. } => Err(AlreadyClaimed {
                holder: holder.clone().unwrap_or_default(),
                generation: wake.generation,
            }
            .into()),
            Stage::Calling { .. } => Err(NoPendingWork.into()),
            Stage::Offered | Stage::Waiting { .. } => {
                let (holder, until) = (Some(worker.to_owned()), self.lease_from(now));
                Ok(vec![Event::Stage(Stage::Held { holder, until })])
            }
        }
    }

    /// Takes a worker's report; `token` is the generation its token is for.
    pub(crate) fn report(
        &self,
        token: u64,
        progress: &Progress,
        now: UnixMs,
    ) -> Result<Vec<Event>, ProgressError> {
        let wake = self.current(token, &progress.wake_id, progress.generation)?;
        self.check_acks(&progress.acks)?;
        let mut events = Vec::with_capacity(2);
        if !progress.acks.is_empty() {
            events.push(Event::Acked(progress.acks.clone()));
        }
        events.push(if progress.done {
            Event::Ended
        } else {
            let holder = match &wake.stage {
                Stage::Held { holder, .. } => holder.clone(),
                _ => None,
            };
            Event::Stage(Stage::Held { holder, until: self.lease_from(now) })
        });
        Ok(events)
    }

    /// Takes the wake back from a worker that gives it up.
    pub(crate) fn release(
        &self,
        token: u64,
        wake_id: &str,
        generation: u64,
    ) -> Result<Vec<Event>, Fenced> {
        self.current(token, wake_id, generation).map(|_| vec![Event::Ended])
    }

    /// The wake, if it is the one that is spoken of and somebody may work on it.
    fn current(&self, token: u64, wake_id: &str, generation: u64) -> Result<&Wake, Fenced> {
        let wake = self.wake.as_ref().ok_or(Fenced)?;
        let is_it = token == wake.generation && generation == wake.generation && wake_id == wake.id;
        let is_at_work = match wake.stage {
            Stage::Held { .. } | Stage::Calling { .. } => true,
            // The call may have arrived although it seemed to fail.
            Stage::Waiting { .. } => matches!(self.config.delivery, Delivery::Webhook(_)),
            Stage::Offered => false,
        };
        if is_it && is_at_work { Ok(wake) } else { Err(Fenced) }
    }

    fn check_acks(&self, acks: &[Ack]) -> Result<(), InvalidAck> {
        for ack in acks {
            let link = self.links.get(&ack.path);
            let fits = link.is_some_and(|link| {
                ack.offset >= link.acked.unwrap_or_default() && ack.offset <= link.tail
            });
            if !fits {
                return Err(InvalidAck { path: ack.path.clone(), offset: ack.offset });
            }
        }
        Ok(())
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
        let Some(wake) = self.wake.as_ref().filter(|wake| wake.id == wake_id) else {
            return Vec::new();
        };
        match (&wake.stage, reply) {
            (Stage::Calling { .. }, Reply::Done) => {
                vec![Event::Acked(self.all_done(wake)), Event::Ended]
            }
            (Stage::Calling { until }, Reply::Accepted) => {
                vec![Event::Stage(Stage::Held { holder: None, until: *until })]
            }
            (Stage::Calling { .. } | Stage::Offered, Reply::Failed) => {
                let next_at = now.plus(self.pause(chance)).get();
                vec![Event::Stage(Stage::Waiting { next_at })]
            }
            _ => Vec::new(),
        }
    }

    fn all_done(&self, wake: &Wake) -> Vec<Ack> {
        let still_linked = wake.streams.iter().filter(|task| self.links.contains_key(&task.path));
        still_linked.map(|task| Ack { path: task.path.clone(), offset: task.tail }).collect()
    }

    /// What is due by itself: a silent worker loses its wake, a failed call is made again.
    pub(crate) fn overdue(&self, now: UnixMs) -> Vec<Event> {
        let Some(wake) = self.wake.as_ref().filter(|_| self.due_at().is_some_and(|at| at <= now))
        else {
            return Vec::new();
        };
        match (&wake.stage, &self.config.delivery) {
            (Stage::Waiting { .. }, Delivery::Webhook(_)) => {
                vec![Event::Stage(Stage::Calling { until: self.lease_from(now) })]
            }
            (Stage::Waiting { .. }, Delivery::PullWake(_)) => vec![Event::Stage(Stage::Offered)],
            (Stage::Calling { .. } | Stage::Held { .. } | Stage::Offered, _) => vec![Event::Ended],
        }
    }

    fn lease_from(&self, now: UnixMs) -> u64 {
        now.plus(self.config.lease_ttl()).get()
    }

    /// The wait before the next attempt: doubled each time, and never the same for everybody.
    fn pause(&self, chance: impl FnOnce(u64) -> u64) -> Duration {
        let doubled = RETRY_FIRST.saturating_mul(1 << self.failures.min(16)).min(RETRY_MAX);
        let ms = doubled.as_millis() as u64;
        let spread = ms * RETRY_JITTER_PERCENT / 100;
        Duration::from_millis(ms - spread + chance(2 * spread + 1))
    }
}

mod offset {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use wire::Offset;

    pub(super) fn serialize<S: Serializer>(
        offset: &Option<Offset>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match offset {
            Some(offset) => serializer.collect_str(offset),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Offset>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}

mod links {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};
    use wire::StreamPath;

    use super::{Link, Linked};

    pub(super) fn serialize<S: Serializer>(
        links: &BTreeMap<StreamPath, Link>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let linked =
            |(path, link): (&StreamPath, &Link)| Linked { path: path.clone(), link: *link };
        serializer.collect_seq(links.iter().map(linked))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<StreamPath, Link>, D::Error> {
        let links = Vec::<Linked>::deserialize(deserializer)?;
        Ok(links.into_iter().map(|linked| (linked.path, linked.link)).collect())
    }
}

#[cfg(test)]
mod tests;
