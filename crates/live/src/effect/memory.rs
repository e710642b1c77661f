//! Effects that begin with the rows that match now, each time they are started.

use std::sync::Arc;

use query::{Query, QueryId};
use smol_str::SmolStr;

use super::{Event, acker::AckerHandle, driver::Feed};
use crate::{changes::Pending, db::Db, error::DbError};

/// The changes of a query as events. What comes while handlers are slow is merged by row, so it
/// is never more than the rows that differ.
pub(super) struct Memory {
    db: Db,
    query: QueryId,
    pending: Arc<Pending>,
    count: u64,
}

impl Memory {
    pub(super) fn new(db: Db, query: &Query, skips_initial: bool) -> Result<Self, DbError> {
        let (query, pending) = db.watch(query)?;
        if skips_initial {
            pending.take();
        }
        Ok(Self { db, query, pending, count: 0 })
    }
}

impl<R: Send + 'static> Feed<R> for Memory {
    async fn next(&mut self) -> Option<Vec<Event<R>>> {
        let changes = self.pending.next().await;
        self.count += 1;
        let name = SmolStr::default();
        Some(changes.into_iter().map(|change| Event::new(&name, self.count, change)).collect())
    }

    fn acker(&self) -> Option<AckerHandle> {
        None
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.db.drop_query(self.query);
    }
}
