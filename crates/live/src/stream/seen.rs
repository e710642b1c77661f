//! Transactions that have come by the stream.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use parking_lot::Mutex;
use sys::Sys;
use tokio::sync::{Notify, watch};
use wire::Offset;

use crate::caps::TXIDS_SEEN_MAX;

/// How far the reader of a stream is, and the newest transactions it has shown. Memory is bounded:
/// who asks much too late waits in vain.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Held for moments, never across an await.
    txids: Mutex<Txids>,
    news: Notify,
    /// Everything before it is shown.
    reached: watch::Sender<Option<Offset>>,
    /// Ends a pause of the reader.
    hurry: Notify,
    /// Rows that do not fit their types.
    misfits: AtomicU64,
    /// Writes that came too late.
    late: AtomicU64,
}

#[derive(Debug, Default)]
struct Txids {
    known: HashSet<Box<str>, FixedState>,
    oldest_first: VecDeque<Box<str>>,
}

/// A transaction has not come by the stream in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transaction {txid:?} has not come by the stream within {within:?}")]
pub struct TxIdTimeout {
    /// The transaction.
    pub txid: String,
    /// How long was waited.
    pub within: Duration,
}

impl Seen {
    pub(crate) fn add(&self, txid: &str) {
        self.txids.lock().add(txid);
        self.news.notify_waiters();
    }

    /// Notes that everything before an offset is shown.
    pub(crate) fn reach(&self, offset: Option<Offset>) {
        self.reached.send_replace(offset);
    }

    /// Everything before it is shown.
    pub(crate) fn reached(&self) -> Option<Offset> {
        *self.reached.borrow()
    }

    /// Waits until everything before an offset is shown.
    pub(crate) async fn reaches(&self, offset: Offset) {
        let is_there = |own: &Option<Offset>| own.is_some_and(|own| own >= offset);
        // The sender is ours, so it is not gone.
        let _ = self.reached.subscribe().wait_for(is_there).await;
    }

    /// Notes that a row does not fit its type.
    pub(crate) fn left_out(&self) {
        self.misfits.fetch_add(1, Ordering::Relaxed);
    }

    /// How many rows do not fit their types.
    pub(crate) fn misfits(&self) -> u64 {
        self.misfits.load(Ordering::Relaxed)
    }

    /// Notes that a write came too late.
    pub(crate) fn came_late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    /// How many writes came too late.
    pub(crate) fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Has the reader try again at once, if it rests.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Rests for a while, unless somebody is in a hurry.
    pub(crate) async fn rest(&self, pause: Duration, sys: &Sys) {
        // Whichever comes first.
        let _ = sys.clock.timeout(pause, self.hurry.notified()).await;
    }

    pub(crate) async fn wait(
        &self,
        txid: &str,
        within: Duration,
        sys: &Sys,
    ) -> Result<(), TxIdTimeout> {
        let seen = async {
            loop {
                let news = self.news.notified();
                if self.txids.lock().known.contains(txid) {
                    return;
                }
                news.await;
            }
        };
        let timeout = |_| TxIdTimeout { txid: txid.into(), within };
        sys.clock.timeout(within, seen).await.map_err(timeout)
    }
}

impl Txids {
    fn add(&mut self, txid: &str) {
        if !self.known.insert(txid.into()) {
            return;
        }
        self.oldest_first.push_back(txid.into());
        if self.oldest_first.len() > TXIDS_SEEN_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
