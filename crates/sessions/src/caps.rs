//! How much of everything there may be, and how long it may take.

use std::time::Duration;

/// Bytes of a request that wakes.
pub const WAKE_BODY_BYTES_MAX: usize = wake::caps::NOTICE_BYTES_MAX;
/// How long such a request may take to arrive.
pub const WAKE_BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of requests that are read and verified at a time, in units of [`WAKE_ROOM_UNIT`]. Those
/// that are worked on do not count here.
pub const WAKE_ROOM_UNITS: usize = 64 * 1024;
/// Bytes that a request takes at least.
pub const WAKE_ROOM_UNIT: usize = 1024;

const _: () = assert!(WAKE_BODY_BYTES_MAX <= WAKE_ROOM_UNITS * WAKE_ROOM_UNIT);
/// Seconds after which whoever was refused may come back.
pub const RETRY_AFTER_SECONDS: u32 = 1;
