//! What workers were told, and what must therefore hold.

use std::collections::{BTreeMap, BTreeSet};

use sys::UnixMs;
use wake::{Ack, Concurrency, Work};
use wire::{Offset, StreamPath};

use crate::oracle::{Verdict, demand};

/// One subscription, as its workers know it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The id of each wake that anybody was called to, by generation.
    ids: BTreeMap<u64, String>,
    /// Wakes whose end was confirmed.
    over: BTreeSet<u64>,
    /// Up to where acknowledgements were confirmed.
    confirmed: BTreeMap<StreamPath, Offset>,
    /// Up to where somebody has done the work, at least once.
    done: BTreeMap<StreamPath, Offset>,
    /// Who may be at a stream, and how long its lease lasts at least.
    leases: BTreeMap<StreamPath, Lease>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    generation: u64,
    until: UnixMs,
}

/// True for streams that are deleted, or expire, and are made again: their offsets begin anew.
pub(super) fn is_fleeting(path: &StreamPath) -> bool {
    ["s/d/", "s/t/"].iter().any(|prefix| path.as_str().starts_with(prefix))
}

impl Ledger {
    /// Judges a wake. True if somebody was called to it before.
    pub(super) fn called(&mut self, generation: u64, id: &str, work: &[Work]) -> Verdict<bool> {
        let known = self.ids.insert(generation, id.to_owned());
        demand(known.as_deref().is_none_or(|known| known == id), || {
            format!("generation {generation} was {known:?} and is {id}")
        })?;
        demand(!self.over.contains(&generation), || format!("{id} was over, and is called again"))?;
        for Work { link, tail } in work.iter().filter(|work| !is_fleeting(&work.link.path)) {
            let (path, acked) = (&link.path, link.acked.unwrap_or_default());
            let (confirmed, done) = (self.confirmed(path), self.done(path));
            demand(acked >= confirmed, || {
                format!("{path} was acknowledged up to {confirmed}, and is told up to {acked}")
            })?;
            demand(acked <= done, || format!("{path} is done up to {done}, not up to {acked}"))?;
            demand(*tail >= acked, || format!("{path} ends at {tail}, but is done up to {acked}"))?;
        }
        Ok(known.is_some())
    }

    /// A worker was given a wake by now; nobody else may have it, or any other if there is but one
    /// at a time.
    pub(super) fn claimed(&self, concurrency: Concurrency, work: &[Work], now: UnixMs) -> Verdict {
        for (path, lease) in &self.leases {
            let is_wanted = match concurrency {
                Concurrency::Subscription => true,
                Concurrency::Stream => work.iter().any(|work| work.link.path == *path),
            };
            demand(!is_wanted || lease.until <= now, || {
                format!("{path} is given away while {lease:?}")
            })?;
        }
        Ok(())
    }

    /// The worker's lease lasts until then, at least.
    pub(super) fn extended(&mut self, generation: u64, work: &[Work], until: UnixMs) {
        // A stream that goes may take its wake along.
        for Work { link, .. } in work.iter().filter(|work| !is_fleeting(&work.link.path)) {
            self.leases.insert(link.path.clone(), Lease { generation, until });
        }
    }

    /// The worker may have given the wake up, or was heard to have lost it.
    pub(super) fn left(&mut self, generation: u64) {
        self.leases.retain(|_, lease| lease.generation != generation);
    }

    /// True if the worker's lease surely lasts.
    pub(super) fn holds(&self, generation: u64, now: UnixMs) -> bool {
        self.leases.values().any(|lease| lease.generation == generation && lease.until > now)
    }

    /// Does what a wake asks for.
    pub(super) fn work(&mut self, work: &[Work]) {
        for Work { link, tail } in work {
            let done = self.done.entry(link.path.clone()).or_default();
            *done = (*done).max(*tail);
        }
    }

    pub(super) fn acknowledged(&mut self, acks: &[Ack]) {
        for Ack { path, offset } in acks {
            let confirmed = self.confirmed.entry(path.clone()).or_default();
            *confirmed = (*confirmed).max(*offset);
        }
    }

    pub(super) fn ended(&mut self, generation: u64) {
        self.over.insert(generation);
        self.left(generation);
    }

    pub(super) fn confirmed(&self, path: &StreamPath) -> Offset {
        self.confirmed.get(path).copied().unwrap_or_default()
    }

    pub(super) fn done(&self, path: &StreamPath) -> Offset {
        self.done.get(path).copied().unwrap_or_default()
    }
}
