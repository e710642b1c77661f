//! Ticks: writes that come into force together.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::{
    caps::PENDING_MAX,
    catalog::{Catalog, CollectionId, Kind},
    database::{Database, Published},
    engine::Change,
    error::WriteError,
    record::{Entry, Key, Meta, Record},
    store::{Patch, Store},
    suggest::did_you_mean,
    transaction::{Mutation, MutationKind, Open, TransactionId},
    value::Value,
};

/// Synced writes that come into force together, and the transactions they confirm.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    /// The writes, in order.
    pub writes: Vec<(CollectionId, Write)>,
    /// Transactions whose writes are among these, or are known to be superseded by them.
    pub retires: Vec<TransactionId>,
}

/// One synced write.
#[derive(Clone, Debug)]
pub enum Write {
    /// A new row. It is an error if there is another of its key.
    Insert(Record, Meta),
    /// A row, new or in place of another.
    Put(Record, Meta),
    /// One row less, if it is there.
    Delete(Key),
    /// No rows at all.
    Truncate,
}

impl Write {
    /// The row it writes, if it does.
    fn entry(self, key: Key) -> Option<Arc<Entry>> {
        match self {
            Self::Insert(record, meta) | Self::Put(record, meta) => {
                Some(Arc::new(Entry { key, record, meta }))
            }
            Self::Delete(_) | Self::Truncate => None,
        }
    }
}

impl Database {
    /// Applies synced writes; all or none.
    ///
    /// # Errors
    /// If one of them cannot be; then nothing has changed.
    pub fn apply(&mut self, tick: Tick) -> Result<Published, WriteError> {
        self.check_collections(tick.writes.iter().map(|(collection, _)| *collection))?;
        let mut touched = Touched::default();
        if let Some((collection, keys)) = self.filling(&tick) {
            let writes = keys.into_iter().zip(tick.writes);
            let entries = writes.filter_map(|(key, (_, write))| write.entry(key)).collect();
            touched.fill(collection, entries, &mut self.stores[collection.0]);
            return Ok(self.publish(touched));
        }
        if let Some((collection, _)) = tick.writes.first() {
            touched.rows(*collection).rows.reserve(tick.writes.len());
        }
        for (collection, write) in tick.writes {
            if let Err(error) = self.write(collection, write, &mut touched) {
                touched.undo(&mut self.stores);
                return Err(error);
            }
        }
        for transaction in tick.retires {
            self.lift(transaction, &mut touched);
        }
        Ok(self.publish(touched))
    }

    /// Opens a transaction. Its writes lie on those of all that were opened before.
    pub fn begin(&mut self) -> TransactionId {
        self.last_transaction += 1;
        let id = TransactionId(self.last_transaction);
        self.transactions.insert(id, Open::default());
        id
    }

    /// Lays writes on what is synced; all or none.
    ///
    /// # Errors
    /// If one of them cannot be, or the transaction has ended; then nothing has changed.
    pub fn mutate(
        &mut self,
        transaction: TransactionId,
        mutations: Vec<Mutation>,
    ) -> Result<Published, WriteError> {
        if !self.transactions.contains_key(&transaction) {
            return Err(WriteError::NotOpen { id: transaction.0 });
        }
        self.check_collections(mutations.iter().map(|mutation| mutation.collection))?;
        if self.pending + mutations.len() > PENDING_MAX {
            return Err(WriteError::TooManyPending { pending: self.pending });
        }
        let (mut touched, mut laid) = (Touched::default(), Vec::new());
        for Mutation { collection, write } in mutations {
            match self.lay(transaction, collection, write, &mut touched) {
                Ok(key) => laid.push((collection, key)),
                Err(error) => {
                    self.unlay(transaction, laid);
                    return Err(error);
                }
            }
        }
        self.pending += laid.len();
        if let Some(open) = self.transactions.get_mut(&transaction) {
            open.rows.extend(laid);
        }
        Ok(self.publish(touched))
    }

    /// Ends a transaction: its writes do not lie on the synced rows any more, wherever they stood
    /// among those of others. It is the same for one that failed and for one that is confirmed.
    pub fn end(&mut self, transaction: TransactionId) -> Published {
        let mut touched = Touched::default();
        self.lift(transaction, &mut touched);
        self.publish(touched)
    }

    /// True if the transaction has not ended.
    #[must_use]
    pub fn is_open(&self, transaction: TransactionId) -> bool {
        self.transactions.contains_key(&transaction)
    }

