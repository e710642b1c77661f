//! How much of everything there may be.

use std::time::Duration;

/// Subscriptions of one log.
pub const SUBSCRIPTIONS_MAX: usize = 100_000;
/// Streams that one subscription is linked to.
pub const LINKS_MAX: usize = 100_000;
/// Streams that one request may name.
pub const STREAMS_PER_REQUEST_MAX: usize = 1_000;
/// Streams that one wake lists; what is left comes with the next one.
pub const STREAMS_PER_WAKE_MAX: usize = 1_000;
/// Wakes of one subscription that are under way at a time, if its streams are woken one by one;
/// further streams wait for their turn.
pub const WAKES_MAX: usize = 1_000;
/// Bytes of a subscription's id.
pub const ID_BYTES_MAX: usize = 200;
/// Bytes of the name a worker gives itself.
pub const WORKER_BYTES_MAX: usize = 256;
/// Bytes of a description.
pub const DESCRIPTION_BYTES_MAX: usize = 1_024;
/// Bytes of a webhook's URL.
pub const URL_BYTES_MAX: usize = 2_048;
/// The shortest lease.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// The lease if nobody says.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// The longest lease.
pub const LEASE_MAX: Duration = Duration::from_mins(10);
/// How long a key that signs no more is published: what it signed is believed for five minutes,
/// and whoever verifies may keep the list of keys for as long.
pub const RETIRED_KEY_LIFE: Duration = Duration::from_mins(15);
/// Keys that are published at a time; further ones wait until the oldest are forgotten.
pub const KEYS_MAX: usize = 16;
/// The wait after the first failure; each further one doubles it.
pub const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
pub const RETRY_MAX: Duration = Duration::from_secs(60);
/// How far a wait may lie from the schedule, in percent, either way.
pub const RETRY_JITTER_PERCENT: u64 = 20;
