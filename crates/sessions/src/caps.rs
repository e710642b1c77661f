//! How much of everything there may be, and how long it may take.

use std::time::Duration;

/// Bytes of a request that wakes.
pub const WAKE_BODY_BYTES_MAX: usize = wake::caps::NOTICE_BYTES_MAX;
/// How long such a request may take to arrive.
pub const WAKE_BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Requests that are read and verified at a time. Those that are worked on do not count here.
pub const WAKES_READ_MAX: usize = 32;
/// Seconds after which whoever was refused may come back.
pub const RETRY_AFTER_SECONDS: u32 = 1;
