//! Setbacks: how long work that failed waits before it is called for again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use crate::caps::{HEARTBEATS_PER_LEASE, SETBACK_FIRST};

/// Failures in a row. Clones share one count.
///
/// A wake that is given back comes again at once. That is right for the first failure; for those
/// after it the runner waits with the wake in its hands, so that nobody else fails meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Setbacks(Arc<AtomicU32>);

impl Setbacks {
    /// Counts a failure; how long to wait before the wake is given back. Never longer than a
    /// runner may be silent.
    pub(super) fn failed(&self, lease: Duration) -> Duration {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Duration::ZERO,
            before => {
                let doubled = SETBACK_FIRST.saturating_mul(1 << (before - 1).min(16));
                doubled.min(lease / HEARTBEATS_PER_LEASE)
            }
        }
    }

    pub(super) fn over(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_a_part_of_the_lease_and_ends_with_success() {
        let setbacks = Setbacks::default();
        let lease = Duration::from_secs(15);
        let waits: Vec<_> = (0..6).map(|_| setbacks.failed(lease).as_secs()).collect();
        assert_eq!(waits, [0, 1, 2, 4, 5, 5]);
        setbacks.over();
        assert_eq!(setbacks.failed(lease), Duration::ZERO);
    }
}
