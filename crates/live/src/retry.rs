//! When to try again.

use std::time::Duration;

use sys::Chance;

use crate::caps::{ATTEMPTS_DEFAULT, PAUSE_MAX, PAUSE_MIN};

/// How often something that failed is tried, and how long it rests between.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// How often it is tried in all; the highest number there is means for ever.
    pub attempts_max: u32,
    /// The first pause; each further one is twice as long.
    pub pause_min: Duration,
    /// The longest pause.
    pub pause_max: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts_max: ATTEMPTS_DEFAULT, pause_min: PAUSE_MIN, pause_max: PAUSE_MAX }
    }
}

impl Retry {
    /// One attempt, and no other.
    #[must_use]
    pub fn never() -> Self {
        Self { attempts_max: 1, ..Self::default() }
    }

    /// Attempts without end.
    #[must_use]
    pub fn for_ever() -> Self {
        Self { attempts_max: u32::MAX, ..Self::default() }
    }

    /// True if no attempt follows this one.
    #[must_use]
    pub fn is_last(&self, attempt: u32) -> bool {
        self.attempts_max != u32::MAX && attempt >= self.attempts_max
    }

    /// The pause after so many failures: some of it by chance, so that not all come at once.
    #[must_use]
    pub fn pause(&self, failures: u32, chance: &Chance) -> Duration {
        let doubled = self.pause_min.saturating_mul(1 << failures.saturating_sub(1).min(20));
        let whole = doubled.min(self.pause_max);
        let part = u64::try_from(whole.as_millis() / 4).unwrap_or(0);
        whole.saturating_sub(Duration::from_millis(chance.below(part.max(1))))
    }
}
