//! The engines that are held against the model.

use log::{Log, MemoryLog};
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
