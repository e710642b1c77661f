//! The crash simulation of the file engine: one seed decides everything that happens, and an oracle
//! judges it.
//!
//! A run is a log on a simulated disk and a crowd that uses it: producers, writers, readers,
//! followers, and stewards who make, fork, trim and delete streams. Meanwhile syncs fail, the disk
//! fills up, and at some point the power goes. The log is opened again, looked at from end to end,
//! and used on, for several lives. It is not a benchmark, and it tests no HTTP.
//!
//! ```
//! let outcome = sim::run(7);
//! assert_eq!(outcome.failure(), None);
//! ```
//!
//! Reading order: `oracle` says what must hold; `plan` what a seed decides; `seed` how a run goes,
//! `life` and `weather` how one life of it; `actors` who takes part, `client` how they ask;
//! `inspect` what is looked at when all is quiet, `retirement` and `residue` what at the very end;
//! `witness` stands between the log and its disk. `wakes` is a run of its own: subscriptions over
//! such a log, and those who are woken. So is `effects`: durable effects over such a log; and
//! `supervisors`: two supervisors of agents and two executors over such a log; `line` is the log as
//! a process reaches it. And so is `corruption`: a directory is damaged, examined, repaired and
//! read.

mod actors;
mod aftermath;
mod client;
mod corruption;
mod coverage;
mod dice;
mod effects;
mod history;
mod inspect;
mod life;
mod line;
mod oracle;
mod plan;
mod residue;
mod retirement;
mod seed;
mod supervisors;
mod wakes;
mod weather;
mod witness;
mod world;

pub use corruption::{CorruptionMet, CorruptionOutcome, run_corruption};
pub use coverage::{Coverage, Event};
pub use effects::{EffectsMet, EffectsOutcome, run_effects};
pub use history::Detail;
pub use seed::{Outcome, each_seed, run, run_in_detail, run_many};
pub use supervisors::{SupervisorsMet, SupervisorsOutcome, run_supervisors};
pub use wakes::{Met, WakesOutcome, run_wakes};
