//! Every bound of the fold, in one place.
//!
//! Messages are bounded by `wire::caps`; what a decoder holds is at most a small multiple of the
//! message it was given. A [`State`](crate::State) is as large as its stream makes it:
//! [`State::bytes`](crate::State::bytes) tells, and the caller decides how much is too much.

use wire::caps::{APPEND_BYTES_MAX, APPEND_MESSAGES_MAX};

/// Bytes of a type, a key or a txid.
pub const NAME_BYTES_MAX: usize = 64 * 1024;
/// Events of one tick. A longer transaction is cut, and the cut is reported.
pub const TICK_EVENTS_MAX: usize = APPEND_MESSAGES_MAX;
/// Events of a tick that there is room for before they come, if the tick before it had as many.
pub(crate) const TICK_EVENTS_GUESSED_MAX: usize = 64;
/// Bytes of the messages of one tick. A larger transaction is cut, and the cut is reported.
pub const TICK_BYTES_MAX: usize = APPEND_BYTES_MAX + APPEND_MESSAGES_MAX * PLACE_BYTES_MAX;
/// Bytes that a message grows by when a snapshot writes it again, and says where it stood.
pub const PLACE_BYTES_MAX: usize = 48;
/// Types whose names a splitter shares between events; further ones are copied for each event.
pub const TYPES_SHARED_MAX: usize = 1024;

// A transaction of ours is one append: it must never be cut, also where a snapshot has it again.
const _: () = assert!(TICK_EVENTS_MAX >= APPEND_MESSAGES_MAX);
const _: () = assert!(TICK_BYTES_MAX >= APPEND_BYTES_MAX);
