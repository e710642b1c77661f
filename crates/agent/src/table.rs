//! Where the rows of a role are read, and how they are written.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use live::{Collection, Db, DbError, Find, Key, PersistError, Row, RowRef, from, meta};
use sys::Sys;

use crate::contract::BrokenContract;

/// Rows of one type, for the primitives of this crate. Any collection is one. Where the source of
/// a collection takes no writes (polled rows, a shape of Electric), [`Table::written_by`] says
/// who does. Cheap to clone.
pub struct Table<R> {
    rows: Collection<R>,
    writer: Option<Writer<R>>,
}

/// A write on its way.
pub(crate) type Written = Pin<Box<dyn Future<Output = Result<(), PersistError>> + Send>>;
type Writer<R> = Arc<dyn Fn(Write<R>) -> Written + Send + Sync>;

/// What is to be written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Write<R> {
    /// New rows, all or none.
    Insert(Vec<R>),
    /// Another row in the place of the one that has its key.
    Replace(Box<R>),
    /// Rows less, by key.
    Delete(Vec<Key>),
}

/// A row could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// It was refused; nothing has changed.
    #[error(transparent)]
    Refused(#[from] DbError),
    /// It could not be made to last.
    #[error("a row could not be written: {0}")]
    Lost(#[from] PersistError),
    /// The row is not what its role needs.
    #[error(transparent)]
    Contract(#[from] BrokenContract),
}

impl TableError {
    /// True if the same may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused(error) => error.is_retryable(),
            Self::Lost(error) => error.is_retryable(),
            Self::Contract(_) => false,
        }
    }
}

impl<R: Row> Table<R> {
    /// Rows that are read here and written by this: it comes back when the write lasts. The
    /// collection shows it whenever its source brings it.
    pub fn written_by<F, A>(rows: &Collection<R>, write: F) -> Self
    where
        F: Fn(Write<R>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), PersistError>> + Send + 'static,
    {
        let writer: Writer<R> = Arc::new(move |what| Box::pin(write(what)));
        Self { rows: rows.clone(), writer: Some(writer) }
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &Collection<R> {
        &self.rows
    }

    pub(crate) fn db(&self) -> &Db {
        self.rows.db()
    }

    pub(crate) fn sys(&self) -> &Sys {
        self.db().sys()
    }

    /// The one row of this key, as far as it is confirmed.
    pub(crate) fn by_key(key: &str) -> Find<R> {
        from::<R>().filter(meta(R::NAME, "$key").eq(key)).synced()
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<RowRef<R>>, DbError> {
        Ok(self.db().once(Self::by_key(key))?.pop())
    }

    /// Adds rows, and waits until they last.
    pub(crate) async fn insert(&self, rows: Vec<R>) -> Result<(), TableError> {
        self.write(Write::Insert(rows)).await
    }

    pub(crate) async fn replace(&self, row: R) -> Result<(), TableError> {
        self.write(Write::Replace(Box::new(row))).await
    }

    pub(crate) async fn delete(&self, keys: Vec<Key>) -> Result<(), TableError> {
        self.write(Write::Delete(keys)).await
    }

    /// Whether what is written comes back by another way, and so at another time.
    pub(crate) const fn is_written_elsewhere(&self) -> bool {
        self.writer.is_some()
    }

    async fn write(&self, what: Write<R>) -> Result<(), TableError> {
        Ok(self.begin(what)?.await?)
    }

    /// Begins to write: what is begun first comes first, if the rows are written here.
    pub(crate) fn begin(&self, what: Write<R>) -> Result<Written, TableError> {
        if let Some(writer) = &self.writer {
            return Ok(writer(what));
        }
        let transaction = self.db().transaction(|writes| match what {
            Write::Insert(rows) => rows.into_iter().try_for_each(|row| writes.insert(row)),
            Write::Replace(row) => writes.put(*row),
            Write::Delete(keys) => keys.into_iter().try_for_each(|key| writes.delete::<R>(key)),
        })?;
        Ok(Box::pin(async move { transaction.settled().await }))
    }

    /// Waits until a row is such. `None` if it was there and is not any more.
    pub(crate) async fn wait_for(
        &self,
        key: &str,
        is_such: impl Fn(&R) -> bool,
    ) -> Result<Option<RowRef<R>>, DbError> {
        let shown = self.db().live(Self::by_key(key))?;
        shown.ready().await?;
        let mut changes = shown.changes()?;
        let mut was_there = false;
        loop {
            match shown.first() {
                Some(row) if is_such(&row) => return Ok(Some(row)),
                Some(_) => was_there = true,
                None if was_there => return Ok(None),
                None => {}
            }
            changes.next().await;
        }
    }

    /// The row of this key, once all rows are there that were.
    pub(crate) async fn ready_get(&self, key: &str) -> Result<Option<RowRef<R>>, DbError> {
        Ok(self.db().once_ready(Self::by_key(key)).await?.pop())
    }
}

impl<R> Clone for Table<R> {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), writer: self.writer.clone() }
    }
}

impl<R> From<Collection<R>> for Table<R> {
    fn from(rows: Collection<R>) -> Self {
        Self { rows, writer: None }
    }
}

impl<R> From<&Collection<R>> for Table<R> {
    fn from(rows: &Collection<R>) -> Self {
        rows.clone().into()
    }
}

impl<R> From<&Self> for Table<R> {
    fn from(table: &Self) -> Self {
        table.clone()
    }
}

impl<R> fmt::Debug for Table<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}
