//! The oracle: what must be true of a log, judged from what its clients were told.
//!
//! The oracle knows nothing of files. It is told of every request when it begins and of every
//! answer when it comes, and keeps three kinds of knowledge: what is certain because it was
//! acknowledged or shown, what may be because its request was never answered, and what cannot be
//! because it was refused. Then it demands:
//!
//! - **Nothing acknowledged is lost.** Every acknowledged append stands where its answer said, byte
//!   for byte, until it is trimmed. Acknowledged creates, closes, trims and deletes stay in force:
//!   a closed stream takes nothing more, a trimmed prefix and a deleted stream never come back.
//! - **Nothing is invented.** Every message was sent to that stream by somebody, stands in it at
//!   most once, and whole: with all other messages of its append, in their order.
//! - **Nothing refused is stored**, and nothing that recovery dropped shows up later.
//! - **Nothing shown is taken back.** What a reader saw, a list named or a refusal gave as its
//!   reason is as durable as what was acknowledged.
//! - **Exactly once.** A producer's append that is sent again is a duplicate if it was stored, new
//!   if it was not, and never both.
//! - **Unanswered means either way.** A request without an answer happened or did not; which of the
//!   two, the next look decides for good.
//! - **Forks keep what they inherited**, whatever becomes of the stream they left.
//! - **No stream expires early**: not before its last acknowledged touch plus its time to live. Nor
//!   much later: not after its last possible touch plus eleven tenths of that time.
//!
//! An answer that came while another request was under way may have been given before or after it.
//! So a refusal is wrong only if its reason was false when the request began *and* when it ended,
//! and a success only if it was impossible all along. Messages are told apart by a tag, so that the
//! oracle never has to guess which append it sees. To know which life of a name an append went to,
//! clients make a name anew only while nobody else uses it ([`Oracle::is_idle`]).

mod absence;
mod append;
mod create;
mod learn;
mod list;
mod read;
mod recovered;
mod remove;
mod stream;
mod submitted;

use std::collections::BTreeMap;

use log::{Head, Incarnation};
use sys::UnixMs;
use wire::{Address, Offset};

pub(crate) use self::{
    absence::Absence,
    append::Try,
    create::{ForkFrom, Make},
    recovered::Sighting,
    stream::Stream,
    submitted::{Fate, Submitted, TAG_BYTES},
};
use crate::coverage::Event;

/// All that is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    names: BTreeMap<Address, Name>,
    streams: BTreeMap<Incarnation, Stream>,
    submitted: Vec<Submitted>,
    /// Counts beginnings, to tell what was known before a request from what came later.
    tick: Tick,
    /// What was met, until somebody counts it.
    events: Vec<Event>,
}

/// A moment between two requests.
pub(crate) type Tick = u64;

/// What was promised and not kept.
#[derive(Clone, Debug)]
pub(crate) struct Violation(pub(crate) String);

pub(crate) type Verdict<T = ()> = Result<T, Violation>;

/// What is known of a name.
#[derive(Clone, Debug, Default)]
struct Name {
    /// Its newest life, dead or alive.
    current: Option<Incarnation>,
    /// A create or fork under way, or without an answer.
    making: Option<Make>,
    /// Requests under way that speak of the stream by its name alone.
    users: usize,
    /// Trims under way, or without an answer.
    trims: Vec<Offset>,
}

/// What is certain of a name when a request begins or ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) at: UnixMs,
    tick: Tick,
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) standing: Standing,
    tail: Offset,
    earliest: Offset,
    closed: bool,
}

/// Whether a stream is there for its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Live,
    Absent,
    Unsure,
}

/// Fails with a sentence unless something holds.
pub(crate) fn demand(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Violation(otherwise())) }
}

impl Oracle {
    /// What is certain of a name now.
    pub(crate) fn known(&mut self, address: &Address, now: UnixMs) -> Known {
        let tick = self.next_tick();
        let name = self.names.entry(address.clone()).or_default();
        let (current, making) = (name.current, name.making.is_some());
        let standing = match current {
            _ if making => Standing::Unsure,
            None => Standing::Absent,
            Some(id) => self.standing(id, now),
        };
        let stream = current.map(|id| &self.streams[&id]);
        Known {
            at: now,
            tick,
            incarnation: current,
            standing,
            tail: stream.map_or(Offset::START, |stream| stream.tail),
            earliest: stream.map_or(Offset::START, |stream| stream.earliest),
            closed: stream.is_some_and(|stream| stream.closed),
        }
    }

    /// True if nobody else uses the name, so that a new life of it cannot be mistaken.
    pub(crate) fn is_idle(&self, address: &Address) -> bool {
        self.names.get(address).is_none_or(|name| name.users == 0 && name.making.is_none())
    }

    /// True if a request may speak of the stream by its name.
    pub(crate) fn is_usable(&self, address: &Address) -> bool {
        self.names.get(address).is_some_and(|name| name.making.is_none())
    }

    /// Streams that are certainly there.
    pub(crate) fn live(&self, now: UnixMs) -> Vec<(Address, Incarnation)> {
        let current = |(address, name): (&Address, &Name)| Some((address.clone(), name.current?));
        let names = self.names.iter().filter(|(_, name)| name.making.is_none());
        names
            .filter_map(current)
            .filter(|(_, id)| self.standing(*id, now) == Standing::Live)
            .collect()
    }

    /// All names that were ever used.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.names.keys().cloned().collect()
    }

    /// What was met since this was last asked.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.values()
    }

    pub(crate) fn stream(&self, id: Incarnation) -> &Stream {
        &self.streams[&id]
    }

    pub(crate) fn current(&self, address: &Address) -> Option<Incarnation> {
        self.names.get(address)?.current
    }

    /// A moment after all that was before, and before all that comes.
    fn next_tick(&mut self) -> Tick {
        self.tick += 1;
        self.tick
    }

    fn name(&mut self, address: &Address) -> &mut Name {
        self.names.entry(address.clone()).or_default()
    }

    fn stream_mut(&mut self, id: Incarnation) -> &mut Stream {
        self.streams.get_mut(&id).expect("streams are never forgotten")
    }

    /// Takes in what an answer says of a stream as a whole.
    fn observe(&mut self, head: &Head, before: &Known) -> Verdict {
        let id = head.incarnation;
        let trims = self.name(&self.streams[&id].address.clone()).trims.clone();
        let stream = self.stream_mut(id);
        let is_same = before.incarnation == Some(id);
        demand(!is_same || head.tail >= before.tail, || {
            format!("{stream} ends at {}, but ended at {} before", head.tail, before.tail)
        })?;
        demand(!is_same || head.closed || !before.closed, || format!("{stream} is open again"))?;
        demand(head.closed <= (stream.closed || stream.closing > 0), || {
            format!("{stream} is closed, but nobody closed it")
        })?;
        demand(head.content_type == stream.content_type && head.expiry == stream.expiry, || {
            format!("{stream} has other settings than it was made with: {head:?}")
        })?;
        stream.closed |= head.closed;
        stream.reach(head.tail)?;
        stream.trimmed_to(head.earliest, &trims)
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
