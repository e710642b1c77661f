//! Rows as they are handed out.

use std::{fmt, marker::PhantomData, ops::Deref, sync::Arc};

use query::{Dynamic, Entry, Key, Meta, Row, Value};
use serde::de::DeserializeOwned;

/// A row of a collection or a query. Cheap to clone, and it stays what it was when it was read.
pub struct RowRef<R> {
    entry: Arc<Entry>,
    row: PhantomData<fn() -> R>,
}

impl<R> RowRef<R> {
    pub(crate) fn new(entry: Arc<Entry>) -> Self {
        Self { entry, row: PhantomData }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.entry.key
    }

    /// True if nothing that is not confirmed lies on it.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        !self.entry.meta.is_pending
    }

    /// What is known of it beside its columns.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.entry.meta
    }

    /// One column by its name; missing if there is none.
    #[must_use]
    pub fn get(&self, column: &str) -> Value {
        self.entry.record.get(column).into_owned()
    }

    /// The row as data.
    #[must_use]
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl RowRef<Dynamic> {
    /// The row as a `T`.
    ///
    /// # Errors
    /// If it is no `T`; the error says where.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, query::BadValue> {
        Value::Object(Arc::new(self.entry.record.to_tuple())).read()
    }
}

impl<R: Row> Deref for RowRef<R> {
    type Target = R;

    fn deref(&self) -> &R {
        self.entry.record.as_typed().expect("a typed collection holds rows of its type alone")
    }
}

impl<R> Clone for RowRef<R> {
    fn clone(&self) -> Self {
        Self::new(self.entry.clone())
    }
}

impl<R> PartialEq for RowRef<R> {
    fn eq(&self, other: &Self) -> bool {
        self.entry == other.entry
    }
}

impl<R> fmt::Debug for RowRef<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}
