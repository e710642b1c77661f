//! The only door to time, chance, disk and spawn.
//!
//! Every room below HTTP asks a [`Sys`] for these four things instead of the operating system, so
//! the same code runs for real and under a simulator that replays one seed byte for byte. It is
//! not an abstraction over operating systems, and it knows nothing of streams.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let sys = sys::Sys::real();
//! let before = sys.clock.unix_ms();
//! sys.clock.sleep(std::time::Duration::from_millis(1)).await;
//! assert!(sys.clock.unix_ms() > before);
//! # });
//! ```
#![allow(clippy::disallowed_methods, reason = "this is the room the bans point to")]

mod cancel;
mod chance;
mod clock;
mod crew;
pub mod disk;
mod owner;
mod spawn;

pub use cancel::{Cancellation, Canceller};
pub use chance::{Chance, HashSeed};
pub use clock::{Clock, Elapsed, UnixMs};
pub use crew::Crew;
pub use disk::{Disk, File};
pub use spawn::{Blocking, Spawn, Task};

/// The four doors, cheap to clone and handed down from the program's start.
#[derive(Clone, Debug)]
pub struct Sys {
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub chance: Chance,
    /// Disk.
    pub disk: std::sync::Arc<dyn Disk>,
    /// Spawn.
    pub spawn: Spawn,
}

impl Sys {
    /// The operating system itself.
    #[must_use]
    pub fn real() -> Self {
        Self {
            clock: Clock::real(),
            chance: Chance::real(),
            disk: std::sync::Arc::new(disk::RealDisk),
            spawn: Spawn::real(),
        }
    }
    /// A world that `seed`, `disk` and the work itself decide, where time starts at `start`.
    ///
    /// # Panics
    /// Outside a runtime; a run repeats only on a single-threaded one with paused time.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn simulated(seed: u64, disk: disk::SimDisk, start: UnixMs) -> Self {
        Self {
            clock: Clock::simulated(start),
            chance: Chance::seeded(seed),
            disk: std::sync::Arc::new(disk),
            spawn: Spawn::simulated(),
        }
    }
}

#[cfg(test)]
#[cfg(feature = "sim")]
mod tests {
    use std::{path::Path, time::Duration};

    use super::*;

    /// Two workers who sleep, write and sleep again; what they did, and when it ended.
    async fn work(seed: u64) -> (u64, UnixMs) {
        let disk = disk::SimDisk::new(seed, disk::SimFaults::default());
        let sys = Sys::simulated(seed, disk.clone(), UnixMs::new(0));
        let file = sys.disk.create(Path::new("a")).unwrap();
        let workers = ["first", "second"].map(|name| {
            let (sys, file) = (sys.clone(), file.clone());
            sys.spawn.clone().owner(name, async move {
                for _ in 0..20 {
                    sys.clock.sleep(Duration::from_millis(sys.chance.below(100))).await;
                    file.write_all_at(name.as_bytes(), sys.chance.below(1_000)).unwrap();
                }
            })
        });
        for worker in workers {
            worker.join().await;
        }
        (disk.trace_hash(), sys.clock.unix_ms())
    }

    fn run(seed: u64) -> (u64, UnixMs) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(work(seed))
    }

    #[test]
    fn one_seed_twice_is_one_run() {
        for seed in 0..50 {
            assert_eq!(run(seed), run(seed), "seed {seed}");
        }
        assert_ne!(run(1), run(2));
    }
}