    fn check_collections(
        &self,
        mut collections: impl Iterator<Item = CollectionId>,
    ) -> Result<(), WriteError> {
        match collections.find(|collection| collection.0 >= self.stores.len()) {
            Some(unknown) => Err(WriteError::UnknownCollection { number: unknown.0 }),
            None => Ok(()),
        }
    }

    /// The keys of a tick that does nothing but fill a collection in their order: its rows are put
    /// there at once, and densely. Whatever is unusual is left to be found one by one.
    fn filling(&self, tick: &Tick) -> Option<(CollectionId, Vec<Key>)> {
        let (collection, _) = tick.writes.first()?;
        let is_bare = tick.retires.is_empty() && self.stores[collection.0].is_bare();
        if !is_bare || tick.writes.len() <= FEW {
            return None;
        }
        let mut keys: Vec<Key> = Vec::with_capacity(tick.writes.len());
        for (own, write) in &tick.writes {
            let (Write::Insert(record, _) | Write::Put(record, _)) = write else { return None };
            let key = key_of(&self.catalog, *own, record).ok()?;
            if own != collection || keys.last().is_some_and(|last| *last >= key) {
                return None;
            }
            keys.push(key);
        }
        Some((*collection, keys))
    }

    fn write(
        &mut self,
        collection: CollectionId,
        write: Write,
        touched: &mut Touched,
    ) -> Result<(), WriteError> {
        let store = &mut self.stores[collection.0];
        match write {
            Write::Insert(record, meta) => {
                let key = key_of(&self.catalog, collection, &record)?;
                let (new, old) = store.put(Entry { key, record, meta });
                let is_taken = old.as_ref().is_some_and(|old| old.record != new.record);
                touched.wrote(collection, &new.key, store, (old, Some(new.clone())));
                if is_taken {
                    let collection = self.catalog.name(collection).clone();
                    return Err(WriteError::DuplicateKey { collection, key: new.key.clone() });
                }
            }
            Write::Put(record, meta) => {
                let key = key_of(&self.catalog, collection, &record)?;
                let (new, old) = store.put(Entry { key, record, meta });
                touched.wrote(collection, &new.key, store, (old, Some(new.clone())));
            }
            Write::Delete(key) => {
                let old = store.remove(&key);
                touched.wrote(collection, &key, store, (old, None));
            }
            Write::Truncate => {
                let keys: Vec<_> = store.synced_keys().cloned().collect();
                for key in keys {
                    let old = store.remove(&key);
                    touched.wrote(collection, &key, store, (old, None));
                }
            }
        }
        Ok(())
    }

    /// Lays one write; answers the key of its row.
    fn lay(
        &mut self,
        transaction: TransactionId,
        collection: CollectionId,
        write: MutationKind,
        touched: &mut Touched,
    ) -> Result<Key, WriteError> {
        let name = || self.catalog.name(collection).clone();
        let store = &self.stores[collection.0];
        let (key, patch) = match write {
            MutationKind::Insert(record) => {
                let key = key_of(&self.catalog, collection, &record)?;
                let synced = touched.touch(collection, &key, store);
                if store.covered(&key).unwrap_or(synced).is_some() {
                    return Err(WriteError::DuplicateKey { collection: name(), key });
                }
                (key, Patch::Insert(record))
            }
            MutationKind::Update(key, columns) => {
                let Some(entry) = store.visible(&key).cloned() else {
                    return Err(WriteError::UnknownKey {
                        write: "update",
                        collection: name(),
                        key,
                    });
                };
                let columns = columns_of(&mut self.catalog, collection, &key, columns)?;
                check_update(&self.catalog, collection, &entry, &columns)?;
                (key, Patch::Update(columns, self.catalog.schema(collection).shape.clone()))
            }
            MutationKind::Delete(key) => {
                if store.visible(&key).is_none() {
                    return Err(WriteError::UnknownKey {
                        write: "delete",
                        collection: name(),
                        key,
                    });
                }
                (key, Patch::Delete)
            }
        };
        let store = &mut self.stores[collection.0];
        let synced = touched.touch(collection, &key, store);
        store.lay(&key, transaction, patch, synced);
        Ok(key)
    }

    /// Takes back the writes of a call that failed in the middle.
    fn unlay(&mut self, transaction: TransactionId, laid: Vec<(CollectionId, Key)>) {
        for (collection, key) in laid {
            let store = &mut self.stores[collection.0];
            let left = store.laid(&key, transaction).saturating_sub(1);
            store.lift(&key, transaction, left);
            store.refresh(&key);
        }
    }

