//! The database and everybody who looks at it.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Weak},
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use query::{
    Change, CollectionId, Database, Find, Key, Published, Query, QueryId, Row, Schema, Tick, View,
};
use sys::Sys;
use tokio::sync::watch;

use crate::{
    cancel::{Cancellation, Canceller},
    changes::{Changes, Pending},
    collection::Collection,
    effect::EffectBuilder,
    error::DbError,
    live_query::LiveQuery,
    row_ref::RowRef,
    source::{self, Sink, Source},
    status::Status,
    transaction::{OpenTransaction, Transaction, Writer, Writes},
};

/// Collections, and queries over them. Cheap to clone: all clones are one database.
#[derive(Clone)]
pub struct Db {
    shared: Arc<Shared>,
}

/// A database that may be gone.
#[derive(Clone)]
pub(crate) struct WeakDb(Weak<Shared>);

struct Shared {
    sys: Sys,
    /// Tells sources when the database is gone, which is when this is.
    _gone: Canceller,
    /// What they listen to.
    going: Cancellation,
    /// The one writer of all collections that live here alone.
    local: Arc<dyn Writer>,
    /// Held for moments, never across an await.
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    database: Database,
    pending: HashMap<QueryId, Arc<Pending>, FixedState>,
    tables: HashMap<CollectionId, Table, FixedState>,
}

/// What belongs to a collection beside its rows.
struct Table {
    status: watch::Sender<Status>,
    writer: Option<Arc<dyn Writer>>,
}

impl Db {
    /// An empty database.
    #[must_use]
    pub fn new(sys: &Sys) -> Self {
        let inner = Mutex::new(Inner::default());
        let local = Arc::new(source::Local);
        let (_gone, going) = Cancellation::new();
        Self { shared: Arc::new(Shared { sys: sys.clone(), _gone, going, local, inner }) }
    }

    /// Adds a collection that lives here alone: what is written is synced at once.
    ///
    /// # Errors
    /// If there is a collection of this name.
    pub fn local<R: Row>(&self) -> Result<Collection<R>, DbError> {
        let writer = Some(self.shared.local.clone());
        let id = self.add(R::NAME, R::schema(), writer, Status::Ready)?;
        Ok(Collection::new(self.clone(), id))
    }

    /// Adds a collection that a source feeds, from now on and for as long as somebody has the
    /// database or a part of it.
    ///
    /// # Errors
    /// If there is a collection of this name.
    pub fn collection<R: Row>(&self, source: impl Source) -> Result<Collection<R>, DbError> {
        let writer = source.writer();
        let id = self.add(R::NAME, R::schema(), writer, Status::Loading)?;
        let collection = Collection::new(self.clone(), id);
        let (sink, going) = (Sink::new(self, id), self.shared.going.clone());
        self.sys().spawn.task("source of a collection", async move {
            tokio::select! {
                biased;
                () = going.cancelled() => {}
                ended = source.run(sink.clone()) => {
                    if let Err(error) = ended {
                        sink.error(&error);
                    }
                }
            }
        });
        Ok(collection)
    }

