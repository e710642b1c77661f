//! The store: the engine a server serves, chosen by the operator, and its subscriptions.

use std::sync::Arc;

use client::Webhooks;
use log::{Log, MemoryLog, file::FileLog};
use sys::Sys;
use wake::{Keys, Subscriptions};

use super::keys;
use crate::{config::Engine, failure::Failure};

/// An open engine.
#[derive(Debug)]
pub(crate) struct Store {
    log: Kind,
    /// None if they cannot be read: streams are served all the same.
    subscriptions: Option<Arc<wake::Engine>>,
}

#[derive(Debug)]
enum Kind {
    Memory(MemoryLog),
    File(FileLog),
}

impl Store {
    pub(crate) async fn open(sys: &Sys, engine: Engine) -> Result<Self, Failure> {
        let (log, keys) = match engine {
            Engine::Memory => {
                let keys = Arc::new(Keys::generate(&sys.chance));
                (Kind::Memory(MemoryLog::new(sys)), keys)
            }
            Engine::File { dir, settings } => {
                let log = FileLog::open(sys, &dir, settings).await.map_err(Failure::refused)?;
                (Kind::File(log), keys::load_or_make(sys, &dir).await?)
            }
        };
        let courier = Arc::new(Webhooks::new());
        let opened = wake::Engine::open(log.waist(), sys, courier, keys).await;
        let subscriptions = opened.inspect_err(|error| {
            tracing::error!(%error, "subscriptions cannot be read: nobody is woken");
        });
        Ok(Self { log, subscriptions: subscriptions.ok().map(Arc::new) })
    }

    /// The waist of it.
    pub(crate) fn log(&self) -> Arc<dyn Log> {
        self.log.waist()
    }

    pub(crate) fn subscriptions(&self) -> Option<Arc<dyn Subscriptions>> {
        self.subscriptions.clone().map(|engine| engine as Arc<dyn Subscriptions>)
    }

    /// Makes everything that was accepted durable, then ends.
    pub(crate) async fn close(self) {
        // Whoever still holds it finds it closed with the log.
        if let Some(Ok(subscriptions)) = self.subscriptions.map(Arc::try_unwrap) {
            subscriptions.close().await;
        }
        match self.log {
            Kind::Memory(_) => {}
            Kind::File(log) => log.close().await,
        }
    }
}

impl Kind {
    fn waist(&self) -> Arc<dyn Log> {
        match self {
            Self::Memory(log) => Arc::new(log.clone()),
            Self::File(log) => Arc::new(log.clone()),
        }
    }
}
