//! The database and everybody who looks at it.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Weak},
};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use query::{
    Change, ChangeKind, CollectionId, Database, Dynamic, Find, Key, Published, Query, QueryId,
    Record, Row, Schema, Tick, TransactionId, View,
};
use sys::{Cancellation, Canceller, Sys};
use tokio::sync::{Notify, watch};

use crate::{
    changes::{Changes, Dated, Pending, Ticked},
    collection::Collection,
    effect::EffectBuilder,
    error::DbError,
    live_query::LiveQuery,
    panic::caught,
    row_ref::RowRef,
    source::{self, Demand, Demands, Loading, Sink, Source},
    status::Status,
    transaction::{OpenTransaction, Transaction, Writer, Writes},
};

/// Collections, and queries over them. Cheap to clone: all clones are one database.
#[derive(Clone)]
pub struct Db {
    shared: Arc<Shared>,
}

struct Shared {
    sys: Sys,
    /// The one writer of all collections that live here alone.
    local: Arc<dyn Writer>,
    /// Held for moments, never across an await.
    inner: Mutex<Inner>,
    /// Dropped with the database, which tells its sources to stop.
    canceller: Canceller,
}

/// A database that this does not keep.
#[derive(Clone)]
pub(crate) struct WeakDb(Weak<Shared>);

impl WeakDb {
    pub(crate) fn upgrade(&self) -> Option<Db> {
        self.0.upgrade().map(|shared| Db { shared })
    }
}

#[derive(Default)]
struct Inner {
    database: Database,
    pending: HashMap<QueryId, Arc<Pending>, FixedState>,
    tables: HashMap<CollectionId, Table, FixedState>,
    /// What each query has had loaded; empty while no source loads on demand.
    holds: HashMap<QueryId, Holds, FixedState>,
    is_any_on_demand: bool,
    /// Transactions that are only shown: nobody was told to make them last.
    shown: HashSet<TransactionId, FixedState>,
}

/// The subsets that a query has had loaded.
#[derive(Default)]
struct Holds {
    subsets: Vec<(CollectionId, Arc<str>)>,
    window: Option<Window>,
}

/// A query that shows the first rows of a subset that has just as many: when one leaves, the next
/// must be asked for.
struct Window {
    limit: usize,
    count: usize,
    /// Whether that was done since it was full.
    is_asked: bool,
}

/// What belongs to a collection beside its rows.
struct Table {
    status: watch::Sender<Status>,
    writer: Option<Arc<dyn Writer>>,
    /// What is wanted of a source that loads on demand.
    demands: Option<Demands>,
}

impl Db {
    /// An empty database.
    #[must_use]
    pub fn new(sys: &Sys) -> Self {
        let inner = Mutex::new(Inner::default());
        let local = Arc::new(source::Local);
        let (canceller, _) = Cancellation::new();
        Self { shared: Arc::new(Shared { sys: sys.clone(), local, inner, canceller }) }
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

    /// Adds a collection whose rows are data, with a schema that is known at run time. It lives
    /// here alone.
    ///
    /// # Errors
    /// If there is a collection of this name.
    pub fn local_dynamic(
        &self,
        name: &str,
        schema: Schema,
    ) -> Result<Collection<Dynamic>, DbError> {
        let writer = Some(self.shared.local.clone());
        let id = self.add(name, schema, writer, Status::Ready)?;
        Ok(Collection::new(self.clone(), id))
    }

    /// Adds a collection that a source feeds, from now on.
    ///
    /// # Errors
    /// If there is a collection of this name.
    pub fn collection<R: Row>(&self, source: impl Source) -> Result<Collection<R>, DbError> {
        self.fed(R::NAME, R::schema(), source)
    }

    /// Adds a collection that a source feeds with rows that are data.
    ///
    /// # Errors
    /// If there is a collection of this name.
    pub fn dynamic(
        &self,
        name: &str,
        schema: Schema,
        source: impl Source,
    ) -> Result<Collection<Dynamic>, DbError> {
        self.fed(name, schema, source)
    }

    fn fed<R: 'static>(
        &self,
        name: &str,
        schema: Schema,
        source: impl Source,
    ) -> Result<Collection<R>, DbError> {
        let (writer, loading) = (source.writer(), source.loading());
        let (status, demands) = match (source.is_lazy(), loading) {
            (true, _) => (Status::Idle, Some(Demands::whole())),
            (false, Loading::OnDemand) => (Status::Loading, Some(Demands::default())),
            (false, Loading::Everything) => (Status::Loading, None),
        };
        let has_demands = demands.is_some();
        let table = Table { status: watch::Sender::new(status), writer, demands };
        let id = self.add_table(name, schema, table)?;
        let (sink, cancellation) = (Sink::new(self, id), self.shared.canceller.cancellation());
        let db = self.downgrade();
        self.sys().spawn.task("source of a collection", async move {
            let outcome = tokio::select! {
                biased;
                () = cancellation.cancelled() => return,
                outcome = caught(source.run(sink.clone())) => outcome,
            };
            let why = match outcome {
                Ok(Ok(())) if has_demands => "the source has ended; nothing is loaded".into(),
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.0,
                Err(panic) => panic.to_string(),
            };
            if let Some(db) = db.upgrade() {
                db.end_source(id, &Status::Error(why.into()));
            }
        });
        Ok(Collection::new(self.clone(), id))
    }