    /// Answers a query once.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn once<R>(&self, query: Find<R>) -> Result<Vec<RowRef<R>>, DbError> {
        let rows = self.shared.inner.lock().database.once(&query.into())?;
        Ok(rows.into_iter().map(RowRef::new).collect())
    }

    /// Answers a query for as long as the answer is kept.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn live<R>(&self, query: Find<R>) -> Result<LiveQuery<R>, DbError> {
        let query: Query = query.into();
        let id = self.shared.inner.lock().database.live(&query)?;
        Ok(LiveQuery::new(self.clone(), id, query))
    }

    /// Tells what changes in a query, beginning with the rows it has.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn changes<R>(&self, query: Find<R>) -> Result<Changes<R>, DbError> {
        let (query, pending) = self.watch(&query.into())?;
        Ok(Changes { db: self.clone(), query, pending, row: PhantomData })
    }

    /// Runs code when rows enter, change in or leave a query.
    pub fn effect<R: Send + 'static>(&self, query: Find<R>) -> EffectBuilder<R> {
        EffectBuilder::new(self.clone(), query.into())
    }

    /// Writes to several collections at once. What is written is shown at once and made to last
    /// in the background; the transaction tells how that goes.
    ///
    /// # Errors
    /// If one of the writes cannot be; then none is.
    pub fn transaction(
        &self,
        write: impl FnOnce(&mut Writes) -> Result<(), DbError>,
    ) -> Result<Transaction, DbError> {
        let mut writes = Writes::new(self.clone());
        write(&mut writes)?;
        writes.run()
    }

    /// Opens a transaction whose writes are shown one by one, before it is committed or taken
    /// back.
    pub fn begin(&self) -> OpenTransaction {
        OpenTransaction::new(self.clone())
    }

    pub(crate) fn downgrade(&self) -> WeakDb {
        WeakDb(Arc::downgrade(&self.shared))
    }

    pub(crate) fn sys(&self) -> &Sys {
        &self.shared.sys
    }

    pub(crate) fn add(
        &self,
        name: &str,
        schema: Schema,
        writer: Option<Arc<dyn Writer>>,
        status: Status,
    ) -> Result<CollectionId, DbError> {
        let mut inner = self.shared.inner.lock();
        let id = inner.database.collection(name, schema);
        let id = id.map_err(|_| DbError::DuplicateCollection { name: name.into() })?;
        inner.tables.insert(id, Table { status: watch::Sender::new(status), writer });
        Ok(id)
    }

    pub(crate) fn find(&self, name: &str) -> Result<CollectionId, DbError> {
        let found = self.shared.inner.lock().database.find(name);
        found.ok_or_else(|| DbError::UnknownCollection { name: name.into() })
    }

    pub(crate) fn watch(&self, query: &Query) -> Result<(QueryId, Arc<Pending>), DbError> {
        let mut inner = self.shared.inner.lock();
        let (id, rows) = inner.database.watch(query)?;
        let pending = Arc::new(Pending::default());
        pending.push(rows);
        inner.pending.insert(id, pending.clone());
        Ok((id, pending))
    }

    pub(crate) fn drop_query(&self, id: QueryId) {
        let mut inner = self.shared.inner.lock();
        inner.pending.remove(&id);
        inner.database.drop_query(id);
    }

    /// Looks at the database for a moment.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Database) -> T) -> T {
        look(&self.shared.inner.lock().database)
    }

    /// Changes the database, and tells everybody.
    pub(crate) fn change<T, E>(
        &self,
        change: impl FnOnce(&mut Database) -> Result<(T, Published), E>,
    ) -> Result<T, E> {
        let mut inner = self.shared.inner.lock();
        let (answer, published) = change(&mut inner.database)?;
        inner.tell(published);
        Ok(answer)
    }

    pub(crate) fn apply(&self, tick: Tick) -> Result<(), DbError> {
        Ok(self.change(|database| Ok::<_, query::WriteError>(((), database.apply(tick)?)))?)
    }

    pub(crate) fn row<R>(&self, id: CollectionId, key: &Key) -> Option<RowRef<R>> {
        self.look(|database| database.get(id, key, View::Visible).cloned()).map(RowRef::new)
    }

    pub(crate) fn writer(&self, id: CollectionId) -> Option<Arc<dyn Writer>> {
        self.shared.inner.lock().tables.get(&id)?.writer.clone()
    }

    pub(crate) fn set_status(&self, id: CollectionId, status: Status) {
        if let Some(table) = self.shared.inner.lock().tables.get(&id) {
            table.status.send_replace(status);
        }
    }

    pub(crate) fn status(&self, id: CollectionId) -> watch::Receiver<Status> {
        let inner = self.shared.inner.lock();
        match inner.tables.get(&id) {
            Some(table) => table.status.subscribe(),
            None => watch::channel(Status::Idle).1,
        }
    }
}

impl WeakDb {
    pub(crate) fn upgrade(&self) -> Option<Db> {
        self.0.upgrade().map(|shared| Db { shared })
    }
}

impl Inner {
    fn tell(&mut self, published: Published) {
        for (query, changes) in published.queries {
            self.tell_one(query, changes);
        }
    }

    fn tell_one(&mut self, query: QueryId, changes: Vec<Change>) {
        if let Some(pending) = self.pending.get(&query) {
            pending.push(changes);
        }
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}
