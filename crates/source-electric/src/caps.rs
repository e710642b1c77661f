//! Every bound of this crate.

use std::time::Duration;

/// Bytes of one answer. Servers cut their log into chunks of about 10 MB.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a refusal that are read.
pub const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Characters of a refusal that are repeated.
pub const REFUSAL_SHOWN_MAX: usize = 500;
/// Bytes of one server-sent event.
pub const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Rows that wait for the end of their batch.
pub const ROWS_WAITING_MAX: usize = 8 * 1024 * 1024;
/// Transactions that a shape has shown, remembered for those who ask late.
pub const TXIDS_SEEN_MAX: usize = 4_096;
/// Dimensions of an array. Postgres allows no more.
pub const ARRAY_DEPTH_MAX: usize = 6;
/// How long a connection may take to stand.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take to begin, and to go on. Servers hold a live request for 20 s, and
/// break the silence of a live stream as often.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(45);
/// The longest wait that a server may ask for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// A live answer that says nothing and comes sooner than this did not wait; so we do.
pub const QUICK_ANSWER: Duration = Duration::from_millis(100);
/// A live stream that ends sooner than this is a sign that something between cannot bear it.
pub const SHORT_LIFE: Duration = Duration::from_secs(1);
/// So many short lives in a row, and long-polls take over.
pub const SHORT_LIVES_MAX: u32 = 3;
/// How often a log that the server has given up may come from a cache before it is an error.
pub const STALE_ANSWERS_MAX: u32 = 3;
/// Snapshots whose changes are told from later ones.
pub const SNAPSHOTS_MAX: usize = 1_024;
