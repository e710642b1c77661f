//! Writes that are shown before they last.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use query::{CollectionId, Columns, Key, Mutation, MutationKind, Record, Row, TransactionId, View};
use smol_str::SmolStr;
use tokio::sync::watch;

use crate::{
    db::Db,
    error::{DbError, PersistError},
};

/// Makes writes last. Every source that can be written to has one.
pub(crate) trait Writer: Send + Sync + 'static {
    /// How the writes of this source come into force.
    fn mode(&self) -> Mode;

    /// Makes the writes of a transaction last.
    fn persist(
        &self,
        transaction: TransactionId,
        writes: Vec<Written>,
    ) -> Pin<Box<dyn Future<Output = Result<Evidence, PersistError>> + Send>>;
}

/// How writes come into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// At once; there is nobody to ask.
    Local,
    /// When the source says so.
    Remote,
}

/// What is known after writes were made to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// They are synced already.
    Synced,
    /// The source will retire the transaction together with the rows.
    Coming,
}

/// One write, as it was shown.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) collection: CollectionId,
    pub(crate) key: Key,
    /// The row as it is after the whole transaction; none if it is deleted.
    pub(crate) row: Option<Record>,
    /// Whether the row is new.
    pub(crate) is_insert: bool,
}

/// How far a transaction has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// It is shown, and on its way.
    Persisting,
    /// It lasts, and came back from its source.
    Completed,
    /// It could not be made to last, or was taken back. It is not shown any more.
    Failed(PersistError),
}

/// A transaction that is shown, and how it fares.
#[derive(Clone, Debug)]
#[must_use = "a write may fail later; look at it, or say with `let _` that nobody will"]
pub struct Transaction {
    pub(crate) state: watch::Receiver<TransactionState>,
}

impl Transaction {
    /// How far it has come.
    #[must_use]
    pub fn state(&self) -> TransactionState {
        self.state.borrow().clone()
    }

    /// Waits until it has come to its end.
    ///
    /// # Errors
    /// If it could not be made to last.
    pub async fn settled(&self) -> Result<(), PersistError> {
        let mut state = self.state.clone();
        let is_over = |state: &TransactionState| *state != TransactionState::Persisting;
        match state.wait_for(is_over).await.as_deref() {
            Ok(TransactionState::Failed(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(PersistError::fatal("the database is gone")),
        }
    }
}

/// The writes of a transaction, before they are shown.
pub struct Writes {
    db: Db,
    mutations: Vec<Mutation>,
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writes").field("mutations", &self.mutations).finish_non_exhaustive()
    }
}

impl Writes {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, mutations: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If there is no collection of such rows.
    pub fn insert<R: Row>(&mut self, row: R) -> Result<(), DbError> {
        let collection = self.db.find(R::NAME)?;
        self.push(collection, MutationKind::Insert(Record::typed(row)));
        Ok(())
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
        let Some(row) = self.db.row::<R>(collection, &key) else {
            let collection = R::NAME.into();
            return Err(query::WriteError::UnknownKey { write: "update", collection, key }.into());
        };
        let mut changed = (*row).clone();
        change(&mut changed);
        let columns = differences(&*row, &changed);
        self.push(collection, MutationKind::Update(key, columns));
        Ok(())
    }

    /// Removes a row.
    ///
    /// # Errors
    /// If there is no collection of such rows.
    pub fn delete<R: Row>(&mut self, key: impl Into<Key>) -> Result<(), DbError> {
        let collection = self.db.find(R::NAME)?;
        self.push(collection, MutationKind::Delete(key.into()));
        Ok(())
    }

