//! The store: the engine a server serves, chosen by the operator, and its subscriptions.

use std::{path::PathBuf, sync::Arc};

use client::Webhooks;
use log::{Log, MemoryLog, file::FileLog};
use sys::Sys;
use wake::{Keys, Subscriptions};

use super::signals::Hangups;
use crate::{config::Engine, failure::Failure, keys};

/// An open engine.
#[derive(Debug)]
pub(crate) struct Store {
    log: Kind,
    /// None if they cannot be read: streams are served all the same.
    subscriptions: Option<Arc<wake::Engine>>,
    /// Where the keys are, if they outlive the process.
    keys_dir: Option<PathBuf>,
}

#[derive(Debug)]
enum Kind {
    Memory(MemoryLog),
    File(FileLog),
}

impl Store {
    pub(crate) async fn open(sys: &Sys, engine: Engine) -> Result<Self, Failure> {
        let (log, keys, keys_dir) = match engine {
            Engine::Memory => {
                let keys = Arc::new(Keys::generate(&sys.chance));
                (Kind::Memory(MemoryLog::new(sys)), keys, None)
            }
            Engine::File { dir, settings } => {
                let log = FileLog::open(sys, &dir, settings).await.map_err(Failure::refused)?;
                (Kind::File(log), keys::load_or_make(sys, &dir).await?, Some(dir))
            }
        };
        let courier = Arc::new(Webhooks::new());
        let opened = wake::Engine::open(log.waist(), sys, courier, keys).await;
        let subscriptions = opened.inspect_err(|error| {
            tracing::error!(%error, "subscriptions cannot be read: nobody is woken");
        });
        Ok(Self { log, subscriptions: subscriptions.ok().map(Arc::new), keys_dir })
    }

    /// The waist of it.
    pub(crate) fn log(&self) -> Arc<dyn Log> {
        self.log.waist()
    }

    pub(crate) fn subscriptions(&self) -> Option<Arc<dyn Subscriptions>> {
        self.subscriptions.clone().map(|engine| engine as Arc<dyn Subscriptions>)
    }

    /// Takes the keys that stand in the directory whenever a `SIGHUP` comes. Keys that cannot be
    /// read change nothing, nor does a `SIGHUP` where there are none to read.
    pub(crate) fn renew_keys_on_hangup(&self, sys: &Sys) -> Result<(), Failure> {
        let mut hangups = Hangups::listen().map_err(|error| Failure::about("signals", error))?;
        let (Some(dir), Some(engine)) = (self.keys_dir.clone(), &self.subscriptions) else {
            // A signal that was listened for once does not end the process any more.
            return Ok(());
        };
        // Weak, for whoever closes the store must find itself alone with the engine.
        let (engine, owned) = (Arc::downgrade(engine), sys.clone());
        sys.spawn.task("hangups", async move {
            while hangups.next().await {
                let loaded = keys::load(&owned, &dir).await;
                let Some(engine) = engine.upgrade() else { return };
                match loaded {
                    Ok(keys) => {
                        engine.renew_keys(keys.clone());
                        tracing::info!(kid = keys.active_kid(), "keys renewed");
                    }
                    Err(failure) => {
                        let why = failure.text().unwrap_or_default();
                        tracing::error!(why, "the keys are as they were");
                    }
                }
            }
        });
        Ok(())
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
