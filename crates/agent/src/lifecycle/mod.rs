//! The life of a runner between a wake and its end.
//!
//! ```text
//!   wake ──▶ claim ──▶ work ──────────────────▶ complete: Done, or More is left
//!              │        │ ▲  heartbeat, checkpoint      │
//!              ▼        ▼ │                             ▼
//!        stale, taken  lost: the work is dropped   failed: given back, comes again
//! ```
//!
//! [`RunnerLifecycle`] is what may be asked of whoever woke us; [`WebhookLifecycle`] and
//! [`PullWakeLifecycle`] ask it of subscriptions. [`run_with_lifecycle`] goes once around:
//! it claims, runs the work, keeps the lease alive meanwhile, and ends the wake.
//! [`drain_until_idle`] is a shape for the work: cycle after cycle, until nothing is left or
//! time is up. [`WebhookDesk`] takes wakes that came by a webhook and runs each once;
//! [`KeyRing`] tells whether they came from whom we trust. [`WakeFeed`] waits for the next wake
//! of a pulled subscription, [`run_wakes`] works until there is none, and [`follow_wakes`] does
//! both for ever. [`follow_wakes_until`] and [`WebhookDesk::close`] stop in good order.

mod contract;
mod desk;
mod drain;
mod feed;
mod follow;
mod keeper;
mod keyring;
mod pull;
mod reports;
mod run;
mod session;
mod setbacks;
mod stop;
mod webhook;

pub use contract::{
    Answer, Checkpoint, ClaimRefused, Completed, Finish, Lease, Lost, ReportRefused,
    RunnerLifecycle,
};
pub use desk::{DeskSettings, Mode, WakeAnswer, WebhookDesk, WorkError};
pub use drain::{Drain, DrainEnd, DrainError, DrainLimits, Drained, drain_until_idle};
pub use feed::{FeedError, WakeFeed};
pub use follow::{FollowError, follow_wakes, follow_wakes_until};
pub use keyring::{KeyRing, KeySource, NotVerified};
pub use pull::{BadWorker, PullWakeLifecycle};
pub use run::{Ran, RunError, run_wakes, run_with_lifecycle};
pub use session::{CheckpointError, Regression, Session};
pub use setbacks::Setbacks;
pub use sys::Cancellation;
pub use webhook::WebhookLifecycle;
