//! Changes on their way to somebody who may be slow.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    marker::PhantomData,
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use query::{Change, Key, QueryId};
use tokio::sync::Notify;

use crate::{db::Db, error::DbError};

/// What changed in a query, merged for as long as nobody takes it: it never holds more than the
/// rows that differ, and never half a tick.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Held for moments, never across an await.
    merged: Mutex<Merged>,
    news: Notify,
}

/// A change, and where a stream has it; none if it was made here.
#[derive(Clone, Debug)]
pub(crate) struct Dated {
    pub(crate) change: Change,
    pub(crate) position: Option<u64>,
}

/// The tick of a stream that brings changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ticked {
    /// It began here.
    At(u64),
    /// It tells of rows that were written before.
    Snapshot(u64),
}

impl Dated {
    /// A row that enters is dated by where it was written, so that it is the same for those who
    /// begin later; but for one that was written without entering, everything by its tick.
    pub(crate) fn new(change: Change, tick: Option<Ticked>) -> Self {
        let entered = change.new.as_ref().filter(|_| change.old.is_none());
        let written = entered.filter(|entry| !entry.meta.is_pending);
        let position = match (tick, written.and_then(|entry| entry.meta.position)) {
            (Some(Ticked::At(first)), Some(written)) => Some(written.max(first)),
            (_, Some(written)) => Some(written),
            (Some(Ticked::At(first) | Ticked::Snapshot(first)), None) => Some(first),
            (None, None) => None,
        };
        Self { change, position }
    }
}

#[derive(Debug, Default)]
struct Merged {
    /// In the order in which their rows were first touched.
    changes: BTreeMap<u64, Dated>,
    places: HashMap<Key, u64, FixedState>,
    count: u64,
    /// Its query has come to its bound, so nothing follows.
    is_stopped: bool,
}

impl Pending {
    pub(crate) fn push(&self, changes: impl IntoIterator<Item = Dated>) {
        let mut merged = self.merged.lock();
        changes.into_iter().for_each(|change| merged.push(change));
        drop(merged);
        self.news.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<Dated> {
        let mut merged = self.merged.lock();
        let is_stopped = merged.is_stopped;
        let merged = std::mem::replace(&mut *merged, Merged { is_stopped, ..Merged::default() });
        let differs = |dated: &Dated| dated.change.old != dated.change.new;
        merged.changes.into_values().filter(differs).collect()
    }

    /// Nothing follows any more.
    pub(crate) fn stop(&self) {
        self.merged.lock().is_stopped = true;
        self.news.notify_one();
    }

    /// Waits for changes; there is at least one. None if nothing follows.
    pub(crate) async fn next(&self) -> Option<Vec<Dated>> {
        loop {
            let news = self.news.notified();
            let changes = self.take();
            if !changes.is_empty() {
                return Some(changes);
            }
            if self.merged.lock().is_stopped {
                return None;
            }
            news.await;
        }
    }
}

impl Merged {
    fn push(&mut self, Dated { change, position }: Dated) {
        let Some(place) = self.places.get(&change.key) else {
            self.places.insert(change.key.clone(), self.count);
            self.changes.insert(self.count, Dated { change, position });
            self.count += 1;
            return;
        };
        let Entry::Occupied(mut earlier) = self.changes.entry(*place) else { return };
        let merged = earlier.get_mut();
        (merged.change.new, merged.position) = (change.new, position);
        // What came and went was never there; kept, it would be here for as long as nobody looks.
        if merged.change.old.is_none() && merged.change.new.is_none() {
            earlier.remove();
            self.places.remove(&change.key);
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
    /// Waits for the next changes; for ever, if its query was stopped ([`Self::failure`]).
    pub async fn next(&mut self) -> Vec<Change> {
        let Some(changes) = self.pending.next().await else {
            return std::future::pending().await;
        };
        changes.into_iter().map(|dated| dated.change).collect()
    }

    /// Why its query was stopped, if it was: it remembered more than it may.
    #[must_use]
    pub fn failure(&self) -> Option<DbError> {
        self.db.failure(self.query)
    }

    /// What has changed and was not taken yet.
    pub fn take(&mut self) -> Vec<Change> {
        self.pending.take().into_iter().map(|dated| dated.change).collect()
    }
}

impl<R> Drop for Changes<R> {
    fn drop(&mut self) {
        self.db.drop_query(self.query);
    }
}

#[cfg(test)]
mod tests {
    use query::{Database, Meta, Origin, Schema};

    use super::*;

    fn change(key: i64, old: bool, new: bool) -> Dated {
        let mut database = Database::new();
        let rows = database.collection("rows", Schema::open("id")).unwrap();
        let record = database.record(rows, &format!(r#"{{"id":{key}}}"#)).unwrap();
        let meta = Meta { position: None, is_pending: false, origin: Origin::Local };
        let entry = Arc::new(query::Entry { key: Key::from(key), record, meta });
        let change = Change {
            key: Key::from(key),
            old: old.then(|| entry.clone()),
            new: new.then(|| entry.clone()),
        };
        Dated { change, position: None }
    }

    /// Nobody looks while rows come and go.
    #[test]
    fn rows_that_came_and_went_leave_nothing_behind() {
        let pending = Pending::default();
        pending.push([change(-1, true, false), change(-2, false, true)]);
        for key in 0..10_000 {
            pending.push([change(key, false, true)]);
            pending.push([change(key, true, false)]);
        }
        let merged = pending.merged.lock();
        assert_eq!((merged.changes.len(), merged.places.len()), (2, 2));
        drop(merged);
        let keys: Vec<_> = pending.take().into_iter().map(|dated| dated.change.key).collect();
        assert_eq!(keys, [Key::from(-1), Key::from(-2)]);
    }
}
