//! Transactions on their way to be shown.

use std::{fmt, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use query::{CollectionId, Columns, Key, Mutation, MutationKind, Record, Row, TransactionId, View};
use smol_str::SmolStr;

use super::{Shown, Transaction, TransactionState, Writer, Written, WrittenKind};
use crate::{db::Db, error::DbError};

/// The writes of a transaction, before they are shown. They see each other: what is updated is the
/// row as earlier ones leave it.
pub struct Writes {
    db: Db,
    mutations: Vec<Mutation>,
    /// The rows that were written to, as they are by now.
    rows: HashMap<(CollectionId, Key), Own, FixedState>,
}

/// What a transaction has made of a row.
#[derive(Debug, Default)]
struct Own {
    /// The row; nothing if it is the one that is shown.
    row: Option<Option<Record>>,
    /// Columns that were written since, as JSON.
    patch: serde_json::Map<String, serde_json::Value>,
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writes").field("mutations", &self.mutations).finish_non_exhaustive()
    }
}

impl Writes {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, mutations: Vec::new(), rows: HashMap::default() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If there is no collection of such rows.
    pub fn insert<R: Row>(&mut self, row: R) -> Result<(), DbError> {
        let collection = self.db.find(R::NAME)?;
        let (key, record) = (row.key(), Record::typed(row));
        self.note(collection, key, Some(record.clone()));
        self.push(collection, MutationKind::Insert(record));
        Ok(())
    }

    /// Adds a row, or puts it in the place of the one that has its key.
    ///
    /// # Errors
    /// If there is no collection of such rows.
    pub fn put<R: Row>(&mut self, row: R) -> Result<(), DbError> {
        match self.get::<R>(row.key())? {
            Some(_) => self.update(row.key(), |own: &mut R| *own = row),
            None => self.insert(row),
        }
    }

    /// A row as the writes so far leave it.
    ///
    /// # Errors
    /// If there is no collection of such rows, or what was patched is none any more.
    pub fn get<R: Row>(&self, key: impl Into<Key>) -> Result<Option<R>, DbError> {
        let place = (self.db.find(R::NAME)?, key.into());
        let own = self.rows.get(&place);
        let row = match own.and_then(|own| own.row.as_ref()) {
            Some(row) => row.as_ref().and_then(|record| record.as_typed::<R>().cloned()),
            None => self.db.row::<R>(place.0, &place.1).map(|row| (*row).clone()),
        };
        match (row, own) {
            (Some(row), Some(own)) if !own.patch.is_empty() => {
                let why = |error: serde_json::Error| query::WriteError::NotARow {
                    collection: R::NAME.into(),
                    why: error.to_string(),
                };
                Ok(Some(patched(&row, &own.patch).map_err(why)?))
            }
            (row, _) => Ok(row),
        }
    }

    /// Changes a row; only what differs afterwards is written.
    ///
    /// # Errors
    /// If there is no such row.
    pub fn update<R: Row>(
        &mut self,
        key: impl Into<Key>,
        change: impl FnOnce(&mut R),
    ) -> Result<(), DbError> {
        let (collection, key) = (self.db.find(R::NAME)?, key.into());
        let Some(row) = self.get::<R>(key.clone())? else {
            let collection = R::NAME.into();
            return Err(query::WriteError::UnknownKey { write: "update", collection, key }.into());
        };
        let mut changed = row.clone();
        change(&mut changed);
        let columns = differences(&row, &changed);
        self.note(collection, key.clone(), Some(Record::typed(changed)));
        self.push(collection, MutationKind::Update(key, columns));
        Ok(())
    }

    /// Removes a row.
    ///
    /// # Errors
    /// If there is no collection of such rows.
    pub fn delete<R: Row>(&mut self, key: impl Into<Key>) -> Result<(), DbError> {
        self.delete_in(self.db.find(R::NAME)?, key.into());
        Ok(())
    }

    /// Adds a row of a dynamic collection, given as a JSON object.
    ///
    /// # Errors
    /// If there is no such collection, or it is no object.
    pub fn insert_json(
        &mut self,
        collection: &str,
        row: &serde_json::Value,
    ) -> Result<(), DbError> {
        self.insert_json_in(self.db.find(collection)?, row)
    }

    /// Changes some columns of a row of any collection, given as a JSON object.
    ///
    /// # Errors
    /// If there is no such collection, or it is no object.
    pub fn patch(
        &mut self,
        collection: &str,
        key: impl Into<Key>,
        columns: serde_json::Value,
    ) -> Result<(), DbError> {
        self.patch_in(self.db.find(collection)?, key.into(), columns)
    }