    fn lift(&mut self, transaction: TransactionId, touched: &mut Touched) {
        let Some(open) = self.transactions.remove(&transaction) else { return };
        self.pending -= open.rows.len();
        for (collection, key) in open.rows {
            let store = &mut self.stores[collection.0];
            touched.touch(collection, &key, store);
            store.lift(&key, transaction, 0);
        }
    }
}

/// The key of a record, which must fit the schema.
pub(crate) fn key_of(
    catalog: &Catalog,
    collection: CollectionId,
    record: &Record,
) -> Result<Key, WriteError> {
    let schema = catalog.schema(collection);
    if !schema.is_of(record) {
        let columns = |names: Vec<SmolStr>| names.join(", ");
        return Err(WriteError::ForeignRecord {
            collection: catalog.name(collection).clone(),
            found: columns(record.names()),
            expected: columns(catalog.names(collection)),
        });
    }
    let key = record.get(schema.key()).into_owned();
    if !matches!(key, Value::Text(_) | Value::Int(_) | Value::Float(_)) {
        return Err(WriteError::BadKey {
            collection: catalog.name(collection).clone(),
            column: schema.key().into(),
            found: key.kind(),
        });
    }
    if let Record::Tuple(_) = record {
        for (index, column) in schema.columns().iter().enumerate() {
            let value = record.column(index);
            check_column(catalog, collection, &key, column, &value)?;
        }
    }
    Ok(key)
}

fn check_column(
    catalog: &Catalog,
    collection: CollectionId,
    key: &Key,
    column: &crate::ColumnDef,
    value: &Value,
) -> Result<(), WriteError> {
    let is_fine = if value.is_nothing() {
        !column.is_required
    } else {
        column.kind == Kind::Any || Kind::of(value) == column.kind
    };
    if is_fine {
        return Ok(());
    }
    Err(WriteError::Schema {
        collection: catalog.name(collection).clone(),
        key: key.clone(),
        field: column.name.clone(),
        expected: column.kind.to_string(),
        found: value.kind().into(),
    })
}

/// The columns of an update, by number.
fn columns_of(
    catalog: &mut Catalog,
    collection: CollectionId,
    key: &Key,
    columns: Vec<(SmolStr, Value)>,
) -> Result<Arc<[(usize, Value)]>, WriteError> {
    let mut found = Vec::with_capacity(columns.len());
    for (name, value) in columns {
        let Some((index, _)) = catalog.column(collection, &name) else {
            let known = catalog.names(collection);
            let meant = did_you_mean(&name, &known);
            return Err(WriteError::Schema {
                collection: catalog.name(collection).clone(),
                key: key.clone(),
                field: name,
                expected: format!("a column of the collection{meant}: {}", known.join(", ")),
                found: "unknown".into(),
            });
        };
        found.push((index, value));
    }
    Ok(found.into())
}

fn check_update(
    catalog: &Catalog,
    collection: CollectionId,
    entry: &Entry,
    columns: &[(usize, Value)],
) -> Result<(), WriteError> {
    let shape = &catalog.schema(collection).shape;
    let Some(record) = entry.record.with(columns, shape) else {
        let does_not_fit = |column: &&(usize, Value)| {
            entry.record.with(std::slice::from_ref(column), shape).is_none()
        };
        let (index, value) = columns.iter().find(does_not_fit).unwrap_or(&columns[0]);
        return Err(WriteError::Schema {
            collection: catalog.name(collection).clone(),
            key: entry.key.clone(),
            field: catalog.names(collection).get(*index).cloned().unwrap_or_default(),
            expected: "what the row's type says".into(),
            found: value.to_string(),
        });
    };
    let new = key_of(catalog, collection, &record)?;
    if new != entry.key {
        return Err(WriteError::KeyChange {
            collection: catalog.name(collection).clone(),
            key: entry.key.clone(),
            new,
        });
    }
    Ok(())
}

/// The rows that something happened to, and how they were before.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    collections: SmallVec<[(CollectionId, TouchedRows); 1]>,
}

/// Those of one collection; in most ticks there is one row.
#[derive(Debug, Default)]
pub(crate) struct TouchedRows {
    rows: SmallVec<[Before; 1]>,
    places: HashMap<Key, usize, FixedState>,
}

