//! Retries: how often, how soon, and never so many that they make things worse.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use http::{HeaderMap, header};
use sys::Chance;
use thiserror::Error;

use crate::caps::{REQUESTS_PER_RETRY, RETRIES_AT_HAND, RETRY_AFTER_MAX};

/// How often and how soon a request is made again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    attempts_max: u32,
    first: Duration,
    longest: Duration,
    factor: f64,
}

/// Numbers that make no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadRetry {
    /// No time to wait.
    #[error("the first pause must be longer than nothing")]
    First,
    /// The longest is shorter than the first.
    #[error("the longest pause must not be shorter than the first")]
    Longest,
    /// Pauses that shrink.
    #[error("the factor must be a number that is at least 1")]
    Factor,
}

impl Retry {
    /// None at all.
    pub const NEVER: Self =
        Self { attempts_max: 1, first: MS_100, longest: Duration::from_secs(10), factor: 2.0 };

    /// Up to `retries` of them: the first after about `first`, each further one after a pause
    /// `factor` times as long, but never longer than `longest`.
    ///
    /// # Errors
    /// [`BadRetry`] says which number makes no sense.
    pub fn new(
        retries: u32,
        first: Duration,
        longest: Duration,
        factor: f64,
    ) -> Result<Self, BadRetry> {
        if first.is_zero() {
            return Err(BadRetry::First);
        }
        if longest < first {
            return Err(BadRetry::Longest);
        }
        if !(factor >= 1.0 && factor.is_finite()) {
            return Err(BadRetry::Factor);
        }
        Ok(Self { attempts_max: retries.saturating_add(1), first, longest, factor })
    }

    pub(crate) fn allows(&self, attempts: u32) -> bool {
        attempts < self.attempts_max
    }

    /// The pause after so many attempts: from half to all of the full one, so that clients who
    /// failed together do not come back together.
    pub(crate) fn pause(&self, attempts: u32, chance: &Chance) -> Duration {
        let exponent = i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.first.as_secs_f64() * self.factor.powi(exponent);
        let full = Duration::try_from_secs_f64(grown).unwrap_or(self.longest).min(self.longest);
        let micros = u64::try_from(full.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(micros / 2 + chance.below(micros / 2 + 1))
    }
}

const MS_100: Duration = Duration::from_millis(100);

impl Default for Retry {
    /// Eight retries, the first after 100 ms, doubled up to ten seconds.
    fn default() -> Self {
        Self { attempts_max: 9, ..Self::NEVER }
    }
}

/// How long the server wants us to wait.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// Retries that all requests of a client share: a server that fails everybody is not asked many
/// times as often as one that serves them.
#[derive(Debug)]
pub(crate) struct Budget {
    /// In shares of a retry, as many as requests earn one.
    shares: AtomicU32,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { shares: AtomicU32::new(RETRIES_AT_HAND * REQUESTS_PER_RETRY) }
    }

    /// A request succeeded.
    pub(crate) fn earn(&self) {
        let most = RETRIES_AT_HAND * REQUESTS_PER_RETRY;
        let _ = self.shares.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |shares| {
            (shares < most).then_some(shares + 1)
        });
    }

    /// True if a retry may be made.
    pub(crate) fn spend(&self) -> bool {
        let spent = self.shares.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |shares| {
            shares.checked_sub(REQUESTS_PER_RETRY)
        });
        spent.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let retry = Retry::new(9, MS_100, Duration::from_secs(1), 2.0).unwrap();
        let chance = Chance::seeded(1);
        let mut seen = std::collections::BTreeSet::new();
        for attempts in 1..10 {
            let full = (MS_100 * 2u32.pow(attempts - 1)).min(Duration::from_secs(1));
            let pause = retry.pause(attempts, &chance);
            assert!((full / 2..=full).contains(&pause), "{attempts}: {pause:?}");
            seen.insert(pause);
        }
        assert_eq!(seen.len(), 9);
        assert!(retry.pause(u32::MAX, &chance) <= Duration::from_secs(1));
    }

    #[test]
    fn senseless_plans_are_refused() {
        let second = Duration::from_secs(1);
        assert_eq!(Retry::new(1, Duration::ZERO, second, 2.0), Err(BadRetry::First));
        assert_eq!(Retry::new(1, second, MS_100, 2.0), Err(BadRetry::Longest));
        for factor in [0.5, f64::NAN, f64::INFINITY] {
            assert_eq!(Retry::new(1, MS_100, second, factor), Err(BadRetry::Factor));
        }
    }

    #[test]
    fn a_budget_is_spent_and_earned() {
        let budget = Budget::new();
        assert_eq!((0..1000).filter(|_| budget.spend()).count(), RETRIES_AT_HAND as usize);
        (0..REQUESTS_PER_RETRY).for_each(|_| budget.earn());
        assert!(budget.spend());
        assert!(!budget.spend());
    }
}
