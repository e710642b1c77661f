//! Queries whose answers stay right.

use std::{marker::PhantomData, sync::Arc};

use query::{Footprint, Key, Query, QueryId};

use crate::{changes::Changes, db::Db, error::DbError, row_ref::RowRef, status::settled};

/// The rows of a query, as they are now. It is kept up to date until it is dropped.
#[derive(Debug)]
pub struct LiveQuery<R> {
    db: Db,
    id: QueryId,
    query: Query,
    row: PhantomData<fn() -> R>,
}

impl<R> LiveQuery<R> {
    pub(crate) fn new(db: Db, id: QueryId, query: Query) -> Self {
        Self { db, id, query, row: PhantomData }
    }

    /// All rows, in their order.
    #[must_use]
    pub fn rows(&self) -> Vec<RowRef<R>> {
        self.db.look(|database| database.result(self.id).cloned().map(RowRef::new).collect())
    }

    /// One row.
    #[must_use]
    pub fn get(&self, key: impl Into<Key>) -> Option<RowRef<R>> {
        let key = key.into();
        self.db.look(|database| database.result_get(self.id, &key).map(Arc::clone)).map(RowRef::new)
    }

    /// The first row.
    #[must_use]
    pub fn first(&self) -> Option<RowRef<R>> {
        self.db.look(|database| database.result(self.id).next().cloned()).map(RowRef::new)
    }

    /// How many rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.db.look(|database| database.result_len(self.id))
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until it shows all rows there are: every collection it asks is ready, and what it
    /// asks of those that load on demand has come.
    ///
    /// # Errors
    /// What a source says, if it has given up; why the query was stopped, if it was.
    pub async fn ready(&self) -> Result<(), DbError> {
        for status in self.db.statuses(self.id, &self.query) {
            settled(status).await?;
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// Why it was stopped, if it was: it remembered more than it may ([`Db::bound_queries`]). It
    /// has no rows then; all others go on.
    #[must_use]
    pub fn failure(&self) -> Option<DbError> {
        self.db.failure(self.id)
    }

    /// How it is kept up to date, for people.
    #[must_use]
    pub fn explain(&self) -> String {
        self.db.look(|database| database.explain(self.id).to_owned())
    }

    /// What it remembers.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.db.look(|database| database.footprint(self.id))
    }

    /// Tells what changes, beginning with the rows there are.
    ///
    /// # Errors
    /// Never, as the query is known to run; the signature is that of [`Db::changes`].
    pub fn changes(&self) -> Result<Changes<R>, DbError> {
        let (query, pending) = self.db.watch(&self.query)?;
        Ok(Changes { db: self.db.clone(), query, pending, row: PhantomData })
    }
}

impl<R> Drop for LiveQuery<R> {
    fn drop(&mut self) {
        self.db.drop_query(self.id);
    }
}