    pub(crate) fn into_mutations(self) -> Vec<Mutation> {
        self.mutations
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
    /// None once it has been committed.
    id: Option<TransactionId>,
    rows: Vec<Touched>,
}

/// A row that a transaction wrote to.
#[derive(Debug)]
struct Touched {
    collection: CollectionId,
    key: Key,
    is_insert: bool,
}

impl OpenTransaction {
    pub(crate) fn new(db: Db) -> Self {
        let begin = |database: &mut query::Database| {
            Ok::<_, std::convert::Infallible>((database.begin(), query::Published::default()))
        };
        let Ok(id) = db.change(begin);
        Self { db, id: Some(id), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If there is a row of its key; earlier writes of the transaction stay.
    pub fn insert<R: Row>(&mut self, row: R) -> Result<(), DbError> {
        self.one(|writes| writes.insert(row))
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
        self.one(|writes| writes.update(key, change))
    }

    /// Removes a row.
    ///
    /// # Errors
    /// If there is no such row; earlier writes of the transaction stay.
    pub fn delete<R: Row>(&mut self, key: impl Into<Key>) -> Result<(), DbError> {
        self.one(|writes| writes.delete::<R>(key))
    }

    /// Begins to make its writes last.
    ///
    /// # Errors
    /// If they cannot be written together; then they are taken back.
    pub fn commit(mut self) -> Result<Transaction, DbError> {
        let writer = self.writer()?;
        let id = self.id.take();
        let (Some(writer), Some(id)) = (writer, id) else {
            id.into_iter().for_each(|id| end(&self.db, id));
            let (_, state) = watch::channel(TransactionState::Completed);
            return Ok(Transaction { state });
        };
        let rows = std::mem::take(&mut self.rows);
        let written = self.db.look(|database| {
            let row = |Touched { collection, key, is_insert }: Touched| {
                let row = database.get(collection, &key, View::Visible);
                let row = row.map(|entry| entry.record.clone());
                Written { collection, key, row, is_insert }
            };
            // A row that came and went within the transaction never was.
            let is_any = |written: &Written| written.row.is_some() || !written.is_insert;
            rows.into_iter().map(row).filter(is_any).collect()
        });
        Ok(start(&self.db, &writer, id, written))
    }

    /// Shows its writes until work that is done elsewhere is over: then they are synced, or the
    /// work has failed.
    pub(crate) fn commit_by(
        mut self,
        work: Pin<Box<dyn Future<Output = Result<(), PersistError>> + Send>>,
    ) -> Transaction {
        let (sender, state) = watch::channel(TransactionState::Persisting);
        let (db, id) = (self.db.clone(), self.id.take());
        let sys = db.sys().clone();
        sys.spawn.task("action", async move {
            let outcome = work.await;
            id.into_iter().for_each(|id| end(&db, id));
            sender.send_replace(match outcome {
                Ok(()) => TransactionState::Completed,
                Err(error) => TransactionState::Failed(error),
            });
        });
        Transaction { state }
    }

    /// Takes all its writes back.
    pub fn roll_back(self) {}

    fn one(
        &mut self,
        write: impl FnOnce(&mut Writes) -> Result<(), DbError>,
    ) -> Result<(), DbError> {
        let mut writes = Writes::new(self.db.clone());
        write(&mut writes)?;
        self.mutate(writes.mutations)
    }

    pub(crate) fn mutate(&mut self, mutations: Vec<Mutation>) -> Result<(), DbError> {
        let Some(id) = self.id else { return Ok(()) };
        let rows = self.db.change(|database| {
            let rows: Vec<_> =
                mutations.iter().map(|mutation| touched(database, mutation)).collect();
            Ok::<_, query::WriteError>((rows, database.mutate(id, mutations)?))
        })?;
        for row in rows {
            let is_same = |own: &Touched| own.collection == row.collection && own.key == row.key;
            if !self.rows.iter().any(is_same) {
                self.rows.push(row);
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
        if let Some(id) = self.id.take() {
            end(&self.db, id);
        }
    }
}

/// Which row a mutation writes to.
fn touched(database: &query::Database, mutation: &Mutation) -> Touched {
    let collection = mutation.collection;
    match &mutation.write {
        MutationKind::Insert(record) => {
            let key = record.get(database.schema(collection).key()).into_owned();
            Touched { collection, key, is_insert: true }
        }
        MutationKind::Update(key, _) | MutationKind::Delete(key) => {
            Touched { collection, key: key.clone(), is_insert: false }
        }
    }
}

fn start(
    db: &Db,
    writer: &Arc<dyn Writer>,
    id: TransactionId,
    written: Vec<Written>,
) -> Transaction {
    let (sender, state) = watch::channel(TransactionState::Persisting);
    if writer.mode() == Mode::Local {
        crate::source::sync_at_once(db, id, written);
        sender.send_replace(TransactionState::Completed);
        return Transaction { state };
    }
    let (db, persisted) = (db.clone(), writer.persist(id, written));
    let sys = db.sys().clone();
    sys.spawn.task("transaction", async move {
        let outcome = match persisted.await {
            // The source has retired it already, or does with the next tick.
            Ok(Evidence::Coming) => TransactionState::Completed,
            Ok(Evidence::Synced) => {
                end(&db, id);
                TransactionState::Completed
            }
            Err(error) => {
                end(&db, id);
                TransactionState::Failed(error)
            }
        };
        sender.send_replace(outcome);
    });
    Transaction { state }
}

fn end(db: &Db, id: TransactionId) {
    let ended = db.change(|database| Ok::<_, std::convert::Infallible>(((), database.end(id))));
    let Ok(()) = ended;
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
