//! Where the rows of collections come from.

mod demand;
mod on_demand;
mod polled;

use std::{fmt, future::Future, sync::Arc};

use query::{CollectionId, Key, Meta, Record, Row, Tick, Write};

pub(crate) use self::demand::Demands;
pub use self::{
    demand::{Demand, Load, Loading},
    on_demand::OnDemand,
    polled::{Polled, PolledHandle},
};
use crate::{
    db::{Db, WeakDb},
    error::DbError,
    row_ref::RowRef,
    status::Status,
    transaction::{Shown, Writer, Written},
};

/// Feeds a collection for as long as it lives.
pub trait Source: Send + 'static {
    /// Brings rows to the sink until there will be no more, or for ever.
    ///
    /// # Errors
    /// If it must give up; the collection shows what it has, and says why there is no more.
    fn run(self, sink: Sink) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// How much it brings. One that loads on demand listens to [`Sink::demand`].
    fn loading(&self) -> Loading {
        Loading::Everything
    }

    /// True if it brings nothing before somebody asks for rows of the collection. It hears of that
    /// by [`Sink::demand`]: one subset of everything, loaded while anybody asks for anything.
    fn is_lazy(&self) -> bool {
        false
    }

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

/// Where a source puts rows.
#[derive(Clone)]
pub struct Sink {
    /// The collection owns its source, so the source must not keep the collection.
    db: WeakDb,
    id: CollectionId,
}

/// Writes that come into force together.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is committed"]
pub struct Batch {
    writes: Vec<BatchWrite>,
}

#[derive(Clone, Debug)]
enum BatchWrite {
    Done(Write),
    /// A row that is data; what its columns are is known to the collection.
    Json(String),
}

impl Batch {
    /// A batch without writes.
    pub fn begin() -> Self {
        Self::default()
    }

    /// A row, new or in place of another.
    pub fn put<R: Row>(mut self, row: R) -> Self {
        self.writes.push(BatchWrite::Done(Write::Put(Record::typed(row), Meta::default())));
        self
    }

    /// A row of a dynamic collection, new or in place of another: a JSON object.
    pub fn put_json(mut self, row: impl Into<String>) -> Self {
        self.writes.push(BatchWrite::Json(row.into()));
        self
    }

    /// One row less, if it is there.
    pub fn delete(mut self, key: impl Into<Key>) -> Self {
        self.writes.push(BatchWrite::Done(Write::Delete(key.into())));
        self
    }

    /// No rows but those that follow in this batch.
    pub fn truncate(mut self) -> Self {
        self.writes = vec![BatchWrite::Done(Write::Truncate)];
        self
    }
}

impl Sink {
    pub(crate) fn new(db: &Db, id: CollectionId) -> Self {
        Self { db: db.downgrade(), id }
    }

    /// Brings writes into force, all at once.
    ///
    /// # Errors
    /// If one of them cannot be; then none is.
    pub fn commit(&self, batch: Batch) -> Result<(), DbError> {
        let db = self.db()?;
        let write = |write| match write {
            BatchWrite::Done(write) => Ok((self.id, write)),
            BatchWrite::Json(row) => {
                let record = db.record(self.id, &row)?;
                Ok((self.id, Write::Put(record, Meta::default())))
            }
        };
        let writes = batch.writes.into_iter().map(write).collect::<Result<_, DbError>>()?;
        db.apply(Tick { writes, retires: Vec::new() })
    }

    /// One row as it was brought, whatever is written on it.
    ///
    /// # Errors
    /// If the database is gone.
    pub fn row<R: Row>(&self, key: impl Into<Key>) -> Result<Option<RowRef<R>>, DbError> {
        let (key, synced) = (key.into(), query::View::Synced);
        let row = self.db()?.look(|database| database.get(self.id, &key, synced).cloned());
        Ok(row.map(RowRef::new))
    }

    /// Waits for what queries ask of a source that loads on demand or is lazy; for ever, of others.
    /// May be dropped while it waits.
    pub async fn demand(&mut self) -> Demand {
        loop {
            let next = self.db.upgrade().and_then(|db| db.next_demand(self.id));
            match next {
                Some((Some(demand), _)) => return demand,
                Some((None, news)) => news.notified().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Says that the collection shows all rows there are, or all that were asked for.
    pub fn ready(&self) {
        self.set(Status::Ready);
    }

    /// Says that no more will come, and why.
    pub fn error(&self, error: &SourceError) {
        self.set(Status::Error(error.0.as_str().into()));
    }

    fn set(&self, status: Status) {
        if let Some(db) = self.db.upgrade() {
            db.set_status(self.id, status);
        }
    }

    fn db(&self) -> Result<Db, DbError> {
        self.db.upgrade().ok_or(DbError::Gone)
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The writer of collections that live here alone: what is shown is synced at once.
#[derive(Debug)]
pub(crate) struct Local;

impl Writer for Local {
    fn persist(&self, shown: Shown, written: Vec<Written>) {
        let meta = Meta { origin: query::Origin::Local, ..Meta::default() };
        let write = |Written { collection, key, row, .. }: Written| {
            let write = row.map_or(Write::Delete(key), |record| Write::Put(record, meta));
            (collection, write)
        };
        let writes = written.into_iter().map(write).collect();
        // The rows were shown, so they fit.
        let applied = shown.db().apply(Tick { writes, retires: vec![shown.id()] });
        debug_assert!(applied.is_ok(), "{applied:?}");
        shown.completed();
    }
}
