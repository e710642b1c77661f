//! The engines that are held against the model.

use std::path::Path;

use log::{
    Log, MemoryLog,
    file::{FileLog, Settings},
};
use sys::Sys;

/// How an engine is opened.
pub(crate) trait Engine: Log + Sized {
    /// How many runs are played, unless `PROPTEST_CASES` says.
    const RUNS: u32;

    /// Opens a log in a world where there is none.
    async fn open(sys: &Sys) -> Self;

    /// Closes the log and opens it again on what it left behind. An engine that leaves nothing
    /// behind goes on as it is.
    async fn reopen(self, _sys: &Sys) -> Self {
        self
    }
}

impl Engine for MemoryLog {
    const RUNS: u32 = 8_000;

    async fn open(sys: &Sys) -> Self {
        Self::new(sys)
    }
}

impl Engine for FileLog {
    const RUNS: u32 = 2_000;

    async fn open(sys: &Sys) -> Self {
        // Segments so small that a run rolls and regroups.
        let settings = Settings {
            segment_bytes: 16 * 1024,
            hot_bytes_max: 4 * 1024,
            commit_bytes_max: 2 * 1024,
            regroup_segments: 1,
            ..Settings::default()
        };
        Self::open(sys, Path::new("/data"), settings).await.expect("a sound disk")
    }

    async fn reopen(self, sys: &Sys) -> Self {
        self.close().await;
        <Self as Engine>::open(sys).await
    }
}
