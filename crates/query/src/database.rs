//! The database: collections, the queries that watch them, and one way for anything to change.

use std::{mem, ops::ControlFlow, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::{
    Semantics,
    caps::{QUERY_BYTES_MAX, WEIGHED_ROWS_MIN},
    catalog::{Catalog, CollectionId, Schema},
    dispatch::{Dispatch, Hit, Listener},
    engine::{self, Change, Feed, Plan, Rows, Shown, Watch},
    error::{QueryError, WriteError},
    ir::{Query, View},
    record::{Entry, Key, Record},
    store::{Purpose, Store},
    suggest::short,
    tick::{Touched, key_of},
    transaction::{Open, TransactionId},
    value::Value,
};

/// Collections and live queries over them.
///
/// It never awaits and never calls anybody: every change answers with what it came to, query by
/// query.
#[derive(Debug)]
pub struct Database {
    pub(crate) catalog: Catalog,
    pub(crate) stores: Vec<Store>,
    dispatches: Vec<[Dispatch; 2]>,
    queries: Vec<Option<Running>>,
    vacant: Vec<usize>,
    last_query: u64,
    pub(crate) transactions: HashMap<TransactionId, Open, FixedState>,
    pub(crate) last_transaction: u64,
    pub(crate) pending: usize,
    pub(crate) semantics: Semantics,
    query_bytes_max: usize,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            catalog: Catalog::default(),
            stores: Vec::new(),
            dispatches: Vec::new(),
            queries: Vec::new(),
            vacant: Vec::new(),
            last_query: 0,
            transactions: HashMap::default(),
            last_transaction: 0,
            pending: 0,
            semantics: Semantics::default(),
            query_bytes_max: QUERY_BYTES_MAX,
        }
    }
}

/// A query that is kept up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId {
    index: usize,
    /// Tells queries apart that had one place after the other.
    life: u64,
}

#[derive(Debug)]
struct Running {
    life: u64,
    /// As JSON, for people.
    query: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Works(Box<Work>),
    /// It came to its bound. Nobody feeds it any more.
    Stopped(QueryError),
}

/// What keeps a query up to date.
#[derive(Debug)]
struct Work {
    plan: Plan,
    /// Leaves that read an index again and again, which is kept for them.
    holds: Vec<usize>,
    /// Its rows, if somebody wants to read them.
    shown: Option<Shown>,
    /// How many rows may change before it is weighed again.
    changes_left: usize,
}

impl Work {
    fn rows(&self) -> usize {
        self.plan.heap_rows() + self.shown.as_ref().map_or(0, Shown::len)
    }

    fn bytes(&self) -> usize {
        let shown = self.shown.as_ref().map_or(0, |shown| self.plan.shown_bytes(shown));
        self.plan.heap_bytes() + shown
    }

    /// Takes note that so many rows have changed. Weighing takes as long as there are rows, so it
    /// is done when as many have changed: a query may outgrow its bound by what these have brought.
    ///
    /// # Errors
    /// If it remembers more than it may.
    fn weigh(&mut self, changes: usize, query: &str, bytes_max: usize) -> Result<(), QueryError> {
        if self.plan.is_overrun() {
            return Err(QueryError::JoinTooLarge { query: query.into() });
        }
        self.changes_left = self.changes_left.saturating_sub(changes);
        if self.changes_left > 0 {
            return Ok(());
        }
        self.changes_left = self.rows().max(WEIGHED_ROWS_MIN);
        let bytes = self.bytes();
        if bytes > bytes_max {
            return Err(QueryError::Outgrown { query: query.into(), bytes, bytes_max });
        }
        Ok(())
    }
}

/// What a change of the database came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// For every query whose rows changed, which did.
    pub queries: Vec<(QueryId, Vec<Change>)>,
    /// For every collection with rows that look different now, which do.
    pub collections: Vec<(CollectionId, Vec<Change>)>,
    /// Every query that came to its bound and was stopped: it has no rows from now on. All others
    /// go on.
    pub stopped: Vec<(QueryId, QueryError)>,
}

impl Database {
    /// An empty database.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty database with semantics other than those of SQL.
    #[must_use]
    pub fn with_semantics(semantics: Semantics) -> Self {
        Self { semantics, ..Self::default() }
    }

    /// Sets what each live query may remember, in bytes, roughly; [`QUERY_BYTES_MAX`] if nothing is
    /// said. Queries that run already come to it when they are weighed next.
    pub fn bound_queries(&mut self, bytes_max: usize) {
        self.query_bytes_max = bytes_max;
    }