    /// Removes a row of any collection.
    ///
    /// # Errors
    /// If there is no such collection.
    pub fn delete_from(&mut self, collection: &str, key: impl Into<Key>) -> Result<(), DbError> {
        self.delete_in(self.db.find(collection)?, key.into());
        Ok(())
    }

    pub(crate) fn insert_json_in(
        &mut self,
        id: CollectionId,
        row: &serde_json::Value,
    ) -> Result<(), DbError> {
        let record = self.db.record(id, &row.to_string())?;
        let key = self.db.look(|database| record.get(database.schema(id).key()).into_owned());
        self.note(id, key, Some(record.clone()));
        self.push(id, MutationKind::Insert(record));
        Ok(())
    }

    pub(crate) fn patch_in(
        &mut self,
        id: CollectionId,
        key: Key,
        columns: serde_json::Value,
    ) -> Result<(), DbError> {
        let serde_json::Value::Object(columns) = columns else {
            let collection = self.db.look(|database| database.name(id).into());
            let why = "a patch is a JSON object".into();
            return Err(query::WriteError::NotARow { collection, why }.into());
        };
        let own = self.rows.entry((id, key.clone())).or_default();
        own.patch.extend(columns.iter().map(|(name, value)| (name.clone(), value.clone())));
        let columns = columns.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.push(id, MutationKind::Update(key, columns.collect()));
        Ok(())
    }

    pub(crate) fn delete_in(&mut self, id: CollectionId, key: Key) {
        self.note(id, key.clone(), None);
        self.push(id, MutationKind::Delete(key));
    }

    /// Takes note of what a row is now.
    fn note(&mut self, collection: CollectionId, key: Key, row: Option<Record>) {
        let own = Own { row: Some(row), patch: serde_json::Map::new() };
        self.rows.insert((collection, key), own);
    }

    fn push(&mut self, collection: CollectionId, write: MutationKind) {
        self.mutations.push(Mutation { collection, write });
    }

    /// Shows the writes, and begins to make them last.
    pub(crate) fn run(self) -> Result<Transaction, DbError> {
        let mut open = OpenTransaction::new(self.db);
        open.mutate(self.mutations)?;
        open.commit()
    }
}

/// A transaction whose writes are shown one by one, and made to last all together, or taken back.
/// Dropping it takes them back.
#[derive(Debug)]
#[must_use = "a transaction that is dropped is taken back"]
pub struct OpenTransaction {
    db: Db,
    id: TransactionId,
    rows: Vec<Touched>,
    /// Whether somebody else ends it.
    is_shown: bool,
}

/// A row that a transaction wrote to.
#[derive(Debug)]
struct Touched {
    collection: CollectionId,
    key: Key,
    kind: WrittenKind,
}

impl Touched {
    /// Takes note of one more write.
    fn then(&mut self, next: WrittenKind) {
        use WrittenKind::{Delete, Insert, Replace, Update};
        match (&mut self.kind, next) {
            // Whether the row is there at the end tells the rest.
            (Insert, _) | (Replace, Update(_)) => {}
            (Update(own), Update(more)) => own.extend(more),
            (kind, Delete) => *kind = Delete,
            (kind, Insert | Replace | Update(_)) => *kind = Replace,
        }
    }
}

