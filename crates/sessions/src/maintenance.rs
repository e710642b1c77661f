//! What is done for a session that rests: a snapshot of its state, and a compaction that leaves out
//! the pieces that its messages were made of.

use agent::{
    rows::{self, KeepChunks},
    session::Sessions,
};
use live::CompactError;
use sys::Sys;
use tokio::sync::Semaphore;

use crate::{SessionId, caps::COMPACTIONS_MAX};

/// Keeps sessions small.
#[derive(Debug)]
pub(crate) struct Maintenance {
    sys: Sys,
    sessions: Sessions,
    keep: KeepChunks,
    /// Compactions read and write a lot, so they take turns.
    turns: Semaphore,
}

impl Maintenance {
    pub(crate) fn new(sys: &Sys, sessions: &Sessions, keep: KeepChunks) -> Self {
        let turns = Semaphore::new(COMPACTIONS_MAX);
        Self { sys: sys.clone(), sessions: sessions.clone(), keep, turns }
    }

    /// Does what is worth it. A session that is written to meanwhile is left as it is: it will rest
    /// again.
    pub(crate) async fn rest(&self, session: &SessionId) {
        let open = self.sessions.of(session.path());
        let is_worth_it = {
            let mut open = open.lock().await;
            open.rest().await;
            self.keep != KeepChunks::Forever && open.is_worth_compacting().await.unwrap_or(false)
        };
        if !is_worth_it {
            return;
        }
        let Ok(_turn) = self.turns.acquire().await else { return };
        let compaction = live::compact(self.sessions.log(), session.path().clone(), &self.sys);
        let now = self.sys.clock.unix_ms();
        let compaction = rows::drop_chunks(rows::compaction(compaction), self.keep, now);
        match compaction.run().await {
            Ok(compacted) => {
                let (before, after) = (compacted.before.bytes, compacted.after.bytes);
                tracing::debug!(%session, before, after, "a session was compacted");
                if let Some(snapshot) = compacted.snapshot {
                    open.lock().await.compacted(snapshot).await;
                }
            }
            Err(CompactError::Moved) => {}
            Err(error) => tracing::debug!(%session, %error, "a session is not compacted"),
        }
    }
}
