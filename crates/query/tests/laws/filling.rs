//! A tick that fills an empty collection goes a shorter way. It must lead to the same place.

use query::{
    CollectionId, Database, Mutation, MutationKind, Query, QueryId, Schema, Tick, Value, View,
    Write,
};

struct Rows {
    db: Database,
    id: CollectionId,
    live: QueryId,
}

/// No synced rows; a pending one of key 3, and a query that watches.
fn rows() -> Rows {
    let mut db = Database::new();
    let id = db.collection("rows", Schema::open("id")).unwrap();
    let live = Query::from_json(r#"{"from":{"col":"rows","as":"r"}}"#).unwrap();
    let live = db.live(&live).unwrap();
    let write = MutationKind::Insert(db.record(id, r#"{"id":3,"n":-1}"#).unwrap());
    let transaction = db.begin();
    db.mutate(transaction, vec![Mutation { collection: id, write }]).unwrap();
    Rows { db, id, live }
}

impl Rows {
    fn puts(&mut self, rows: &[(i64, i64)]) -> Vec<(CollectionId, Write)> {
        let put = |(key, n): &(i64, i64)| {
            let record = self.db.record(self.id, &format!(r#"{{"id":{key},"n":{n}}}"#)).unwrap();
            (self.id, Write::Put(record, Default::default()))
        };
        rows.iter().map(put).collect()
    }

    fn apply(&mut self, writes: Vec<(CollectionId, Write)>) -> usize {
        let published = self.db.apply(Tick { writes, retires: Vec::new() }).unwrap();
        published.queries.iter().map(|(_, changes)| changes.len()).sum()
    }

    fn all(&self) -> String {
        let shown: Vec<_> = self.db.result(self.live).collect();
        let synced: Vec<_> =
            (-1..50).map(|key| self.db.get(self.id, &Value::Int(key), View::Synced)).collect();
        format!("{shown:?} {synced:?}")
    }
}

#[test]
fn rows_at_once_are_the_rows_one_by_one() {
    for count in 0..24 {
        let ascending: Vec<_> = (0..count).map(|key| (key, key * 7)).collect();
        let descending: Vec<_> = ascending.iter().rev().copied().collect();
        let twice: Vec<_> =
            ascending.iter().flat_map(|(key, n)| [(*key, -9), (*key, *n)]).collect();
        for order in [ascending, descending, twice] {
            let (mut at_once, mut one_by_one) = (rows(), rows());
            let writes = at_once.puts(&order);
            let told = at_once.apply(writes);
            for write in one_by_one.puts(&order) {
                one_by_one.apply(vec![write]);
            }
            assert_eq!(at_once.all(), one_by_one.all(), "{order:?}");
            // What is pending hides the synced row of its key, which nobody is told of.
            let hidden = usize::from(count > 3);
            assert_eq!(told, usize::try_from(count).unwrap() - hidden, "{order:?}");
        }
    }
}

#[test]
fn a_bad_row_among_many_leaves_the_collection_empty() {
    for place in 0..20 {
        let mut rows = rows();
        let before = rows.all();
        let order: Vec<_> = (0..20).map(|key| (key, key)).collect();
        let mut writes = rows.puts(&order);
        let record = rows.db.record(rows.id, r#"{"n":1}"#).unwrap();
        writes.insert(place, (rows.id, Write::Put(record, Default::default())));
        rows.db.apply(Tick { writes, retires: Vec::new() }).unwrap_err();
        assert_eq!(rows.all(), before);
    }
}
