//! Judging answers that say that a stream is not there.

use log::Incarnation;
use sys::UnixMs;
use wire::Address;

use super::{Known, Oracle, Standing, Verdict, demand};

/// How an answer says that a stream is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    NotFound,
    /// Deleted, but kept for its forks.
    Gone,
}

impl Oracle {
    /// An answer said that `address` is not there.
    pub(super) fn absent(
        &mut self,
        address: &Address,
        absence: Absence,
        before: &Known,
        now: UnixMs,
    ) -> Verdict {
        self.may_be_absent(address, absence, before, now)?;
        self.is_gone_for_good(address, now);
        Ok(())
    }

    /// Whether an answer may say that `address` is not there.
    pub(super) fn may_be_absent(
        &mut self,
        address: &Address,
        absence: Absence,
        before: &Known,
        now: UnixMs,
    ) -> Verdict {
        let after = self.known(address, now);
        let lost = before.standing == Standing::Live && after.standing == Standing::Live;
        demand(!lost, || format!("{address} is there, but the answer was {absence:?}"))?;
        let Some(id) = after.incarnation else {
            return demand(absence == Absence::NotFound, || format!("{address} was never there"));
        };
        let deleted = self.was_deleted(id, before) && self.streams[&id].erased.is_none();
        match absence {
            Absence::Gone => demand(self.may_have_forks(id, before), || {
                format!("{address} has no forks that could keep it, but the answer was Gone")
            }),
            Absence::NotFound => demand(!deleted || !self.must_have_forks(id, now), || {
                format!("{address} was deleted and has forks, but the answer was NotFound")
            }),
        }
    }

    /// Somebody was told that a stream is not there: only one past its time may come back.
    fn is_gone_for_good(&mut self, address: &Address, now: UnixMs) {
        let tick = self.next_tick();
        let name = self.name(address);
        let Some(id) = name.current.filter(|_| name.making.is_none()) else { return };
        let stream = self.stream_mut(id);
        if !stream.may_be_expired(now) {
            stream.died.get_or_insert(tick);
        }
    }

    /// Whether the stream may have had forks at some moment since `before`.
    fn may_have_forks(&self, id: Incarnation, before: &Known) -> bool {
        let stream = &self.streams[&id];
        let making = self.names.values().filter_map(|name| name.making.as_ref());
        let mut sources = making.filter_map(|make| make.fork.as_ref()).map(|fork| fork.parent);
        // A fork past its time stays until somebody sweeps it up.
        let may_exist = |fork: &Incarnation| !self.was_deleted(*fork, before);
        stream.may_have_unseen_forks
            || sources.any(|source| source == id)
            || stream.forks.iter().any(|fork| may_exist(fork) || self.may_have_forks(*fork, before))
    }

    fn must_have_forks(&self, id: Incarnation, now: UnixMs) -> bool {
        self.streams[&id].forks.iter().any(|fork| {
            self.standing(*fork, now) == Standing::Live || self.must_have_forks(*fork, now)
        })
    }
}
