//! Time: the wall clock, the monotonic clock, and waiting.

use std::{
    fmt,
    future::Future,
    pin::pin,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use crate::owner;

/// The longest single sleep towards a wall-clock time, so that a step of the wall clock is noticed.
const WALL_NAP_MAX: Duration = Duration::from_secs(60);

/// A source of time. Clones share one origin.
#[derive(Clone, Debug)]
pub struct Clock {
    origin: Instant,
    wall: Wall,
}

/// Milliseconds since the Unix epoch, by the wall clock: it may step, even backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(u64);

/// The time of [`Clock::timeout`] ran out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

#[derive(Clone, Copy, Debug)]
enum Wall {
    System,
    /// The wall clock showed this at the origin, and has not stepped since.
    #[cfg(feature = "sim")]
    Simulated(UnixMs),
}

impl Clock {
    /// The clocks of the operating system.
    #[must_use]
    pub fn real() -> Self {
        Self { origin: Instant::now(), wall: Wall::System }
    }

    /// A clock that shows `start` now and moves only as the runtime's paused time does.
    ///
    /// # Panics
    /// Outside a runtime, where time cannot be paused and a run would not repeat.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn simulated(start: UnixMs) -> Self {
        assert!(
            tokio::runtime::Handle::try_current().is_ok(),
            "a simulated clock is made inside the runtime whose time it shows"
        );
        Self { origin: Instant::now(), wall: Wall::Simulated(start) }
    }

    /// The wall clock. Needs no runtime when the clock is real.
    #[must_use]
    pub fn unix_ms(&self) -> UnixMs {
        match self.wall {
            Wall::System => {
                let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
                UnixMs(0).plus(since_epoch)
            }
            #[cfg(feature = "sim")]
            Wall::Simulated(start) => start.plus(self.elapsed()),
        }
    }

    /// The monotonic time since this clock was made; it never steps.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Waits for `duration`, to the millisecond above.
    ///
    /// # Panics
    /// Outside a runtime with timers, unless it is the thread of an owner.
    pub async fn sleep(&self, duration: Duration) {
        if owner::is_here() {
            owner::sleep(duration).await;
        } else {
            tokio::time::sleep(duration).await;
        }
    }

    /// Waits until the wall clock shows `deadline` or later.
    ///
    /// If the wall clock is stepped meanwhile, the wait follows it within a minute.
    ///
    /// # Panics
    /// As [`Clock::sleep`].
    pub async fn sleep_until(&self, deadline: UnixMs) {
        loop {
            let left = deadline.since(self.unix_ms());
            if left.is_zero() {
                return;
            }
            self.sleep(left.min(WALL_NAP_MAX)).await;
        }
    }

    /// Runs `future` for at most `duration`.
    ///
    /// # Errors
    /// [`Elapsed`] if the time ran out; the future is then dropped where it stood.
    ///
    /// # Panics
    /// As [`Clock::sleep`].
    pub async fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let future = pin!(future);
        if owner::is_here() {
            owner::timeout(duration, future).await.ok_or(Elapsed)
        } else {
            tokio::time::timeout(duration, future).await.map_err(|_| Elapsed)
        }
    }
}

impl UnixMs {
    /// The time `ms` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn new(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds after the Unix epoch.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The time `duration` later, in whole milliseconds; stays at the greatest time on overflow.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(ms))
    }

    /// The time passed from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for UnixMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time ran out")
    }
}

impl std::error::Error for Elapsed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let last = UnixMs::new(u64::MAX);
        assert_eq!(last.plus(Duration::from_millis(1)), last);
        assert_eq!(UnixMs::new(5).plus(Duration::MAX), last);
        assert_eq!(UnixMs::new(5).since(UnixMs::new(9)), Duration::ZERO);
        assert_eq!(UnixMs::new(9).since(UnixMs::new(5)), Duration::from_millis(4));
    }

    #[test]
    fn the_real_wall_clock_needs_no_runtime() {
        let clock = Clock::real();
        let shown = std::thread::spawn(move || clock.unix_ms()).join().unwrap();
        assert!(shown > UnixMs::new(1_700_000_000_000));
    }

    #[test]
    fn timeout_tells_who_came_first() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let clock = Clock::real();
            let minute = Duration::from_secs(60);
            assert_eq!(clock.timeout(minute, async { 7 }).await, Ok(7));
            let late = clock.timeout(Duration::from_millis(1), clock.sleep(minute)).await;
            assert_eq!(late, Err(Elapsed));
        });
    }

    #[cfg(feature = "sim")]
    #[test]
    fn simulated_time_moves_only_by_sleeping() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let clock = Clock::simulated(UnixMs::new(1_000));
            assert_eq!(clock.unix_ms(), UnixMs::new(1_000));
            clock.sleep(Duration::from_secs(3_600)).await;
            assert_eq!(clock.unix_ms(), UnixMs::new(3_601_000));
            clock.sleep_until(UnixMs::new(4_000_000)).await;
            assert_eq!(clock.unix_ms(), UnixMs::new(4_000_000));
            assert_eq!(clock.elapsed(), Duration::from_millis(3_999_000));
        });
    }
}