    /// Answers a query once, with the rows there are.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn once<R: 'static>(&self, query: Find<R>) -> Result<Vec<RowRef<R>>, DbError> {
        let query: Query = query.into();
        let mut inner = self.shared.inner.lock();
        inner.database.check_rows::<R>(&query)?;
        let rows = inner.database.once(&query)?;
        Ok(rows.into_iter().map(RowRef::new).collect())
    }

    /// The first row of a query, once.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn first<R: 'static>(&self, query: Find<R>) -> Result<Option<RowRef<R>>, DbError> {
        Ok(self.once(query.limit(1))?.pop())
    }

    /// Answers a query once, when all rows it asks for are there.
    ///
    /// # Errors
    /// If the query cannot be run, or a source has given up.
    pub async fn once_ready<R: 'static>(&self, query: Find<R>) -> Result<Vec<RowRef<R>>, DbError> {
        let live = self.live(query)?;
        live.ready().await?;
        Ok(live.rows())
    }

    /// Answers a query for as long as the answer is kept.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn live<R: 'static>(&self, query: Find<R>) -> Result<LiveQuery<R>, DbError> {
        let query: Query = query.into();
        let id = {
            let mut inner = self.shared.inner.lock();
            inner.database.check_rows::<R>(&query)?;
            let id = inner.database.live(&query)?;
            let count = inner.database.result_len(id);
            inner.hold(id, &query, count)?;
            id
        };
        Ok(LiveQuery::new(self.clone(), id, query))
    }

    /// Tells what changes in a query, beginning with the rows it has.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn changes<R: 'static>(&self, query: Find<R>) -> Result<Changes<R>, DbError> {
        let query: Query = query.into();
        self.look(|database| database.check_rows::<R>(&query))?;
        let (query, pending) = self.watch(&query)?;
        Ok(Changes { db: self.clone(), query, pending, row: PhantomData })
    }

    /// Gives a query a name, by which others may have it as a source, as they have a collection.
    ///
    /// # Errors
    /// If the name is taken, the query cannot be run, or it needs itself; then nothing is defined.
    pub fn define<R>(&self, name: &str, query: Find<R>) -> Result<(), DbError> {
        Ok(self.shared.inner.lock().database.define(name, &query.into())?)
    }

    /// Gives several queries their names at once, so that each may have any other as a source.
    ///
    /// # Errors
    /// If a name is taken, a query cannot be run, or some need each other; then none is defined.
    pub fn define_all<'a>(
        &self,
        queries: impl IntoIterator<Item = (&'a str, Query)>,
    ) -> Result<(), DbError> {
        Ok(self.shared.inner.lock().database.define_all(queries)?)
    }

    /// Forgets a name. Queries that run already go on.
    ///
    /// # Errors
    /// If nothing is defined by it, or another definition needs it.
    pub fn undefine(&self, name: &str) -> Result<(), DbError> {
        Ok(self.shared.inner.lock().database.undefine(name)?)
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

    /// Sets what each live query may remember, in bytes, roughly. One that outgrows it is stopped
    /// ([`LiveQuery::failure`]), and all others go on.
    pub fn bound_queries(&self, bytes_max: usize) {
        self.shared.inner.lock().database.bound_queries(bytes_max);
    }

    /// Where it has time, chance and tasks from.
    #[must_use]
    pub fn sys(&self) -> &Sys {
        &self.shared.sys
    }

    pub(crate) fn add(
        &self,
        name: &str,
        schema: Schema,
        writer: Option<Arc<dyn Writer>>,
        status: Status,
    ) -> Result<CollectionId, DbError> {
        let status = watch::Sender::new(status);
        self.add_table(name, schema, Table { status, writer, demands: None })
    }

    fn add_table(&self, name: &str, schema: Schema, table: Table) -> Result<CollectionId, DbError> {
        let mut inner = self.shared.inner.lock();
        let id = inner.database.collection(name, schema);
        let id = id.map_err(|_| DbError::DuplicateCollection { name: name.into() })?;
        inner.is_any_on_demand |= table.demands.is_some();
        inner.tables.insert(id, table);
        Ok(id)
    }

    /// The source of a collection is gone.
    fn end_source(&self, id: CollectionId, status: &Status) {
        if let Some(table) = self.shared.inner.lock().tables.get_mut(&id) {
            table.demands.iter_mut().for_each(|demands| demands.end(status));
            table.status.send_replace(status.clone());
        }
    }

    pub(crate) fn find(&self, name: &str) -> Result<CollectionId, DbError> {
        let found = self.shared.inner.lock().database.find(name);
        found.ok_or_else(|| DbError::UnknownCollection { name: name.into() })
    }

    pub(crate) fn watch(&self, query: &Query) -> Result<(QueryId, Arc<Pending>), DbError> {
        let mut inner = self.shared.inner.lock();
        let (id, rows) = inner.database.watch(query)?;
        inner.hold(id, query, rows.len())?;
        let pending = Arc::new(Pending::default());
        pending.push(rows.into_iter().map(|change| Dated::new(change, None)));
        inner.pending.insert(id, pending.clone());
        Ok((id, pending))
    }

    pub(crate) fn drop_query(&self, id: QueryId) {
        let mut inner = self.shared.inner.lock();
        inner.forget(id);
    }

    pub(crate) fn downgrade(&self) -> WeakDb {
        WeakDb(Arc::downgrade(&self.shared))
    }

    /// What a source is to do next, and what tells that there is more.
    pub(crate) fn next_demand(&self, id: CollectionId) -> Option<(Option<Demand>, Arc<Notify>)> {
        let mut inner = self.shared.inner.lock();
        let Table { status, demands, .. } = inner.tables.get_mut(&id)?;
        let demands = demands.as_mut()?;
        let next = demands.next();
        if let Some(Demand::Load(_)) = next {
            status.send_if_modified(Status::leave_idle);
        }
        Some((next, demands.news()))
    }

    /// Asks for all rows of a collection whose source is lazy, for as long as the answer is kept.
    pub(crate) fn ask(&self, id: CollectionId) -> Option<Asking> {
        let mut inner = self.shared.inner.lock();
        let name = inner.database.name(id).to_owned();
        let demands = inner.tables.get_mut(&id)?.demands.as_mut()?;
        let subset = demands.hold_whole(&name)?;
        Some(Asking { db: self.clone(), id, subset })
    }

    /// How everything that a query asks for is doing.
    pub(crate) fn statuses(&self, id: QueryId, query: &Query) -> Vec<watch::Receiver<Status>> {
        let inner = self.shared.inner.lock();
        let asked = inner.database.subsets(query).into_iter();
        let asked = asked.filter_map(|(name, _)| inner.database.find(&name));
        let tables = asked.filter_map(|id| Some(inner.tables.get(&id)?.status.subscribe()));
        let holds = inner.holds.get(&id).map(|holds| holds.subsets.as_slice()).unwrap_or_default();
        let subsets = holds
            .iter()
            .filter_map(|(id, name)| inner.tables.get(id)?.demands.as_ref()?.status(name));
        // A lazy source says of the collection how a load went, before it says that it is done.
        subsets.chain(tables).collect()
    }

    /// Why a query was stopped, if it was.
    pub(crate) fn failure(&self, query: QueryId) -> Option<DbError> {
        self.look(|database| database.failure(query).cloned().map(DbError::Query))
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
        inner.tell(published, None);
        Ok(answer)
    }

    /// The same, for a tick of a stream.
    pub(crate) fn change_by<T, E>(
        &self,
        tick: Ticked,
        change: impl FnOnce(&mut Database) -> Result<(T, Published), E>,
    ) -> Result<T, E> {
        let mut inner = self.shared.inner.lock();
        let (answer, published) = change(&mut inner.database)?;
        inner.tell(published, Some(tick));
        Ok(answer)
    }

    pub(crate) fn apply(&self, tick: Tick) -> Result<(), DbError> {
        Ok(self.change(|database| Ok::<_, query::WriteError>(((), database.apply(tick)?)))?)
    }

    /// Begins a transaction that is only shown.
    pub(crate) fn begin_shown(&self) -> TransactionId {
        let mut inner = self.shared.inner.lock();
        let id = inner.database.begin();
        inner.shown.insert(id);
        id
    }

    /// A transaction is not only shown any more: it lasts, or is gone.
    pub(crate) fn forget_shown(&self, id: TransactionId) {
        self.shared.inner.lock().shown.remove(&id);
    }

    /// Looks at what a transaction writes that is made to last from now on, and with it at all
    /// others of which that is so.
    pub(crate) fn commit<T>(
        &self,
        id: TransactionId,
        look: impl FnOnce(&Database, &dyn Fn(TransactionId) -> bool) -> T,
    ) -> T {
        let mut inner = self.shared.inner.lock();
        inner.shown.remove(&id);
        let Inner { database, shown, .. } = &*inner;
        look(database, &|id| !shown.contains(&id))
    }

    /// Makes something for the database that changes nothing anybody sees.
    pub(crate) fn prepare<T>(&self, make: impl FnOnce(&mut Database) -> T) -> T {
        make(&mut self.shared.inner.lock().database)
    }

    /// Reads a JSON object as a row of a collection.
    pub(crate) fn record(&self, id: CollectionId, json: &str) -> Result<Record, DbError> {
        Ok(self.prepare(|database| database.record(id, json))?)
    }

    pub(crate) fn row<R>(&self, id: CollectionId, key: &Key) -> Option<RowRef<R>> {
        self.look(|database| database.get(id, key, View::Visible).cloned()).map(RowRef::new)
    }

    pub(crate) fn writer(&self, id: CollectionId) -> Option<Arc<dyn Writer>> {
        self.shared.inner.lock().tables.get(&id)?.writer.clone()
    }

    pub(crate) fn set_status(&self, id: CollectionId, status: Status) {
        if let Some(table) = self.shared.inner.lock().tables.get(&id) {
            if let (Status::Error(_), Some(demands)) = (&status, &table.demands) {
                demands.fail(&status);
            }
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

/// Somebody who waits for the rows of a collection without a query.
pub(crate) struct Asking {
    db: Db,
    id: CollectionId,
    subset: Arc<str>,
}

impl Asking {
    /// How the rows are doing.
    pub(crate) fn status(&self) -> Option<watch::Receiver<Status>> {
        self.db.shared.inner.lock().tables.get(&self.id)?.demands.as_ref()?.status(&self.subset)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.db.shared.inner.lock().release(self.id, &self.subset);
    }
}

impl Inner {
    fn release(&mut self, collection: CollectionId, subset: &str) {
        let table = self.tables.get_mut(&collection);
        if let Some(demands) = table.and_then(|table| table.demands.as_mut()) {
            demands.release(subset);
        }
    }

    fn tell(&mut self, published: Published, tick: Option<Ticked>) {
        for (query, changes) in published.queries {
            if !self.holds.is_empty() {
                self.refill(query, &changes);
            }
            if let Some(pending) = self.pending.get(&query) {
                pending.push(changes.into_iter().map(|change| Dated::new(change, tick)));
            }
        }
        for (query, error) in published.stopped {
            tracing::error!(%error, "a live query is stopped");
            if let Some(pending) = self.pending.get(&query) {
                pending.stop();
            }
        }
    }

    /// Has everything loaded that a query asks for, or forgets the query.
    fn hold(&mut self, id: QueryId, query: &Query, count: usize) -> Result<(), DbError> {
        if !self.is_any_on_demand {
            return Ok(());
        }
        let mut holds = Holds::default();
        for (name, subset) in self.database.subsets(query) {
            let Some(collection) = self.database.find(&name) else { continue };
            let table = self.tables.get_mut(&collection);
            let Some(demands) = table.and_then(|table| table.demands.as_mut()) else { continue };
            if let (Some(_), Some(limit), false) = (subset.limit, query.limit, demands.is_whole()) {
                holds.window = Some(Window { limit, count, is_asked: true });
            }
            let Ok(subset) = demands.hold(&name, subset) else {
                self.holds.insert(id, holds);
                self.forget(id);
                return Err(DbError::TooManySubsets { name: name.to_string() });
            };
            holds.subsets.push((collection, subset));
        }
        self.holds.insert(id, holds);
        Ok(())
    }

    /// Asks for more rows of a window that has lost some.
    fn refill(&mut self, id: QueryId, changes: &[Change]) {
        let Some(Holds { subsets, window: Some(window) }) = self.holds.get_mut(&id) else { return };
        for change in changes {
            match change.kind() {
                ChangeKind::Enter => window.count += 1,
                ChangeKind::Exit => window.count = window.count.saturating_sub(1),
                ChangeKind::Update => {}
            }
        }
        let is_full = window.count >= window.limit;
        if !is_full && !window.is_asked {
            for (collection, subset) in subsets {
                let table = self.tables.get_mut(collection);
                if let Some(demands) = table.and_then(|table| table.demands.as_mut()) {
                    demands.again(subset);
                }
            }
        }
        window.is_asked = !is_full;
    }

    fn forget(&mut self, id: QueryId) {
        self.pending.remove(&id);
        self.database.drop_query(id);
        for (collection, subset) in self.holds.remove(&id).unwrap_or_default().subsets {
            self.release(collection, &subset);
        }
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}
