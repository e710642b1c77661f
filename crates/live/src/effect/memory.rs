//! Effects that begin with the rows that match now, each time they are started.

use std::sync::Arc;

use query::{Query, QueryId};
use smol_str::{SmolStr, format_smolstr};

use super::{Event, acker::AckerHandle, driver::Feed};
use crate::{
    changes::{Dated, Pending},
    db::Db,
    error::DbError,
};

/// The changes of a query as events. What comes while handlers are slow is merged by row, so it
/// is never more than the rows that differ.
pub(super) struct Memory {
    db: Db,
    query: QueryId,
    pending: Arc<Pending>,
    /// Names the events that no stream has a position for, in this life alone.
    here: SmolStr,
    count: u64,
}

impl Memory {
    pub(super) fn new(db: Db, query: &Query, skips_initial: bool) -> Result<Self, DbError> {
        let (query, pending) = db.watch(query)?;
        if skips_initial {
            pending.take();
        }
        let here = format_smolstr!("~{:016x}", db.sys().chance.u64());
        Ok(Self { db, query, pending, here, count: 0 })
    }
}

impl<R: Send + 'static> Feed<R> for Memory {
    async fn next(&mut self) -> Option<Vec<Event<R>>> {
        let changes = self.pending.next().await?;
        self.count += 1;
        let event = |Dated { change, position }| match position {
            Some(position) => Event::new(&SmolStr::default(), position..position + 1, change),
            None => Event::new(&self.here, self.count..self.count + 1, change),
        };
        Some(changes.into_iter().map(event).collect())
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
