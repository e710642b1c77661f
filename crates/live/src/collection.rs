//! Typed collections.

use std::marker::PhantomData;

use query::{CollectionId, Dynamic, Key, Row, View};
use smol_str::SmolStr;

use crate::{
    changes::Changes,
    db::{Asking, Db},
    error::DbError,
    row_ref::RowRef,
    status::{Status, settled},
    transaction::Transaction,
};

/// Rows of one type. Cheap to clone: all clones are one collection.
#[derive(Debug)]
pub struct Collection<R> {
    db: Db,
    id: CollectionId,
    row: PhantomData<fn() -> R>,
}

impl<R> Clone for Collection<R> {
    fn clone(&self) -> Self {
        Self { db: self.db.clone(), id: self.id, row: PhantomData }
    }
}

impl<R: 'static> Collection<R> {
    pub(crate) fn new(db: Db, id: CollectionId) -> Self {
        Self { db, id, row: PhantomData }
    }

    /// The database that it is part of.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> SmolStr {
        self.db.look(|database| database.name(self.id).into())
    }

    /// One row, as the user sees it.
    #[must_use]
    pub fn get(&self, key: impl Into<Key>) -> Option<RowRef<R>> {
        self.db.row(self.id, &key.into())
    }

    /// All rows, in the order of their keys.
    #[must_use]
    pub fn rows(&self) -> Vec<RowRef<R>> {
        self.db.look(|database| {
            database.rows(self.id, View::Visible).cloned().map(RowRef::new).collect()
        })
    }

    /// How many rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.db.look(|database| database.len(self.id, View::Visible))
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Changes some columns of a row, given as a JSON object.
    ///
    /// # Errors
    /// If there is no such row, a column is none of its, a value does not fit, or its key would
    /// change; nothing has changed then.
    pub fn patch(
        &self,
        key: impl Into<Key>,
        columns: serde_json::Value,
    ) -> Result<Transaction, DbError> {
        self.db.transaction(|writes| writes.patch_in(self.id, key.into(), columns))
    }

    /// Removes a row.
    ///
    /// # Errors
    /// If there is no such row.
    pub fn delete(&self, key: impl Into<Key>) -> Result<Transaction, DbError> {
        self.db.transaction(|writes| {
            writes.delete_in(self.id, key.into());
            Ok(())
        })
    }

    /// Tells what changes, beginning with the rows there are.
    ///
    /// # Errors
    /// Never, as a query of all rows can be run; the signature is that of [`Db::changes`].
    pub fn changes(&self) -> Result<Changes<R>, DbError> {
        let name = self.name();
        self.db.changes(query::from_as(&name, &name))
    }

    /// How its source is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.db.status(self.id).borrow().clone()
    }

    /// Waits until it shows all rows there are. To wait is to ask for them.
    ///
    /// # Errors
    /// What its source says, if it has given up.
    pub async fn ready(&self) -> Result<(), SourceFailed> {
        let asking = self.db.ask(self.id);
        if let Some(status) = asking.as_ref().and_then(Asking::status) {
            settled(status).await?;
        }
        settled(self.db.status(self.id)).await
    }
}

impl<R: Row> Collection<R> {
    /// Adds a row.
    ///
    /// # Errors
    /// If there is a row of its key; nothing has changed then.
    pub fn insert(&self, row: R) -> Result<Transaction, DbError> {
        self.db.transaction(|writes| writes.insert(row))
    }

    /// Adds a row, or puts it in the place of the one that has its key.
    ///
    /// # Errors
    /// If it cannot be written; nothing has changed then.
    pub fn put(&self, row: R) -> Result<Transaction, DbError> {
        self.db.transaction(|writes| writes.put(row))
    }

    /// Changes a row. Only what differs afterwards is written, so what others do to other columns
    /// meanwhile shows through.
    ///
    /// # Errors
    /// If there is no such row, or its key would change; nothing has changed then.
    pub fn update(
        &self,
        key: impl Into<Key>,
        change: impl FnOnce(&mut R),
    ) -> Result<Transaction, DbError> {
        self.db.transaction(|writes| writes.update(key, change))
    }
}

impl Collection<Dynamic> {
    /// Adds a row that is a JSON object.
    ///
    /// # Errors
    /// If it is no object, does not fit the schema, or there is a row of its key; nothing has
    /// changed then.
    pub fn insert_json(&self, row: &serde_json::Value) -> Result<Transaction, DbError> {
        self.db.transaction(|writes| writes.insert_json_in(self.id, row))
    }
}

/// The source of a collection has given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the source of the collection has given up: {0}")]
pub struct SourceFailed(pub String);
