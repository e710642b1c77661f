//! Transactions that have come by the stream.

use std::{collections::VecDeque, time::Duration};

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use parking_lot::Mutex;
use sys::Sys;
use tokio::sync::Notify;

use crate::caps::TXIDS_SEEN_MAX;

/// The newest transactions of a stream. Memory is bounded: who asks much too late waits in vain.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Held for moments, never across an await.
    txids: Mutex<Txids>,
    news: Notify,
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
