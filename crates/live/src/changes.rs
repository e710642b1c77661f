//! Changes on their way to somebody who may be slow.

use std::{marker::PhantomData, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use query::{Change, Key, QueryId};
use tokio::sync::Notify;

use crate::db::Db;

/// What changed in a query, merged for as long as nobody takes it: it never holds more than the
/// rows that differ, and never half a tick.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Held for moments, never across an await.
    merged: Mutex<Merged>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Merged {
    changes: Vec<Change>,
    places: HashMap<Key, usize, FixedState>,
}

impl Pending {
    pub(crate) fn push(&self, changes: Vec<Change>) {
        self.merged.lock().push(changes);
        self.news.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<Change> {
        let merged = std::mem::take(&mut *self.merged.lock());
        let differs = |change: &Change| change.old != change.new;
        merged.changes.into_iter().filter(differs).collect()
    }

    /// Waits for changes; there is at least one.
    pub(crate) async fn next(&self) -> Vec<Change> {
        loop {
            let news = self.news.notified();
            let changes = self.take();
            if !changes.is_empty() {
                return changes;
            }
            news.await;
        }
    }
}

impl Merged {
    fn push(&mut self, changes: Vec<Change>) {
        for change in changes {
            let place = *self.places.entry(change.key.clone()).or_insert(self.changes.len());
            match self.changes.get_mut(place) {
                Some(earlier) => earlier.new = change.new,
                None => self.changes.push(change),
            }
        }
    }
}

/// The changes of a query, one batch after the other. Changes that come while nobody waits are
/// merged into one batch.
#[derive(Debug)]
pub struct Changes<R> {
    pub(crate) db: Db,
    pub(crate) query: QueryId,
    pub(crate) pending: Arc<Pending>,
    pub(crate) row: PhantomData<fn() -> R>,
}

impl<R> Changes<R> {
    /// Waits for the next changes.
    pub async fn next(&mut self) -> Vec<Change> {
        self.pending.next().await
    }

    /// What has changed and was not taken yet.
    pub fn take(&mut self) -> Vec<Change> {
        self.pending.take()
    }
}

impl<R> Drop for Changes<R> {
    fn drop(&mut self) {
        self.db.drop_query(self.query);
    }
}