impl OpenTransaction {
    pub(crate) fn new(db: Db) -> Self {
        let id = db.begin_shown();
        Self { db, id, rows: Vec::new(), is_shown: false }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If there is a row of its key; earlier writes of the transaction stay.
    pub fn insert<R: Row>(&mut self, row: R) -> Result<(), DbError> {
        self.write(|writes| writes.insert(row))
    }

    /// Changes a row; only what differs afterwards is written.
    ///
    /// # Errors
    /// If there is no such row, or its key would change; earlier writes of the transaction stay.
    pub fn update<R: Row>(
        &mut self,
        key: impl Into<Key>,
        change: impl FnOnce(&mut R),
    ) -> Result<(), DbError> {
        self.write(|writes| writes.update(key, change))
    }

    /// Removes a row.
    ///
    /// # Errors
    /// If there is no such row; earlier writes of the transaction stay.
    pub fn delete<R: Row>(&mut self, key: impl Into<Key>) -> Result<(), DbError> {
        self.write(|writes| writes.delete::<R>(key))
    }

    /// Begins to make its writes last.
    ///
    /// # Errors
    /// If they cannot be written together; then they are taken back.
    pub fn commit(mut self) -> Result<Transaction, DbError> {
        let writer = self.writer()?;
        let rows = std::mem::take(&mut self.rows);
        let Some(writer) = writer else {
            let (shown, transaction) = self.show(TransactionState::Persisting);
            shown.settle(Ok(()));
            return Ok(transaction);
        };
        let written = self.db.commit(self.id, |database, lasts| {
            let row = |Touched { collection, key, kind }: Touched| {
                // What others only show is theirs to write.
                let mut row = database.row_with(collection, &key, lasts);
                if row.is_none() && matches!(kind, WrittenKind::Update(_)) {
                    let shown = database.get(collection, &key, View::Visible);
                    row = shown.map(|entry| entry.record.clone());
                }
                Written { collection, key, row, kind }
            };
            // A row that came and went within the transaction never was.
            let is_any =
                |written: &Written| written.row.is_some() || written.kind == WrittenKind::Delete;
            rows.into_iter().map(row).filter(is_any).collect()
        });
        let (shown, transaction) = self.show(TransactionState::Persisting);
        writer.persist(shown, written);
        Ok(transaction)
    }

    /// Leaves it shown, for somebody who will tell how it ends.
    pub(crate) fn show(mut self, state: TransactionState) -> (Shown, Transaction) {
        let id = self.id;
        self.is_shown = true;
        Shown::new(self.db.clone(), id, state)
    }

    /// Takes all its writes back.
    pub fn roll_back(self) {}

    /// Adds writes; all or none.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut Writes) -> Result<(), DbError>,
    ) -> Result<(), DbError> {
        let mut writes = Writes::new(self.db.clone());
        write(&mut writes)?;
        self.mutate(writes.mutations)
    }

    pub(crate) fn mutate(&mut self, mutations: Vec<Mutation>) -> Result<(), DbError> {
        let id = self.id;
        let rows = self.db.change(|database| {
            let rows: Vec<_> =
                mutations.iter().map(|mutation| touched(database, mutation)).collect();
            Ok::<_, query::WriteError>((rows, database.mutate(id, mutations)?))
        })?;
        for row in rows {
            let is_same =
                |own: &&mut Touched| own.collection == row.collection && own.key == row.key;
            match self.rows.iter_mut().find(is_same) {
                Some(own) => own.then(row.kind),
                None => self.rows.push(row),
            }
        }
        Ok(())
    }

    /// The one writer of all collections that are written to.
    fn writer(&self) -> Result<Option<Arc<dyn Writer>>, DbError> {
        let mut found: Option<(CollectionId, Arc<dyn Writer>)> = None;
        for Touched { collection, .. } in &self.rows {
            let name = |id| self.db.look(|database| database.name(id).to_owned());
            let Some(writer) = self.db.writer(*collection) else {
                return Err(DbError::ReadOnly { name: name(*collection) });
            };
            match &found {
                Some((first, earlier)) if !Arc::ptr_eq(earlier, &writer) => {
                    let (first, second) = (name(*first), name(*collection));
                    return Err(DbError::MixedSources { first, second });
                }
                Some(_) => {}
                None => found = Some((*collection, writer)),
            }
        }
        Ok(found.map(|(_, writer)| writer))
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        if !self.is_shown {
            end(&self.db, self.id);
        }
    }
}

/// Which row a mutation writes to.
fn touched(database: &query::Database, mutation: &Mutation) -> Touched {
    let collection = mutation.collection;
    let (key, kind) = match &mutation.write {
        MutationKind::Insert(record) => {
            let key = record.get(database.schema(collection).key()).into_owned();
            (key, WrittenKind::Insert)
        }
        MutationKind::Update(key, columns) => {
            let columns = columns.iter().map(|(name, _)| name.clone()).collect();
            (key.clone(), WrittenKind::Update(columns))
        }
        MutationKind::Delete(key) => (key.clone(), WrittenKind::Delete),
    };
    Touched { collection, key, kind }
}

pub(super) fn end(db: &Db, id: TransactionId) {
    db.forget_shown(id);
    let ended = db.change(|database| Ok::<_, std::convert::Infallible>(((), database.end(id))));
    let Ok(()) = ended;
}

/// A row with other values in some columns.
fn patched<R: Row>(
    row: &R,
    patch: &serde_json::Map<String, serde_json::Value>,
) -> serde_json::Result<R> {
    let mut json = serde_json::to_value(row)?;
    if let serde_json::Value::Object(columns) = &mut json {
        columns.extend(patch.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    serde_json::from_value(json)
}

/// The columns in which two rows differ.
fn differences<R: Columns>(old: &R, new: &R) -> Vec<(SmolStr, query::Value)> {
    let names = old.names().iter().enumerate();
    let differs = names.filter_map(|(index, name)| {
        let value = new.column(index);
        (value != old.column(index)).then(|| (SmolStr::new_static(name), value))
    });
    differs.collect()
}
