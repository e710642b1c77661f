//! Every bound of the client, in one place.

use std::time::Duration;

/// Bytes of an answer that is read whole: one message of the largest size, and little else.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a refusal that are read.
pub const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one server-sent event; messages of the largest size come in base64.
pub const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a connection may take to stand.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take to begin, unless settings say otherwise.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// How long a live answer may be silent: servers end theirs about every minute.
pub const SILENCE_MAX: Duration = Duration::from_secs(90);
/// A live answer that ends sooner than this is a sign that something between cannot bear it.
pub const SHORT_LIFE: Duration = Duration::from_secs(1);
/// So many short lives in a row, and long-polls take over.
pub const SHORT_LIVES_MAX: u32 = 3;
/// Retries that may be made before any request has earned one.
pub const RETRIES_AT_HAND: u32 = 100;
/// Requests that earn one retry.
pub const REQUESTS_PER_RETRY: u32 = 5;
/// The longest wait that a server may ask for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// Content types that are remembered.
pub const CONTENT_TYPES_MAX: usize = 4096;
/// A live answer that says nothing and comes sooner than this did not wait; so we do.
pub const QUICK_ANSWER: Duration = Duration::from_millis(100);
/// Pause between two requests that wait for a tail.
pub const POLL_PAUSE: Duration = Duration::from_millis(5);
/// Bytes that a producer may hold that are not stored yet.
pub const PRODUCER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Messages that a producer may hold that are not stored yet.
pub const PRODUCER_MESSAGES_MAX: usize = 65_536;
/// Epochs that a producer claims in a row without storing anything.
pub const CLAIMS_MAX: u32 = 8;
/// Batches of one producer that may be under way.
pub const IN_FLIGHT_MAX: usize = 64;
