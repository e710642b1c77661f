//! A database and the model of it, side by side.

use std::{collections::BTreeMap, sync::Arc};

use query::{
    Change, ChangeKind, CollectionId, Database, Entry, Meta, Mutation, MutationKind, Published,
    Query, QueryId, Record, Schema, Tick, TransactionId, Value, View, Write, WriteError,
};

use crate::{
    choices::Choices,
    generate,
    model::{COLLECTIONS, Fact, Local, Model, Row, Synced},
    naive,
};

/// Something that happens to a database.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Tick { writes: Vec<(usize, Synced)>, retires: Vec<u64> },
    Begin,
    Mutate(u64, Vec<(usize, Local)>),
    End(u64),
}

/// Rows by key, as somebody knows them who was only told of changes.
pub(crate) type Folded = BTreeMap<Value, Arc<Entry>>;

pub(crate) struct World {
    pub(crate) db: Database,
    pub(crate) model: Model,
    collections: Vec<CollectionId>,
    transactions: Vec<TransactionId>,
}

/// Any step. Transactions are named by their number, which may be of one that ended.
pub(crate) fn step(c: &mut Choices, begun: &mut u64) -> Step {
    let any = |c: &mut Choices, begun: u64| 1 + c.below(begun.max(1) as usize) as u64;
    match c.below(10) {
        5 => {
            *begun += 1;
            Step::Begin
        }
        6..9 if *begun > 0 => Step::Mutate(any(c, *begun), generate::local(c)),
        9 if *begun > 0 => Step::End(any(c, *begun)),
        kind => {
            let retires = (kind == 4 && *begun > 0).then(|| any(c, *begun));
            Step::Tick { writes: generate::synced(c, 5), retires: retires.into_iter().collect() }
        }
    }
}

pub(crate) fn steps(c: &mut Choices, most: usize) -> Vec<Step> {
    let count = 1 + c.below(most);
    let mut begun = c.below(3) as u64;
    let mut steps = vec![Step::Begin; begun as usize];
    steps.extend((0..count).map(|_| step(c, &mut begun)));
    steps
}

impl World {
    pub(crate) fn new() -> Self {
        let mut db = Database::new();
        let add = |name: &&str| db.collection(name, Schema::open("id")).unwrap();
        let collections = COLLECTIONS.iter().map(add).collect();
        Self { db, model: Model::default(), collections, transactions: Vec::new() }
    }

    /// Takes a step; what must be refused is, and nothing else.
    pub(crate) fn take(&mut self, step: &Step) -> Result<Published, WriteError> {
        let (expected, published) = match step {
            Step::Tick { writes, retires } => {
                let expected = self.model.apply(writes, retires);
                (expected, self.tick(writes, retires))
            }
            Step::Begin => {
                self.transactions.push(self.db.begin());
                self.model.open.insert(self.transactions.len() as u64, Vec::new());
                return Ok(Published::default());
            }
            Step::Mutate(id, writes) => {
                let expected = self.model.mutate(*id, writes);
                (expected, self.mutate(*id, writes))
            }
            Step::End(id) => {
                self.model.open.remove(id);
                return Ok(self.db.end(self.transaction(*id)));
            }
        };
        assert_eq!(expected.is_ok(), published.is_ok(), "{step:?}: {published:?}");
        published
    }

    pub(crate) fn tick(
        &mut self,
        writes: &[(usize, Synced)],
        retires: &[u64],
    ) -> Result<Published, WriteError> {
        let writes = writes.iter().map(|(collection, write)| {
            let meta = Meta::default();
            let write = match write {
                Synced::Put(row) => Write::Put(self.record(*collection, row), meta),
                Synced::Insert(row) => Write::Insert(self.record(*collection, row), meta),
                Synced::Delete(key) => Write::Delete(key.clone()),
                Synced::Truncate => Write::Truncate,
            };
            (self.collections[*collection], write)
        });
        let writes = writes.collect();
        let retires = retires.iter().map(|id| self.transaction(*id)).collect();
        self.db.apply(Tick { writes, retires })
    }

