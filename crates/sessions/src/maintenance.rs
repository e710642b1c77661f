//! What is done for a session that rests: a snapshot of its state, and a compaction that leaves out
//! the pieces that its messages were made of.

use agent::{
    rows::{self, KeepChunks},
    session::{Session, Sessions},
};
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
        {
            let mut open = open.lock().await;
            open.rest().await;
            if !self.is_due(&mut open).await {
                return;
            }
        }
        let Ok(_turn) = self.turns.acquire().await else { return };
        let read_to = {
            // Much may have happened while others had their turns.
            let mut open = open.lock().await;
            if open.catch_up().await.is_err() || !self.is_due(&mut open).await {
                return;
            }
            open.place().expect("a session that was read has a place").0
        };
        let compaction = live::compact(self.sessions.log(), session.path().clone(), &self.sys);
        let now = self.sys.clock.unix_ms();
        let compaction = rows::drop_chunks(rows::compaction(compaction), self.keep, now);
        // Nothing before this place is open; whatever was opened behind it keeps its history.
        match compaction.hold(read_to.position).run().await {
            Ok(compacted) => {
                let (before, after) = (compacted.before.bytes, compacted.after.bytes);
                tracing::debug!(%session, before, after, "a session was compacted");
                open.lock().await.compacted(&compacted, self.keep).await;
            }
            Err(error) if error.is_retryable() => {
                tracing::debug!(%session, %error, "a session is not compacted this time");
            }
            Err(error) => {
                tracing::debug!(%session, %error, "a session is not compacted");
                open.lock().await.not_compacted();
            }
        }
    }

    /// Whether a compaction of the session is worth it now.
    async fn is_due(&self, session: &mut Session) -> bool {
        let due = session.compaction_due(self.keep).await.ok().flatten();
        due.is_some_and(|due| due <= self.sys.clock.unix_ms())
    }
}
