//! One stream of the model: a list of texts, and what was said of it.

use std::collections::BTreeMap;

use log::Freshness;
use sys::UnixMs;
use wire::{Expiry, Offset, Timestamp, Ttl};

use crate::{
    answer::{Answer, Refusal, Seen},
    operation::{Life, Place, Triple},
};

/// A stream, from its first message to its last, whether they are kept or not.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) name: &'static str,
    pub(crate) json: bool,
    pub(crate) life: Life,
    /// When it was made, and when the run began, in milliseconds.
    pub(crate) born: u64,
    pub(crate) epoch: u64,
    pub(crate) texts: Vec<String>,
    /// How many of them were trimmed.
    pub(crate) trimmed: usize,
    pub(crate) closed: bool,
    pub(crate) closer: Option<Triple>,
    /// The newest epoch and sequence of each producer.
    pub(crate) producers: BTreeMap<&'static str, (u64, u64)>,
    pub(crate) seq: Option<&'static str>,
    pub(crate) origin: Option<Origin>,
    pub(crate) presence: Presence,
    /// The earliest and the latest time at which it may expire.
    pub(crate) ends: Option<(u64, u64)>,
}

/// What a fork was forked from, as it was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) source: usize,
    pub(crate) at: Option<Offset>,
    pub(crate) sub_offset: u64,
    pub(crate) end: Offset,
}

/// Whether a stream is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Alive,
    /// Only for its forks.
    Gone,
    Dropped,
}

impl Stream {
    /// The place before message `position`.
    pub(crate) fn offset(&self, position: usize) -> Offset {
        let bytes: usize = self.texts[..position].iter().map(String::len).sum();
        Offset::new(position as u64, bytes as u64)
    }

    pub(crate) fn tail(&self) -> Offset {
        self.offset(self.texts.len())
    }

    pub(crate) fn earliest(&self) -> Offset {
        self.offset(self.trimmed)
    }

    /// The number of messages before an offset that is not past the tail.
    pub(crate) fn position(&self, offset: Offset) -> Result<usize, Refusal> {
        let position = offset.position.get() as usize;
        if position < self.trimmed {
            Err(Refusal::Trimmed { earliest: self.earliest() })
        } else if self.offset(position) == offset {
            Ok(position)
        } else {
            Err(Refusal::OffsetUnknown)
        }
    }

    /// The offset that a place stands for now.
    pub(crate) fn resolve(&self, place: &Place) -> Offset {
        let count = self.texts.len();
        match place {
            Place::Boundary(index) => self.offset(index.index(count + 1)),
            Place::Inside(_) | Place::Short(_) if count == 0 => Offset::START,
            Place::Inside(index) => self.offset(index.index(count)).after(0, 1),
            Place::Short(index) => match index.index(count) + 1 {
                // A byte before the earliest is trimmed to some, unknown to others.
                position if position == self.trimmed => self.earliest(),
                position => {
                    let end = self.offset(position);
                    Offset::new(end.position.get(), end.byte.get() - 1)
                }
            },
            Place::Tail => self.tail(),
            Place::Beyond(messages) => self.tail().after(*messages, *messages),
        }
    }

    /// Whole messages from `position`: at least one, and no more than fit.
    pub(crate) fn read(&self, life: usize, position: usize, bytes_max: usize) -> Answer {
        let mut next = position;
        let mut bytes = 0;
        while let Some(text) = self.texts.get(next) {
            bytes += text.len();
            if next > position && bytes > bytes_max {
                break;
            }
            next += 1;
        }
        self.chunk(life, position, next)
    }

    /// Whole messages that end at `position`: the newest that fit, at least one.
    pub(crate) fn read_back(&self, life: usize, position: usize, bytes_max: usize) -> Answer {
        let mut start = position;
        let mut bytes = 0;
        while start > self.trimmed {
            bytes += self.texts[start - 1].len();
            if start < position && bytes > bytes_max {
                break;
            }
            start -= 1;
        }
        self.chunk(life, start, position)
    }

    fn chunk(&self, life: usize, position: usize, next: usize) -> Answer {
        Answer::Chunk {
            life,
            start: self.offset(position),
            next: self.offset(next),
            texts: self.texts[position..next].to_vec(),
            freshness: match next < self.texts.len() {
                true => Freshness::Behind,
                false if self.closed => Freshness::Closed,
                false => Freshness::UpToDate,
            },
        }
    }

    pub(crate) fn seen(&self, life: usize) -> Seen {
        Seen {
            life,
            json: self.json,
            expiry: match self.life {
                Life::Forever => Expiry::Never,
                Life::Idle(seconds) => Expiry::Sliding(Ttl::from_seconds(seconds)),
                Life::Until(ms) => Expiry::At(Timestamp::from_unix_ms(self.epoch + ms)),
            },
            earliest: self.earliest(),
            tail: self.tail(),
            closed: self.closed,
            created_at: UnixMs::new(self.born),
        }
    }

    /// Begins its life, which may be over at once.
    pub(crate) fn start_clock(&mut self) {
        let end = match self.life {
            Life::Forever => None,
            Life::Idle(seconds) => Some(self.born + seconds * 1_000),
            Life::Until(ms) => Some(self.born.max(self.epoch + ms)),
        };
        self.ends = end.map(|end| (end, end));
    }

    /// It was read or written.
    pub(crate) fn touch(&mut self, now: u64) {
        self.may_touch(now);
        if let (Life::Idle(seconds), Some(ends)) = (self.life, &mut self.ends) {
            ends.0 = ends.0.max(now + seconds * 1_000);
        }
    }

    /// An engine may or may not count this as a use.
    pub(crate) fn may_touch(&mut self, now: u64) {
        if let (Life::Idle(seconds), Some(ends)) = (self.life, &mut self.ends) {
            ends.1 = ends.1.max(now + seconds * 1_000);
        }
    }

    /// After a crash it may expire later than it should, by a tenth of its time.
    pub(crate) fn forget_touches(&mut self) {
        if let (Life::Idle(seconds), Some(ends)) = (self.life, &mut self.ends) {
            ends.1 += seconds * 100;
        }
    }
}