    fn mutate(&mut self, id: u64, writes: &[(usize, Local)]) -> Result<Published, WriteError> {
        let mutations = writes.iter().map(|(collection, write)| {
            let write = match write {
                Local::Insert(row) => MutationKind::Insert(self.record(*collection, row)),
                Local::Delete(key) => MutationKind::Delete(key.clone()),
                Local::Update(key, columns) => {
                    let column = |(name, value): (&String, &Value)| (name.into(), value.clone());
                    MutationKind::Update(key.clone(), columns.iter().map(column).collect())
                }
            };
            Mutation { collection: self.collections[*collection], write }
        });
        let mutations = mutations.collect();
        self.db.mutate(self.transaction(id), mutations)
    }

    pub(crate) fn collection(&self, index: usize) -> CollectionId {
        self.collections[index]
    }

    fn transaction(&self, id: u64) -> TransactionId {
        self.transactions[id as usize - 1]
    }

    fn record(&mut self, collection: usize, row: &Row) -> Record {
        let json = Value::object(row.iter().map(|(name, value)| (name, value.clone())));
        self.db.record(self.collections[collection], &json.to_string()).unwrap()
    }

    /// Rows of both views are what the model says.
    pub(crate) fn check_rows(&self) {
        for (index, collection) in self.collections.iter().enumerate() {
            for view in [View::Visible, View::Synced] {
                let rows: Vec<_> =
                    self.db.rows(*collection, view).map(|entry| fact(entry)).collect();
                let expected: Vec<_> =
                    self.model.rows(index, view).iter().map(|row| (**row).clone()).collect();
                assert_eq!(rows, expected, "{view:?} rows of {}", COLLECTIONS[index]);
                assert_eq!(self.db.len(*collection, view), expected.len());
            }
        }
    }

    pub(crate) fn result(&self, id: QueryId) -> Vec<Fact> {
        self.db.result(id).map(|entry| fact(entry)).collect()
    }

    /// A live query has the rows that reading everything again would find.
    #[track_caller]
    pub(crate) fn check_live(&self, id: QueryId, query: &Query) {
        let expected = naive::answer(query, &self.model);
        assert_eq!(self.result(id), expected, "live {}\n{}", query.to_json(), self.db.explain(id));
        assert_eq!(self.db.result_len(id), expected.len());
        for entry in self.db.result(id) {
            assert_eq!(self.db.result_get(id, &entry.key), Some(entry));
        }
    }

    #[track_caller]
    pub(crate) fn check_once(&mut self, query: &Query) {
        let rows: Vec<_> = self.db.once(query).unwrap().iter().map(|entry| fact(entry)).collect();
        assert_eq!(rows, naive::answer(query, &self.model), "once {}", query.to_json());
    }
}

pub(crate) fn fact(entry: &Entry) -> Fact {
    let tuple = entry.record.to_tuple();
    let row = tuple.present().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    Fact { key: entry.key.clone(), row, is_pending: entry.meta.is_pending }
}

/// What was published of one query.
pub(crate) fn changes_of(published: &Published, id: QueryId) -> &[Change] {
    let mut own = published.queries.iter().filter(|(query, _)| *query == id);
    let changes = own.next().map_or(&[][..], |(_, changes)| changes.as_slice());
    assert!(own.next().is_none(), "one query, told twice");
    changes
}

/// Takes changes in; each must be what its kind says, and no key may be spoken of twice.
#[track_caller]
pub(crate) fn fold(folded: &mut Folded, changes: &[Change]) {
    let mut told = std::collections::BTreeSet::new();
    for change in changes {
        assert!(told.insert(&change.key), "{} is told twice in {changes:?}", change.key);
        let before = match &change.new {
            Some(new) => folded.insert(change.key.clone(), new.clone()),
            None => folded.remove(&change.key),
        };
        let kind = match (&before, &change.new) {
            (None, Some(_)) => ChangeKind::Enter,
            (Some(_), Some(_)) => ChangeKind::Update,
            (Some(_), None) => ChangeKind::Exit,
            (None, None) => panic!("{} never was and is not: {change:?}", change.key),
        };
        assert_eq!(change.kind(), kind, "{change:?}");
        assert_eq!(before, change.old, "how it was: {change:?}");
        assert!(change.new.as_ref().is_none_or(|new| new.key == change.key), "{change:?}");
    }
}

/// What was folded is what the live query shows.
#[track_caller]
pub(crate) fn check_folded(folded: &Folded, db: &Database, live: QueryId) {
    let shown: Folded = db.result(live).map(|row| (row.key.clone(), row.clone())).collect();
    assert_eq!(*folded, shown, "changes do not come to the result");
}
