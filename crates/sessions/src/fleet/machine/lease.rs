//! Leases: whether a runner that a session tells of may be taken over.

use std::time::Duration;

use sys::UnixMs;
use wire::Position;

use super::{Identity, Now, Session};
use crate::{
    caps::LEASE_MAX,
    fleet::facts::{Facts, Waiting},
};

/// Who may run the agent of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Any supervisor, after this takeover.
    Free { after: u64 },
    /// Its runner, at least until then.
    Held { until: Duration },
    /// None is needed until the session moves, or until then.
    Waits(Until),
}

/// How long there is nothing to do, unless the session moves: until the first of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Until {
    pub(super) wall: Option<UnixMs>,
    pub(super) elapsed: Option<Duration>,
}

impl Until {
    /// It is left alone until it moves.
    pub(super) const MOVE: Self = Self { wall: None, elapsed: None };
}

/// The last sign of life of a runner, and since when it is known here. How long ago it was given is
/// unknown, so a lease begins when its renewal is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    sign: Sign,
    since: Duration,
}

/// A sign of life: the takeover, its last message, and whether that says that it only waits. One
/// that is not to wait any more has its lease from when that is seen.
type Sign = (u64, Option<Position>, Waits);

/// Whether a runner only waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    No,
    Yes,
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
                _ => self.lease_of((after, None, Waits::No), lease, now.elapsed).unwrap_or(free),
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
        let lease = runner.lease.unwrap_or(lease).min(LEASE_MAX);
        let (now, wall) = (now.elapsed, now.wall);
        let sign = |waits| (runner.epoch, runner.renewed, waits);
        match runner.waiting {
            Some(Waiting { until: Some(until), .. }) if runner.is_released && until <= wall => free,
            // The clock that the time was written by may be ahead: how long that was counts, too.
            Some(Waiting { until, left: Some(left) }) if runner.is_released => {
                match self.lease_of(sign(Waits::Yes), left, now) {
                    Some(Claim::Held { until: elapsed }) => {
                        Claim::Waits(Until { wall: until, elapsed: Some(elapsed) })
                    }
                    _ => free,
                }
            }
            Some(Waiting { until, left: None }) if runner.is_released => {
                Claim::Waits(Until { wall: until, elapsed: None })
            }
            // Its clock may show any time, so what counts is how long it had left, and then its
            // lease.
            Some(Waiting { left, .. }) if !is_dead => match left {
                Some(left) => {
                    match self.lease_of(sign(Waits::Yes), left.saturating_add(lease), now) {
                        Some(Claim::Held { until }) => {
                            Claim::Waits(Until { wall: None, elapsed: Some(until) })
                        }
                        _ => free,
                    }
                }
                None => {
                    let _ = self.lease_of(sign(Waits::Yes), lease, now);
                    Claim::Waits(Until::MOVE)
                }
            },
            _ if runner.is_released || is_dead => free,
            _ => self.lease_of(sign(Waits::No), lease, now).unwrap_or(free),
        }
    }

    /// The lease of a runner; none if it has run out.
    fn lease_of(&mut self, sign: Sign, lease: Duration, now: Duration) -> Option<Claim> {
        let known = self.observed.filter(|known| known.sign == sign);
        let known = known.unwrap_or(Observed { sign, since: now });
        self.observed = Some(known);
        let until = known.since.saturating_add(lease);
        (now < until).then_some(Claim::Held { until })
    }
}
