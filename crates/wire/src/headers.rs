//! Header names, in the one spelling that HTTP libraries compare by.

/// The tail after a write, or where the next read begins.
pub const NEXT_OFFSET: &str = "stream-next-offset";
/// Present when a read reached the tail.
pub const UP_TO_DATE: &str = "stream-up-to-date";
/// `true`: close the stream, or it is closed.
pub const CLOSED: &str = "stream-closed";
/// What live readers echo.
pub const CURSOR: &str = "stream-cursor";
/// The application's own order.
pub const SEQ: &str = "stream-seq";
/// Append only if the tail is still here.
pub const EXPECTED_OFFSET: &str = "stream-expected-offset";
/// Sliding lifetime in seconds.
pub const TTL: &str = "stream-ttl";
/// Absolute end of life.
pub const EXPIRES_AT: &str = "stream-expires-at";
/// The stream that a fork continues.
pub const FORKED_FROM: &str = "stream-forked-from";
/// Where the fork leaves its source.
pub const FORK_OFFSET: &str = "stream-fork-offset";
/// How far past that offset.
pub const FORK_SUB_OFFSET: &str = "stream-fork-sub-offset";
/// Messages come with their lengths, on request; ours.
pub const FRAMING: &str = "stream-framing";
/// Where the first message of an answer begins; ours, in framed answers.
pub const START_OFFSET: &str = "stream-start-offset";
/// The earliest offset that can be read; ours.
pub const EARLIEST_OFFSET: &str = "stream-earliest-offset";
/// Whether a write was `new` or a `duplicate`; ours, in framed answers.
pub const OUTCOME: &str = "stream-outcome";
/// Which life of its name a stream is; ours.
pub const INCARNATION: &str = "stream-incarnation";
/// When the stream was made; ours.
pub const CREATED_AT: &str = "stream-created-at";
/// What a server can do beyond the protocol; ours, in the answer to OPTIONS.
pub const EXTENSIONS: &str = "stream-extensions";
/// How SSE data events are encoded.
pub const SSE_DATA_ENCODING: &str = "stream-sse-data-encoding";
/// Who writes.
pub const PRODUCER_ID: &str = "producer-id";
/// In which life.
pub const PRODUCER_EPOCH: &str = "producer-epoch";
/// Which append.
pub const PRODUCER_SEQ: &str = "producer-seq";
/// The sequence the server would have accepted.
pub const PRODUCER_EXPECTED_SEQ: &str = "producer-expected-seq";
/// The sequence the client sent.
pub const PRODUCER_RECEIVED_SEQ: &str = "producer-received-seq";

/// True if a `Stream-Closed` value means what it says; every other value means nothing.
#[must_use]
pub fn is_closed(value: &str) -> bool {
    value.eq_ignore_ascii_case("true")
}