    /// Adds a collection.
    ///
    /// # Errors
    /// If there is one of this name, or a query is defined by it.
    pub fn collection(
        &mut self,
        name: &str,
        schema: Schema,
    ) -> Result<CollectionId, DuplicateName> {
        if self.catalog.find(name).is_some() || self.definition(name).is_some() {
            return Err(DuplicateName(name.into()));
        }
        self.stores.push(Store::default());
        self.dispatches.push(Default::default());
        Ok(self.catalog.add(name, schema))
    }

    /// The collection of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<CollectionId> {
        self.catalog.find(name)
    }

    /// The name of a collection.
    #[must_use]
    pub fn name(&self, collection: CollectionId) -> &str {
        self.catalog.name(collection)
    }

    /// The schema of a collection.
    #[must_use]
    pub fn schema(&self, collection: CollectionId) -> &Schema {
        self.catalog.schema(collection)
    }

    /// One row of a collection.
    #[must_use]
    pub fn get(&self, collection: CollectionId, key: &Key, view: View) -> Option<&Arc<Entry>> {
        self.stores[collection.0].get(key, view)
    }

    /// One row of a collection, as it is with the writes of some transactions alone.
    #[must_use]
    pub fn row_with(
        &self,
        collection: CollectionId,
        key: &Key,
        is_on: &dyn Fn(TransactionId) -> bool,
    ) -> Option<Record> {
        self.stores[collection.0].partly(key, is_on)
    }

    /// The rows of a collection, in the order of their keys.
    pub fn rows(&self, collection: CollectionId, view: View) -> impl Iterator<Item = &Arc<Entry>> {
        self.stores[collection.0].iter(view)
    }

    /// How many rows a collection has.
    #[must_use]
    pub fn len(&self, collection: CollectionId, view: View) -> usize {
        self.stores[collection.0].len(view)
    }

    /// Reads a JSON object as a record of a collection.
    ///
    /// # Errors
    /// If it is no object, or has more columns than a collection may have.
    pub fn record(&mut self, collection: CollectionId, json: &str) -> Result<Record, WriteError> {
        let shape = self.catalog.shape_mut(collection);
        let before = shape.clone();
        crate::value::parse_tuple(json, shape).map(Record::Tuple).map_err(|error| {
            // The columns it had must not take the place of others.
            *self.catalog.shape_mut(collection) = before;
            WriteError::NotARow {
                collection: self.catalog.name(collection).clone(),
                why: error.to_string(),
            }
        })
    }

    /// Says whether a record could be a row of a collection.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, collection: CollectionId, record: &Record) -> Result<Key, WriteError> {
        key_of(&self.catalog, collection, record)
    }

    /// Answers a query once.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn once(&mut self, query: &Query) -> Result<Vec<Arc<Entry>>, QueryError> {
        let mut plan = engine::compile(query, &mut self.catalog, self.semantics)?;
        let outs = self.hydrate(&mut plan, Purpose::Once);
        if plan.is_overrun() {
            return Err(QueryError::JoinTooLarge { query: short(query.to_json()) });
        }
        let mut shown = shown_for(&plan);
        shown.apply(&outs);
        Ok(shown.iter().cloned().collect())
    }

    /// Begins to keep the rows of a query up to date.
    ///
    /// # Errors
    /// If the query cannot be run, or remembers more than it may.
    pub fn live(&mut self, query: &Query) -> Result<QueryId, QueryError> {
        Ok(self.start(query, Wants::Rows)?.0)
    }

    /// Begins to tell the changes of a query without keeping its rows. Answers the rows it has
    /// now, as changes that brought them.
    ///
    /// # Errors
    /// If the query cannot be run, or remembers more than it may.
    pub fn watch(&mut self, query: &Query) -> Result<(QueryId, Vec<Change>), QueryError> {
        let (id, outs) = self.start(query, Wants::Changes)?;
        Ok((id, outs.into_iter().map(|out| out.change).collect()))
    }

    /// Forgets a query.
    pub fn drop_query(&mut self, id: QueryId) {
        let Some(running) = self.take_running(id) else { return };
        if let State::Works(work) = running.state {
            self.unlisten(id.index, &work);
        }
        self.vacant.push(id.index);
    }

    /// Why a live query was stopped, if it was. It has no rows then, and is to be forgotten.
    #[must_use]
    pub fn failure(&self, id: QueryId) -> Option<&QueryError> {
        match &self.running(id)?.state {
            State::Works(_) => None,
            State::Stopped(error) => Some(error),
        }
    }

    /// The rows of a live query, in their order. None if it is only watched.
    pub fn result(&self, id: QueryId) -> impl DoubleEndedIterator<Item = &Arc<Entry>> {
        self.shown(id).into_iter().flat_map(Shown::iter)
    }

    /// One row of a live query.
    #[must_use]
    pub fn result_get(&self, id: QueryId, key: &Key) -> Option<&Arc<Entry>> {
        self.shown(id)?.get(key)
    }

    /// How many rows a live query has.
    #[must_use]
    pub fn result_len(&self, id: QueryId) -> usize {
        self.shown(id).map_or(0, Shown::len)
    }

    /// How a query is kept up to date, for people.
    #[must_use]
    pub fn explain(&self, id: QueryId) -> &str {
        self.work(id).map_or("", |work| work.plan.explain())
    }

    /// What a live query remembers. It takes as long as the query has rows.
    #[must_use]
    pub fn footprint(&self, id: QueryId) -> Footprint {
        let Some(work) = self.work(id) else { return Footprint::default() };
        let watches = work.holds.iter().map(|leaf| &work.plan.watches()[*leaf]);
        Footprint {
            rows: work.plan.heap_rows(),
            index_rows: watches
                .map(|watch| self.stores[watch.collection.0].index_rows(watch))
                .sum(),
            result_bytes: work.shown.as_ref().map_or(0, Shown::heap_bytes),
            bytes: work.bytes(),
            bytes_max: self.query_bytes_max,
        }
    }

    /// The indexes of a collection, for people: what by, how large, and how many live queries
    /// read it all the time.
    #[must_use]
    pub fn indexes(&self, collection: CollectionId) -> Vec<String> {
        self.stores[collection.0].indexes(&self.catalog.names(collection))
    }

    fn running(&self, id: QueryId) -> Option<&Running> {
        self.queries.get(id.index)?.as_ref().filter(|running| running.life == id.life)
    }

    fn take_running(&mut self, id: QueryId) -> Option<Running> {
        self.running(id)?;
        self.queries[id.index].take()
    }

    fn work(&self, id: QueryId) -> Option<&Work> {
        match &self.running(id)?.state {
            State::Works(work) => Some(work),
            State::Stopped(_) => None,
        }
    }

    fn shown(&self, id: QueryId) -> Option<&Shown> {
        self.work(id)?.shown.as_ref()
    }

    fn start(
        &mut self,
        query: &Query,
        wants: Wants,
    ) -> Result<(QueryId, Vec<engine::Out>), QueryError> {
        let mut plan = engine::compile(query, &mut self.catalog, self.semantics)?;
        let outs = self.hydrate(&mut plan, Purpose::Live);
        let mut shown = (wants == Wants::Rows).then(|| shown_for(&plan));
        shown.iter_mut().for_each(|shown| shown.apply(&outs));
        let mut work = Box::new(Work { plan, holds: Vec::new(), shown, changes_left: 0 });
        let query = short(query.to_json());
        work.weigh(outs.len(), &query, self.query_bytes_max)?;
        self.last_query += 1;
        let life = self.last_query;
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.queries.push(None);
            self.queries.len() - 1
        });
        for (leaf, watch) in work.plan.watches().iter().enumerate() {
            let dispatch = &mut self.dispatches[watch.collection.0][watch.view as usize];
            dispatch.add(Listener { query: index, leaf }, watch);
            if self.stores[watch.collection.0].hold(watch) {
                work.holds.push(leaf);
            }
        }
        self.queries[index] = Some(Running { life, query, state: State::Works(work) });
        Ok((QueryId { index, life }, outs))
    }

    /// Nobody is to feed this query any more.
    fn unlisten(&mut self, index: usize, work: &Work) {
        for (leaf, watch) in work.plan.watches().iter().enumerate() {
            let dispatch = &mut self.dispatches[watch.collection.0][watch.view as usize];
            dispatch.remove(Listener { query: index, leaf }, watch);
        }
        for leaf in &work.holds {
            let watch = &work.plan.watches()[*leaf];
            self.stores[watch.collection.0].release(watch);
        }
    }

    /// Lets go of all that a query remembers but the reason.
    fn stop(&mut self, id: QueryId, error: QueryError) {
        let Some(running) = &mut self.queries[id.index] else { return };
        if let State::Works(work) = mem::replace(&mut running.state, State::Stopped(error)) {
            self.unlisten(id.index, &work);
        }
    }

    fn hydrate(&mut self, plan: &mut Plan, purpose: Purpose) -> Vec<engine::Out> {
        let mut read = Vec::new();
        for watch in plan.watches() {
            let store = &mut self.stores[watch.collection.0];
            store.consider(watch, purpose);
            if let Some(index) = store.explain(watch, || self.catalog.names(watch.collection)) {
                let name = self.catalog.name(watch.collection);
                read.push(format!("{name} is read by its {index}\n"));
            }
        }
        plan.explain_more(&read);
        plan.outs(&Feed::Initial(&Stores(&self.stores)))
    }

    /// Tells everybody what has changed.
    pub(crate) fn publish(&mut self, touched: Touched) -> Published {
        let mut changes: SmallVec<[(CollectionId, View, Vec<Change>); 1]> = SmallVec::new();
        for (collection, rows) in touched.collections() {
            let store = &mut self.stores[collection.0];
            let listeners = &self.dispatches[collection.0][View::Synced as usize];
            let wants_synced = !listeners.is_empty() || store.is_indexed(View::Synced);
            let (visible, synced) = rows.settle(store, wants_synced);
            for (view, list) in [(View::Visible, visible), (View::Synced, synced)] {
                if !list.is_empty() {
                    store.index(view, &list);
                    changes.push((collection, view, list));
                }
            }
        }
        let (queries, stopped) = self.run(&changes);
        stopped.iter().for_each(|(id, error)| self.stop(*id, error.clone()));
        let visible = changes.into_iter().filter(|(_, view, _)| *view == View::Visible);
        let collections = visible.map(|(collection, _, list)| (collection, list)).collect();
        Published { queries, collections, stopped }
    }

    /// Runs every query that a change may concern, once.
    fn run(&mut self, changes: &[(CollectionId, View, Vec<Change>)]) -> (Told, Stopped) {
        let mut hits: SmallVec<[(Hit, &[Change]); 4]> = SmallVec::new();
        for (collection, view, list) in changes {
            let dispatch = &self.dispatches[collection.0][*view as usize];
            dispatch.find(list, &mut |hit| hits.push((hit, list.as_slice())));
        }
        if hits.len() > 1 {
            hits.sort_unstable_by_key(|(hit, _)| *hit);
            hits.dedup_by_key(|(hit, _)| *hit);
        }
        let (mut told, mut stopped) = (Told::new(), Stopped::new());
        for own in hits.chunk_by(|((a, _), _), ((b, _), _)| a.query == b.query) {
            let query = own[0].0.0.query;
            let Some(Running { life, query: name, state: State::Works(work) }) =
                &mut self.queries[query]
            else {
                continue;
            };
            let feed: SmallVec<[_; 2]> = own
                .iter()
                .map(|((listener, number), list)| (listener.leaf, &list[*number]))
                .collect();
            let stores = Stores(&self.stores);
            let feed = Feed::Tick(&feed, &stores);
            let outs = match &mut work.shown {
                Some(shown) => work.plan.show(&feed, shown),
                None => work.plan.outs(&feed),
            };
            let id = QueryId { index: query, life: *life };
            if let Err(error) = work.weigh(own.len() + outs.len(), name, self.query_bytes_max) {
                stopped.push((id, error));
            } else if !outs.is_empty() {
                told.push((id, outs.into_iter().map(|out| out.change).collect()));
            }
        }
        (told, stopped)
    }
}

