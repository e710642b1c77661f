//! Where the rows of collections come from.

mod polled;

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use query::{CollectionId, Key, Meta, Record, Row, Tick, TransactionId, View, Write};

pub use self::polled::{Polled, PolledHandle};
use crate::{
    db::{Db, WeakDb},
    error::{DbError, PersistError},
    status::Status,
    transaction::{Evidence, Mode, Writer, Written},
};

/// Feeds a collection for as long as it lives.
pub trait Source: Send + 'static {
    /// Brings rows to the sink until there will be no more, or for ever.
    ///
    /// # Errors
    /// If it must give up; the collection shows what it has, and says why there is no more.
    fn run(self, sink: Sink) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// What makes writes to the collection last. Without it the collection cannot be written to.
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "only sources of this crate take writes so far")]
    fn writer(&self) -> Option<Arc<dyn Writer>> {
        None
    }
}

/// A source has given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// Where a source puts rows. It does not keep the database: once nobody has that any more, the
/// source is stopped where it waits.
#[derive(Clone)]
pub struct Sink {
    db: WeakDb,
    id: CollectionId,
}

/// Writes that come into force together.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is committed"]
pub struct Batch {
    writes: Vec<Write>,
}

impl Batch {
    /// A batch without writes.
    pub fn begin() -> Self {
        Self::default()
    }

    /// A row, new or in place of another.
    pub fn put<R: Row>(mut self, row: R) -> Self {
        self.writes.push(Write::Put(Record::typed(row), Meta::default()));
        self
    }

    /// One row less, if it is there.
    pub fn delete(mut self, key: impl Into<Key>) -> Self {
        self.writes.push(Write::Delete(key.into()));
        self
    }

    /// No rows but those that follow in this batch.
    pub fn truncate(mut self) -> Self {
        self.writes = vec![Write::Truncate];
        self
    }
}

impl Sink {
    pub(crate) fn new(db: &Db, id: CollectionId) -> Self {
        Self { db: db.downgrade(), id }
    }

    /// A row as it is synced, whatever lies on it.
    #[must_use]
    pub fn synced<R: Row>(&self, key: &Key) -> Option<R> {
        let db = self.db.upgrade()?;
        db.look(|database| database.get(self.id, key, View::Synced)?.record.as_typed().cloned())
    }

    /// Brings writes into force, all at once.
    ///
    /// # Errors
    /// If one of them cannot be; then none is.
    pub fn commit(&self, batch: Batch) -> Result<(), DbError> {
        // Nobody is left to see it.
        let Some(db) = self.db.upgrade() else { return Ok(()) };
        let writes = batch.writes.into_iter().map(|write| (self.id, write)).collect();
        db.apply(Tick { writes, retires: Vec::new() })
    }

    /// Says that the collection shows all rows there are.
    pub fn ready(&self) {
        self.set_status(Status::Ready);
    }

    /// Says that no more will come, and why.
    pub fn error(&self, error: &SourceError) {
        self.set_status(Status::Error(error.0.as_str().into()));
    }

    fn set_status(&self, status: Status) {
        if let Some(db) = self.db.upgrade() {
            db.set_status(self.id, status);
        }
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The writer of collections that live here alone.
#[derive(Debug)]
pub(crate) struct Local;

impl Writer for Local {
    fn mode(&self) -> Mode {
        Mode::Local
    }

    fn persist(
        &self,
        _: TransactionId,
        _: Vec<Written>,
    ) -> Pin<Box<dyn Future<Output = Result<Evidence, PersistError>> + Send>> {
        Box::pin(std::future::ready(Ok(Evidence::Synced)))
    }
}

/// Makes what a transaction shows the synced state.
pub(crate) fn sync_at_once(db: &Db, id: TransactionId, written: Vec<Written>) {
    let meta = Meta { origin: query::Origin::Local, ..Meta::default() };
    let write = |Written { collection, key, row, .. }: Written| {
        let write = row.map_or(Write::Delete(key), |record| Write::Put(record, meta));
        (collection, write)
    };
    let tick = Tick { writes: written.into_iter().map(write).collect(), retires: vec![id] };
    // The rows were shown, so they fit.
    let applied = db.apply(tick);
    debug_assert!(applied.is_ok(), "{applied:?}");
}
