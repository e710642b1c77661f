//! Every bound of the protocol, in one place.
//!
//! Bounds that an operator may change are defaults of `server::Limits` and `log::file::Settings`;
//! the numbers here hold for every engine and every server.

/// Bytes of a stream path.
pub const PATH_BYTES_MAX: usize = 1024;
/// Bytes of one segment of a stream path.
pub const SEGMENT_BYTES_MAX: usize = 255;
/// Segments of a stream path.
pub const SEGMENTS_MAX: usize = 32;
/// Bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Messages of one append.
pub const APPEND_MESSAGES_MAX: usize = 100_000;
/// Bytes of all messages of one append.
pub const APPEND_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
/// Nesting of a JSON message.
pub const JSON_DEPTH_MAX: usize = 128;
/// Bytes of a content type.
pub const CONTENT_TYPE_BYTES_MAX: usize = 256;
/// Bytes of a producer id.
pub const PRODUCER_ID_BYTES_MAX: usize = 256;
/// Producers that one stream remembers.
pub const PRODUCERS_PER_STREAM_MAX: usize = 4096;
/// Bytes of a `Stream-Seq`.
pub const STREAM_SEQ_BYTES_MAX: usize = 256;
/// Bytes of a glob pattern.
pub const GLOB_BYTES_MAX: usize = 1024;
/// Forks of forks of forks: how long a chain may get.
pub const FORK_DEPTH_MAX: usize = 64;
/// The largest integer every JSON reader agrees on, 2^53 - 1.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;
/// The largest ordinal that an offset token can carry in its sixteen digits.
pub const ORDINAL_MAX: u64 = 9_999_999_999_999_999;
/// Seconds of a sliding time to live: a hundred years, so that sums of times never overflow.
pub const TTL_SECONDS_MAX: u64 = 100 * 366 * 24 * 60 * 60;
/// Bytes of messages that one read returns, unless the reader asks for less.
pub const CHUNK_BYTES_DEFAULT: usize = 1024 * 1024;
/// Streams on one page of a list.
pub const LIST_PAGE_MAX: usize = 1000;

const _: () = assert!(SEGMENT_BYTES_MAX <= PATH_BYTES_MAX);
const _: () = assert!(MESSAGE_BYTES_MAX <= APPEND_BYTES_MAX);
const _: () = assert!(APPEND_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(INTEGER_MAX <= ORDINAL_MAX);