type Told = Vec<(QueryId, Vec<Change>)>;
type Stopped = Vec<(QueryId, QueryError)>;

/// What a live query is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// Its rows, at any time.
    Rows,
    /// What changes in them, alone.
    Changes,
}

/// What a query remembers, so that it need not read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Rows that its operators hold on to, counted each time one does.
    pub rows: usize,
    /// Rows of indexes that it reads all the time, and shares with others.
    pub index_rows: usize,
    /// Bytes of its result, beside the rows themselves.
    pub result_bytes: usize,
    /// All bytes of what it remembers, roughly: places for rows, its result, and the rows that it
    /// has made. Rows of collections are not its own, nor are indexes. What several rows share
    /// counts each time.
    pub bytes: usize,
    /// What it may remember before it is stopped.
    pub bytes_max: usize,
}

/// A collection of this name is there already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is a collection or a query {0:?} already; choose another name")]
pub struct DuplicateName(pub SmolStr);

fn shown_for(plan: &Plan) -> Shown {
    if plan.is_ordered() { Shown::ordered() } else { Shown::by_key() }
}

struct Stores<'a>(&'a [Store]);

impl Rows for Stores<'_> {
    fn len(&self, watch: &Watch) -> usize {
        self.0[watch.collection.0].len(watch.view)
    }

    fn scan(&self, watch: &Watch, each: &mut dyn FnMut(&Arc<Entry>)) {
        self.0[watch.collection.0].scan(watch, each);
    }

    fn ordered(
        &self,
        watch: &Watch,
        after: Option<(&Value, &Key)>,
        each: &mut dyn FnMut(&Arc<Entry>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        self.0[watch.collection.0].ordered(watch, after, each)
    }
}
