//! Every bound of the fixture.

/// The largest request that is read.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// How many of the last requests are kept for tests to look at.
pub const REQUESTS_KEPT_MAX: usize = 64;
/// How many names of models that are refused at first are remembered.
pub const NAMES_REFUSED_MAX: usize = 1024;
/// How much the scenarios `huge` and `huge-frame` stream.
pub const HUGE_BYTES: usize = 100 << 20;
/// How much of it is in one piece, which is one event of `huge`.
pub const HUGE_EVENT_BYTES: usize = 16 << 10;
/// How much of a text the last frames of a wire repeat. Only `huge` has more, and whoever reads
/// that to its end has failed anyway.
pub const REPEATED_BYTES_MAX: usize = 1 << 20;

const _: () = assert!(HUGE_EVENT_BYTES < REPEATED_BYTES_MAX);
const _: () = assert!(REPEATED_BYTES_MAX < HUGE_BYTES);
