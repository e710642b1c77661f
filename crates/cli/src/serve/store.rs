//! The store: the engine a server serves, chosen by the operator.

use std::sync::Arc;

use log::{Log, MemoryLog, file::FileLog};
use sys::Sys;

use crate::{config::Engine, failure::Failure};

/// An open engine.
#[derive(Debug)]
pub(crate) enum Store {
    Memory(MemoryLog),
    File(FileLog),
}

impl Store {
    pub(crate) async fn open(sys: &Sys, engine: Engine) -> Result<Self, Failure> {
        match engine {
            Engine::Memory => Ok(Self::Memory(MemoryLog::new(sys))),
            Engine::File { dir, settings } => {
                let opened = FileLog::open(sys, &dir, settings).await;
                opened.map(Self::File).map_err(Failure::refused)
            }
        }
    }

    /// The waist of it.
    pub(crate) fn log(&self) -> Arc<dyn Log> {
        match self {
            Self::Memory(log) => Arc::new(log.clone()),
            Self::File(log) => Arc::new(log.clone()),
        }
    }

    /// Makes everything that was accepted durable, then ends.
    pub(crate) async fn close(self) {
        match self {
            Self::Memory(_) => {}
            Self::File(log) => log.close().await,
        }
    }
}
