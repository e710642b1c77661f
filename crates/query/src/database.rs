//! The database: collections, the queries that watch them, and one way for anything to change.

use std::{ops::ControlFlow, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::{
    Semantics,
    catalog::{Catalog, CollectionId, Schema},
    dispatch::{Dispatch, Hit, Listener},
    engine::{self, Change, Feed, Plan, Rows, Shown, Watch},
    error::{QueryError, WriteError},
    ir::{Query, View},
    record::{Entry, Key, Record},
    store::{Purpose, Store},
    tick::{Touched, key_of},
    transaction::{Open, TransactionId},
    value::Value,
};

/// Collections and live queries over them.
///
/// It never awaits and never calls anybody: every change answers with what it came to, query by
/// query.
#[derive(Debug, Default)]
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
    plan: Plan,
    /// Leaves that read an index again and again, which is kept for them.
    holds: Vec<usize>,
    /// Its rows, if somebody wants to read them.
    shown: Option<Shown>,
}

/// What a change of the database came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// For every query whose rows changed, which did.
    pub queries: Vec<(QueryId, Vec<Change>)>,
    /// For every collection with rows that look different now, which do.
    pub collections: Vec<(CollectionId, Vec<Change>)>,
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
        let mut shown = shown_for(&plan);
        shown.apply(&outs);
        Ok(shown.iter().cloned().collect())
    }

    /// Begins to keep the rows of a query up to date.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn live(&mut self, query: &Query) -> Result<QueryId, QueryError> {
        let (id, outs) = self.start(query)?;
        if let Some(running) = &mut self.queries[id.index] {
            let mut shown = shown_for(&running.plan);
            shown.apply(&outs);
            running.shown = Some(shown);
        }
        Ok(id)
    }

    /// Begins to tell the changes of a query without keeping its rows. Answers the rows it has
    /// now, as changes that brought them.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn watch(&mut self, query: &Query) -> Result<(QueryId, Vec<Change>), QueryError> {
        let (id, outs) = self.start(query)?;
        Ok((id, outs.into_iter().map(|out| out.change).collect()))
    }

    /// Forgets a query.
    pub fn drop_query(&mut self, id: QueryId) {
        let Some(running) = self.take_running(id) else { return };
        for (leaf, watch) in running.plan.watches().iter().enumerate() {
            let dispatch = &mut self.dispatches[watch.collection.0][watch.view as usize];
            dispatch.remove(Listener { query: id.index, leaf }, watch);
        }
        for leaf in running.holds {
            let watch = &running.plan.watches()[leaf];
            self.stores[watch.collection.0].release(watch);
        }
        self.vacant.push(id.index);
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
        self.running(id).map_or("", |running| running.plan.explain())
    }

    /// What a live query remembers.
    #[must_use]
    pub fn footprint(&self, id: QueryId) -> Footprint {
        let Some(running) = self.running(id) else { return Footprint::default() };
        Footprint {
            rows: running.plan.heap_rows(),
            index_rows: running
                .holds
                .iter()
                .map(|leaf| &running.plan.watches()[*leaf])
                .map(|watch| self.stores[watch.collection.0].index_rows(watch))
                .sum(),
            result_bytes: running.shown.as_ref().map_or(0, Shown::heap_bytes),
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

    fn shown(&self, id: QueryId) -> Option<&Shown> {
        self.running(id)?.shown.as_ref()
    }

    fn start(&mut self, query: &Query) -> Result<(QueryId, Vec<engine::Out>), QueryError> {
        let mut plan = engine::compile(query, &mut self.catalog, self.semantics)?;
        let outs = self.hydrate(&mut plan, Purpose::Live);
        let mut holds = Vec::new();
        self.last_query += 1;
        let life = self.last_query;
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.queries.push(None);
            self.queries.len() - 1
        });
        for (leaf, watch) in plan.watches().iter().enumerate() {
            let dispatch = &mut self.dispatches[watch.collection.0][watch.view as usize];
            dispatch.add(Listener { query: index, leaf }, watch);
            if self.stores[watch.collection.0].hold(watch) {
                holds.push(leaf);
            }
        }
        self.queries[index] = Some(Running { life, plan, holds, shown: None });
        Ok((QueryId { index, life }, outs))
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
        let queries = self.run(&changes);
        let visible = changes.into_iter().filter(|(_, view, _)| *view == View::Visible);
        let collections = visible.map(|(collection, _, list)| (collection, list)).collect();
        Published { queries, collections }
    }

    /// Runs every query that a change may concern, once.
    fn run(
        &mut self,
        changes: &[(CollectionId, View, Vec<Change>)],
    ) -> Vec<(QueryId, Vec<Change>)> {
        let mut hits: SmallVec<[(Hit, &[Change]); 4]> = SmallVec::new();
        for (collection, view, list) in changes {
            let dispatch = &self.dispatches[collection.0][*view as usize];
            dispatch.find(list, &mut |hit| hits.push((hit, list.as_slice())));
        }
        if hits.len() > 1 {
            hits.sort_unstable_by_key(|(hit, _)| *hit);
            hits.dedup_by_key(|(hit, _)| *hit);
        }
        let mut told = Vec::new();
        for own in hits.chunk_by(|((a, _), _), ((b, _), _)| a.query == b.query) {
            let query = own[0].0.0.query;
            let Some(running) = &mut self.queries[query] else { continue };
            let feed: SmallVec<[_; 2]> = own
                .iter()
                .map(|((listener, number), list)| (listener.leaf, &list[*number]))
                .collect();
            let stores = Stores(&self.stores);
            let feed = Feed::Tick(&feed, &stores);
            let outs = match &mut running.shown {
                Some(shown) => running.plan.show(&feed, shown),
                None => running.plan.outs(&feed),
            };
            if outs.is_empty() {
                continue;
            }
            told.push((
                QueryId { index: query, life: running.life },
                outs.into_iter().map(|out| out.change).collect(),
            ));
        }
        told
    }
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
