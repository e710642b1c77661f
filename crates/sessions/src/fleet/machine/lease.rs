//! Leases: whether a runner that a session tells of may be taken over.

use std::time::Duration;

use sys::UnixMs;
use wire::Position;

use super::{Identity, Now, Session};
use crate::{caps::LEASE_MAX, fleet::facts::Facts};

/// Who may run the agent of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Any supervisor, after this takeover.
    Free { after: u64 },
    /// Its runner, at least until then.
    Held { until: Duration },
    /// None is needed until the session moves, or until then.
    Waits(Option<UnixMs>),
}

/// The last sign of life of a runner, and since when it is known here. How long ago it was given is
/// unknown, so a lease begins when its renewal is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    epoch: u64,
    renewed: Option<Position>,
    since: Duration,
}

impl Session {
    /// Judges the runner of a session that is not run here.
    pub(super) fn judge(
        &mut self,
        facts: &Facts,
        identity: &Identity,
        lease: Duration,
        now: Now,
    ) -> Claim {
        let after = facts.runner.as_ref().map_or(0, |runner| runner.epoch).max(self.fence);
        let free = Claim::Free { after };
        let runner = facts.runner.as_ref().filter(|runner| runner.epoch >= self.fence);
        let Some(runner) = runner else {
            // A runner that its session does not tell of: it was told of by the log.
            return match self.fence {
                0 => free,
                _ => self.lease_of(after, None, lease, now.elapsed).unwrap_or(free),
            };
        };
        if runner.incarnation != facts.place.1.get() {
            // It runs in the stream that this one was forked from.
            return free;
        }
        let is_own = runner.supervisor.as_ref() == Some(&identity.supervisor);
        let homes = runner.home.as_ref().zip(identity.home.as_ref());
        // Its agent has ended, or an exclusive log was opened since then.
        let is_dead = is_own || homes.is_some_and(|(its, ours)| its != ours);
        // When its time is over it goes on, and has its lease for that.
        let waiting = runner.waiting.filter(|it| it.until.is_none_or(|until| until > now.wall));
        match waiting {
            Some(waiting) if runner.is_released || !is_dead => Claim::Waits(waiting.until),
            _ if runner.is_released || is_dead => free,
            _ => {
                let lease = runner.lease.unwrap_or(lease).min(LEASE_MAX);
                let renewed = runner.renewed;
                self.lease_of(runner.epoch, renewed, lease, now.elapsed).unwrap_or(free)
            }
        }
    }

    /// The lease of a runner; none if it has run out.
    fn lease_of(
        &mut self,
        epoch: u64,
        renewed: Option<Position>,
        lease: Duration,
        now: Duration,
    ) -> Option<Claim> {
        let fresh = Observed { epoch, renewed, since: now };
        let known = self.observed.filter(|it| (it.epoch, it.renewed) == (epoch, renewed));
        let Observed { since, .. } = *self.observed.insert(known.unwrap_or(fresh));
        (now < since + lease).then_some(Claim::Held { until: since + lease })
    }
}
