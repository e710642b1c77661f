//! What an operator may choose.

use std::time::Duration;

/// Smaller segments would hold no more than their heads.
const SEGMENT_BYTES_MIN: u32 = 16 * 1024;

/// Settings of a [`super::FileLog`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of one segment of the write-ahead log, at least 16 KiB. Default 64 MiB.
    pub segment_bytes: u32,
    /// Bytes of the newest messages kept in memory. Default 16 MiB.
    pub hot_bytes_max: usize,
    /// Requests that may wait for the disk; more are refused. Default 16,384.
    pub requests_max: usize,
    /// Bytes of one group commit, unless a single append is larger; at most a quarter of a
    /// segment. Default 4 MiB.
    pub commit_bytes_max: usize,
    /// Full segments that wait before they are regrouped by stream. Default 2.
    pub regroup_segments: usize,
    /// Segments that may exist at once; while there are more, writes are refused. Default 64.
    pub segments_max: usize,
    /// How long the bytes of a deleted stream may stay, at most, on a log that is otherwise idle.
    /// Default one minute.
    pub reclaim_after: Duration,
}

impl Settings {
    /// A segment must have room for several commits, or each would begin another.
    pub(super) fn fitting(mut self) -> Self {
        self.segment_bytes = self.segment_bytes.max(SEGMENT_BYTES_MIN);
        self.commit_bytes_max = self.commit_bytes_max.min(self.segment_bytes as usize / 4);
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            hot_bytes_max: 16 * 1024 * 1024,
            requests_max: 16 * 1024,
            commit_bytes_max: 4 * 1024 * 1024,
            regroup_segments: 2,
            segments_max: 64,
            reclaim_after: Duration::from_secs(60),
        }
    }
}
