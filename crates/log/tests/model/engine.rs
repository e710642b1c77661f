//! The engines that are held against the model.

use std::sync::Arc;

use log::{Log, MemoryLog};
use sys::Sys;

/// How an engine is opened.
pub(crate) trait Engine {
    /// Opens an empty log.
    async fn open(sys: &Sys) -> Arc<dyn Log>;

    /// Closes the log and opens it again on what it left behind. An engine that leaves nothing
    /// behind goes on as it is.
    async fn reopen(_sys: &Sys, log: Arc<dyn Log>) -> Arc<dyn Log> {
        log
    }
}

/// The memory engine.
pub(crate) struct Memory;

impl Engine for Memory {
    async fn open(sys: &Sys) -> Arc<dyn Log> {
        Arc::new(MemoryLog::new(sys))
    }
}
