//! How much of everything there may be.

use std::time::Duration;

/// Subscriptions of one log.
pub const SUBSCRIPTIONS_MAX: usize = 100_000;
/// Subscriptions on one page of a list.
pub const LIST_PAGE_MAX: usize = 1_000;
/// Streams that one subscription is linked to: those that a client named, and those with work that
/// is not acknowledged. More than that waits, and is found when links are free again.
pub const LINKS_MAX: usize = 100_000;
/// Views of subscriptions that are put together at a time; further ones wait for their turn.
pub const VIEWS_MAX: usize = 4;
/// Links that one entry of the diary tells; a subscription with more is told in parts.
pub const LINKS_PER_ENTRY_MAX: usize = 1_000;
/// Webhooks called at a time; further calls wait for their turn.
pub const CALLS_MAX: usize = 256;
/// Messages under way into wake streams at a time; further ones wait for their turn.
pub const ANNOUNCEMENTS_MAX: usize = 1_024;
/// Bytes that one append to the diary holds, unless a single entry is larger; and bytes that are
/// decided before they are written.
pub const DIARY_APPEND_BYTES: usize = 1024 * 1024;
/// Streams that leave an index of open work in one write; further ones wait.
pub const LEAVING_MAX: usize = 4_096;
/// Watermarks that one message holds.
pub const MARKS_PER_MESSAGE_MAX: usize = 10_000;
/// Watermarks that are written before they are compacted, however few of them count.
pub const MARKS_WRITTEN_MIN: usize = 10_000;
/// Watermarks that wait beside the sorted array of all: so many, or such a part of it.
pub const FRESH_MARKS_MIN: usize = 1_024;
/// The part, as its divisor.
pub const FRESH_MARKS_SHARE: usize = 16;
/// Streams that one request may name.
pub const STREAMS_PER_REQUEST_MAX: usize = 1_000;
/// Streams that one wake lists; what is left comes with the next one.
pub const STREAMS_PER_WAKE_MAX: usize = 1_000;
/// Wakes of one subscription that are under way at a time, if its streams are woken one by one;
/// further streams wait for their turn.
pub const WAKES_MAX: usize = 1_000;
/// Bytes of the body of a request.
pub const REQUEST_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes of a subscription's id.
pub const ID_BYTES_MAX: usize = 200;
/// Bytes of the name a worker gives itself.
pub const WORKER_BYTES_MAX: usize = 256;
/// Bytes of a description.
pub const DESCRIPTION_BYTES_MAX: usize = 1_024;
/// Bytes of a webhook's URL.
pub const URL_BYTES_MAX: usize = 2_048;
/// The shortest lease.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// The lease if nobody says.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// The longest lease.
pub const LEASE_MAX: Duration = Duration::from_mins(10);
/// How long a key that signs no more is published: what it signed is believed for five minutes,
/// and whoever verifies may keep the list of keys for as long.
pub const RETIRED_KEY_LIFE: Duration = Duration::from_mins(15);
/// Keys that are published at a time; further ones wait until the oldest are forgotten.
pub const KEYS_MAX: usize = 16;
/// The wait after the first failure; each further one doubles it.
pub const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
pub const RETRY_MAX: Duration = Duration::from_secs(60);
/// How far a wait may lie from the schedule, in percent, either way.
pub const RETRY_JITTER_PERCENT: u64 = 20;
/// How far the time of a signature may lie from now, either way.
pub const SIGNATURE_TOLERANCE: Duration = Duration::from_mins(5);
/// Bytes of a `Webhook-Signature`.
pub const SIGNATURE_BYTES_MAX: usize = 1_024;
/// Bytes of the name of a key.
pub const KID_BYTES_MAX: usize = 256;
/// Bytes of the body that wakes a webhook.
pub const NOTICE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of a wake's id.
pub const WAKE_ID_BYTES_MAX: usize = 200;
/// Bytes of the URL that a webhook may report to.
pub const CALLBACK_URL_BYTES_MAX: usize = 4 * URL_BYTES_MAX;
/// Bytes of the token that reports carry.
pub const TOKEN_BYTES_MAX: usize = 2_048;

// A body that lists as much as a wake may, with every byte of every path escaped, must fit.
const _: () = assert!(
    STREAMS_PER_WAKE_MAX * (2 * wire::caps::PATH_BYTES_MAX + 256)
        + 2 * (ID_BYTES_MAX + WAKE_ID_BYTES_MAX + CALLBACK_URL_BYTES_MAX + TOKEN_BYTES_MAX)
        <= NOTICE_BYTES_MAX
);
// A request that names as many streams as it may must fit.
const _: () = assert!(
    STREAMS_PER_REQUEST_MAX * (wire::caps::PATH_BYTES_MAX + 256)
        + 2 * (DESCRIPTION_BYTES_MAX + URL_BYTES_MAX)
        <= REQUEST_BYTES_MAX
);
// The largest entries, with every byte of every path escaped: a wake for each of as many streams
// as there may be at a time, with a config that names as many as a request may.
const _: () = assert!(
    (WAKES_MAX + STREAMS_PER_REQUEST_MAX + LINKS_PER_ENTRY_MAX)
        * (2 * wire::caps::PATH_BYTES_MAX + WAKE_ID_BYTES_MAX + 2 * WORKER_BYTES_MAX + 512)
        <= wire::caps::APPEND_BYTES_MAX
);
// What a retired key signed is believed until the last list with it is too old.
const _: () = assert!(2 * SIGNATURE_TOLERANCE.as_secs() < RETIRED_KEY_LIFE.as_secs());
