//! Cursors: what keeps a shared cache from serving one empty answer for ever.

use std::fmt;

/// 2024-10-09T00:00:00Z, from which intervals are counted.
const EPOCH_UNIX_MS: u64 = 1_728_432_000_000;
const INTERVAL_MS: u64 = 20_000;
/// The jitter is 1 to 3600 seconds, counted in intervals.
const JITTER_INTERVALS_MAX: u64 = 3600 * 1000 / INTERVAL_MS;

/// The number of a time interval, echoed by live readers so that cache keys move on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(u64);

impl Cursor {
    /// The cursor to answer with: the current interval, or one past the client's if it is not
    /// behind. `chance` gives a number below its argument.
    #[must_use]
    pub fn next(now_unix_ms: u64, client: Option<&str>, chance: impl FnOnce(u64) -> u64) -> Self {
        let current = now_unix_ms.saturating_sub(EPOCH_UNIX_MS) / INTERVAL_MS;
        match client.and_then(crate::offset::plain_integer) {
            Some(seen) if seen >= current => Self(seen + 1 + chance(JITTER_INTERVALS_MAX)),
            _ => Self(current),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_never_go_back() {
        let now = EPOCH_UNIX_MS + 1000 * INTERVAL_MS;
        assert_eq!(Cursor::next(now, None, |_| 0).to_string(), "1000");
        assert_eq!(Cursor::next(now, Some("7"), |_| 0).to_string(), "1000");
        assert_eq!(Cursor::next(now, Some("1000"), |_| 0).to_string(), "1001");
        assert_eq!(Cursor::next(now, Some("5000"), |n| n - 1).to_string(), "5180");
        assert_eq!(Cursor::next(now, Some("rubbish"), |_| 0).to_string(), "1000");
    }
}
