//! Transactions that have come by a shape.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use parking_lot::Mutex;
use sys::Sys;
use tokio::sync::Notify;

use crate::caps::TXIDS_SEEN_MAX;

/// Knows which transactions a shape has shown. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ShapeHandle {
    sys: Sys,
    seen: Arc<Seen>,
}

/// The newest transactions of a shape. Memory is bounded: who asks much too late waits in vain.
#[derive(Debug, Default)]
struct Seen {
    /// Held for moments, never across an await.
    txids: Mutex<Txids>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Txids {
    known: HashSet<u64, FixedState>,
    oldest_first: VecDeque<u64>,
}

/// A transaction has not come by the shape in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transaction {txid} has not come by the shape within {within:?}; it may come later")]
pub struct TxIdTimeout {
    /// The transaction.
    pub txid: u64,
    /// How long was waited.
    pub within: Duration,
}

impl TxIdTimeout {
    /// True if the same call may succeed later. Always.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        true
    }
}

impl ShapeHandle {
    pub(crate) fn new(sys: &Sys) -> Self {
        Self { sys: sys.clone(), seen: Arc::default() }
    }

    /// Waits until the collection shows what a transaction wrote.
    ///
    /// The number is what `pg_current_xact_id()` says inside the transaction, whole or cut to 32
    /// bits. A transaction that touches no row of the shape never comes.
    ///
    /// # Errors
    /// If it does not come in time; that does not say that it did not happen.
    pub async fn await_txid(&self, txid: u64, within: Duration) -> Result<(), TxIdTimeout> {
        let shown = self.seen.shows(txid);
        let timeout = |_| TxIdTimeout { txid, within };
        self.sys.clock.timeout(within, shown).await.map_err(timeout)
    }

    pub(crate) fn add(&self, txids: impl IntoIterator<Item = u64>) {
        let mut known = self.seen.txids.lock();
        txids.into_iter().for_each(|txid| known.add(low_half(txid)));
        drop(known);
        self.seen.news.notify_waiters();
    }
}

impl Seen {
    async fn shows(&self, txid: u64) {
        loop {
            let news = self.news.notified();
            if self.txids.lock().known.contains(&low_half(txid)) {
                return;
            }
            news.await;
        }
    }
}

/// The log of a database counts transactions with 32 bits.
fn low_half(txid: u64) -> u64 {
    txid & u64::from(u32::MAX)
}

impl Txids {
    fn add(&mut self, txid: u64) {
        if !self.known.insert(txid) {
            return;
        }
        self.oldest_first.push_back(txid);
        if self.oldest_first.len() > TXIDS_SEEN_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_transaction_is_known_from_when_it_comes_until_many_others_came() {
        let handle = ShapeHandle::new(&Sys::real());
        let soon = Duration::from_millis(1);
        assert_eq!(handle.await_txid(7, soon).await, Err(TxIdTimeout { txid: 7, within: soon }));
        let waiting = handle.await_txid((3 << 32) + 7, Duration::from_secs(60));
        let (waited, ()) = tokio::join!(waiting, async { handle.add([7]) });
        assert_eq!(waited, Ok(()));
        handle.add(8..8 + TXIDS_SEEN_MAX as u64);
        assert!(handle.await_txid(7, soon).await.is_err());
        assert!(handle.await_txid(8, soon).await.is_ok());
    }
}
