//! Every bound of this crate.

use std::time::Duration;

/// Transactions that a stream has shown, remembered for those who ask late.
pub const TXIDS_SEEN_MAX: usize = 4_096;
/// How long to wait for a transaction to come back by the stream.
pub const TXID_WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Events of one effect that wait for their handlers.
pub const EVENTS_WAITING_MAX: usize = 1_024;
/// Handlers of one effect that run at the same time.
pub const CONCURRENCY_MAX: usize = 1_024;
/// Events of one durable effect that are done while an earlier one is not; with so many, none is
/// started before that one is done.
pub const EVENTS_AHEAD_MAX: usize = 1_024;
/// Acknowledgements of one durable effect that wait to be written.
pub const ACKS_WAITING_MAX: usize = 64;
/// Bytes of commits that are appended at once, unless one alone has more.
pub const COMMITS_BYTES_MAX: usize = 1 << 20;
/// How often a failed handler is tried, unless said otherwise.
pub const ATTEMPTS_DEFAULT: u32 = 5;
/// The first pause after a failure; each further one is twice as long.
pub const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause after a failure.
pub const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Bytes asked of a log at once.
pub const READ_BYTES: usize = 1 << 20;
/// Messages that a durable effect may pass before it notes how far it has come, where nothing
/// happens that it acknowledges: so much history does it hold for nothing.
pub const CURSOR_LAG_MAX: usize = 1_024;
/// How often a durable effect that has nothing to acknowledge writes its cursor again, to show that
/// it runs.
pub const EFFECT_BEAT: Duration = Duration::from_secs(24 * 3_600);
/// A durable effect that has not been seen for so long is gone: the next compaction forgets its
/// cursor and its claim, and keeps no history for it.
pub const EFFECT_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Bytes of a snapshot that are appended at once, unless one message alone has more.
pub const SNAPSHOT_APPEND_BYTES: usize = 8 << 20;
/// Transactions that wait to be appended to a stream.
pub const OUTGOING_MAX: usize = 4_096;
/// Producers of one stream that clients without a name share. A log remembers producers for days,
/// and so many that each life of a client cannot have one of its own.
pub const UNNAMED_PRODUCERS: u64 = 64;
/// Bytes of transactions that are appended at once, unless one alone has more.
pub const OUTGOING_BYTES_MAX: usize = 1 << 20;
/// Subsets of one collection that queries have a source load.
pub const SUBSETS_MAX: usize = 10_000;
/// Subsets that one source fetches at the same time.
pub const LOADS_MAX: usize = 8;
/// Calls of one paced action that wait for their time.
pub const PACED_MAX: usize = 1_024;
/// Transactions that wait in one outbox.
pub const OUTBOX_ENTRIES_MAX: usize = 10_000;
/// Bytes of transactions that wait in one outbox. It must fit one append.
pub const OUTBOX_BYTES_MAX: usize = 8 << 20;
/// Ticks after which another copy of the rows of a stream is kept.
pub const COPY_TICKS: usize = 1_000;
/// Bytes of a copy of the rows of a stream.
pub const COPY_BYTES_MAX: usize = 256 << 20;
/// A copy is also kept when nothing has come for so long.
pub const COPY_IDLE: Duration = Duration::from_secs(2);

// A clock that is days off must not make a running effect look gone.
const _: () = assert!(EFFECT_AGE_MAX.as_secs() >= 10 * EFFECT_BEAT.as_secs());
// Otherwise a cursor would hold handlers back that may run at the same time.
const _: () = assert!(EVENTS_AHEAD_MAX >= CONCURRENCY_MAX);
/// Rows that a compaction may leave out and holds before it looks which of them it need not.
pub const DROPPABLE_ROWS_MAX: usize = 16_384;
