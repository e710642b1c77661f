//! Limits that no operator sets: what things cost that have no size of their own, and how far
//! clients may go within what [`crate::Limits`] allows.

use std::time::Duration;

/// Bytes of an answer that the place of its request pays for; only larger ones are counted by their
/// bytes.
pub(crate) const ANSWER_BYTES_FREE: usize = 8 * 1024;
/// What a request counts for whose body does not come with its head, and the room that a body gets
/// before any of it came.
pub(crate) const REQUEST_BYTES: usize = 16 * 1024;
/// A read is expected to bring one of so many parts of what may be on its way at a time, at most.
pub(crate) const EXPECTED_PARTS: usize = 16;
/// Bytes from which on a body counts as large.
pub(crate) const LARGE_BODY_BYTES: usize = 1024 * 1024;
/// Room that a large body gets at once. Allocators keep blocks of a few megabytes when they are
/// freed; a block of this size comes from the system and goes back to it, and what is not touched
/// of it is not there.
pub(crate) const LARGE_BODY_ROOM: usize = 33 * 1024 * 1024;
/// Reads of one client at a time. Nothing tells how large the next message is before it is read, so
/// this many of the largest may be in memory before they are counted; others wait their turn.
pub(crate) const READS_MAX: usize = 4;
/// Of one client at a time: bodies that are compressed or decompressed, and large ones that are
/// split and stored. Each takes a thread that cold reads need, or keeps the writes behind it
/// waiting, for longer than anything else that a request may ask for.
pub(crate) const HEAVY_MAX: usize = 2;
/// Watchers of a log that the process keeps for itself: wakes, feeds and fleets find a place
/// whatever clients hold.
const WATCHERS_KEPT: usize = log::WATCHERS_MAX / 2;
/// Watchers that all clients have together.
pub(crate) const WATCHERS_MAX: usize = log::WATCHERS_MAX - WATCHERS_KEPT;
/// Bytes of an event that are made at a time. One message may be six times as large as an event, by
/// its line ends, and must reach its readers without taking all that a client may have on its way.
pub(crate) const EVENT_PART_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a request's head that are not counted, because every connection has room for them.
pub(crate) const HEAD_BYTES_FREE: usize = 4 * 1024;
/// Requests that one HTTP/2 connection may have under way.
pub(crate) const HTTP2_STREAMS_MAX: u32 = 100;
/// Bytes of one answer that wait for an HTTP/2 client to take them.
pub(crate) const HTTP2_SEND_BUFFER_BYTES: usize = 64 * 1024;
/// How often an HTTP/2 connection is looked at for readers that take nothing, as a part of the
/// time they get.
pub(crate) const STALL_CHECKS: u32 = 4;
/// Times its size that a compressed body may become.
pub(crate) const DECODED_RATIO_MAX: usize = 200;
/// Bytes that a compressed body may become whatever its size.
pub(crate) const DECODED_BYTES_FREE: usize = 256 * 1024;
/// Connections too many that are told so at a time; others are just closed.
pub(crate) const TURNED_AWAY_MAX: usize = 64;
/// How long one of them gets to hear it.
pub(crate) const TURNED_AWAY_PATIENCE: Duration = Duration::from_secs(1);
/// Pause after the system refused another connection, for it will refuse the next one, too.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// How long a client of a full disk is asked to wait.
pub(crate) const DISK_FULL_RETRY: Duration = Duration::from_secs(10);
/// How long the server is not ready after the disk was full last. Then it wants traffic again, or
/// it would never learn that there is room.
pub(crate) const DISK_FULL_LASTS: Duration = Duration::from_secs(30);
/// How long a producer is asked to wait whom a stream has no room to remember.
pub(crate) const PRODUCERS_RETRY: Duration = Duration::from_secs(60);

/// Room to make at once for so many bytes that are held for a while.
pub(crate) const fn room(bytes: usize) -> usize {
    if bytes < LARGE_BODY_BYTES || bytes > LARGE_BODY_ROOM { bytes } else { LARGE_BODY_ROOM }
}