#[derive(Debug)]
struct Before {
    key: Key,
    visible: Option<Arc<Entry>>,
    synced: Option<Arc<Entry>>,
    /// The synced row as it is.
    now: Option<Arc<Entry>>,
}

/// Fewer rows are looked through faster than a table is made.
const FEW: usize = 8;

impl Touched {
    /// Remembers how a row is, unless that was done before; answers the synced row.
    fn touch(&mut self, collection: CollectionId, key: &Key, store: &Store) -> Option<&Arc<Entry>> {
        self.rows(collection).touch(key, store)
    }

    /// Remembers what a synced row was and is.
    fn wrote(
        &mut self,
        collection: CollectionId,
        key: &Key,
        store: &Store,
        change: (Option<Arc<Entry>>, Option<Arc<Entry>>),
    ) {
        self.rows(collection).wrote(key, store, change);
    }

    /// Puts all rows of a tick, each of which is new, where nothing is synced.
    fn fill(&mut self, collection: CollectionId, entries: Vec<Arc<Entry>>, store: &mut Store) {
        store.fill(entries.iter());
        let before = |entry: Arc<Entry>| Before {
            key: entry.key.clone(),
            visible: store.covered(&entry.key).flatten().cloned(),
            synced: None,
            now: Some(entry),
        };
        self.rows(collection).rows.extend(entries.into_iter().map(before));
    }

    fn rows(&mut self, collection: CollectionId) -> &mut TouchedRows {
        let index = self.collections.iter().position(|(own, _)| *own == collection);
        let index = index.unwrap_or_else(|| {
            self.collections.push((collection, TouchedRows::default()));
            self.collections.len() - 1
        });
        &mut self.collections[index].1
    }

    pub(crate) fn collections(self) -> impl Iterator<Item = (CollectionId, TouchedRows)> {
        self.collections.into_iter()
    }

    /// Puts all synced rows back.
    fn undo(self, stores: &mut [Store]) {
        for (collection, rows) in self.collections {
            for Before { key, synced, .. } in rows.rows {
                stores[collection.0].restore(&key, synced);
            }
        }
    }
}

impl TouchedRows {
    fn touch(&mut self, key: &Key, store: &Store) -> Option<&Arc<Entry>> {
        let place = self.place(key).unwrap_or_else(|| {
            let synced = store.synced(key).cloned();
            self.add(key, store, synced.clone(), synced);
            self.rows.len() - 1
        });
        self.rows[place].now.as_ref()
    }

    fn wrote(
        &mut self,
        key: &Key,
        store: &Store,
        (old, new): (Option<Arc<Entry>>, Option<Arc<Entry>>),
    ) {
        match self.place(key) {
            Some(place) => self.rows[place].now = new,
            None => self.add(key, store, old, new),
        }
    }

    fn place(&self, key: &Key) -> Option<usize> {
        if self.places.is_empty() {
            return self.rows.iter().position(|row| row.key == *key);
        }
        self.places.get(key).copied()
    }

    fn add(
        &mut self,
        key: &Key,
        store: &Store,
        synced: Option<Arc<Entry>>,
        now: Option<Arc<Entry>>,
    ) {
        let visible = match store.covered(key) {
            Some(shown) => shown.cloned(),
            None => synced.clone(),
        };
        self.rows.push(Before { key: key.clone(), visible, synced, now });
        if self.rows.len() > FEW {
            let unlisted = self.rows.iter().enumerate().skip(self.places.len());
            self.places.extend(unlisted.map(|(place, row)| (row.key.clone(), place)));
        }
    }

    /// What changed, as the user sees it and, if that is wanted, in what is synced.
    pub(crate) fn settle(
        self,
        store: &mut Store,
        wants_synced: bool,
    ) -> (Vec<Change>, Vec<Change>) {
        let (mut visible, mut synced) = (Vec::with_capacity(self.rows.len()), Vec::new());
        for row in self.rows {
            let shown = store.settle(&row.key, row.now.as_ref());
            if wants_synced {
                synced.extend(change(row.key.clone(), row.synced, row.now));
            }
            visible.extend(change(row.key, row.visible, shown));
        }
        (visible, synced)
    }
}

fn change(key: Key, old: Option<Arc<Entry>>, new: Option<Arc<Entry>>) -> Option<Change> {
    let is_same = match (&old, &new) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new) || old == new,
        (None, None) => true,
        _ => false,
    };
    (!is_same).then_some(Change { key, old, new })
}
