//! Optimistic transactions by name: each is a defect that `@tanstack/db` 0.15 has, and what is
//! right here.

use query::{
    CollectionId, Database, Mutation, MutationKind, Schema, Tick, TransactionId, Value, View, Write,
};

struct Rows {
    db: Database,
    id: CollectionId,
}

/// A collection with one row.
fn rows(json: &str) -> Rows {
    let mut db = Database::new();
    let id = db.collection("rows", Schema::open("id")).unwrap();
    let mut rows = Rows { db, id };
    rows.sync(json, &[]);
    rows
}

impl Rows {
    fn sync(&mut self, json: &str, retires: &[TransactionId]) {
        let record = self.db.record(self.id, json).unwrap();
        let writes = vec![(self.id, Write::Put(record, Default::default()))];
        self.db.apply(Tick { writes, retires: retires.into() }).unwrap();
    }

    /// A transaction that sets one column of row 1.
    fn set(&mut self, column: &str, value: i64) -> TransactionId {
        let transaction = self.db.begin();
        self.write(
            transaction,
            MutationKind::Update(1.into(), vec![(column.into(), value.into())]),
        );
        transaction
    }

    fn write(&mut self, transaction: TransactionId, write: MutationKind) {
        let mutation = Mutation { collection: self.id, write };
        self.db.mutate(transaction, vec![mutation]).unwrap();
    }

    /// Row 1 as JSON.
    fn row(&self, view: View) -> String {
        let shown = self.db.get(self.id, &Value::Int(1), view);
        shown.map_or("none".into(), |row| {
            let tuple = row.record.to_tuple();
            let fields = tuple.present().map(|(name, value)| (name, value.clone()));
            Value::object(fields).to_string()
        })
    }

    #[track_caller]
    fn check(&self, expected: &str) {
        assert_eq!(self.row(View::Visible), expected);
    }
}

#[test]
fn a_remote_change_to_another_field_shows_through() {
    let mut rows = rows(r#"{"id":1,"a":0,"b":0}"#);
    let set = rows.set("a", 1);
    rows.sync(r#"{"id":1,"a":0,"b":9}"#, &[]);
    rows.check(r#"{"id":1,"a":1,"b":9}"#);
    rows.db.end(set);
    rows.check(r#"{"id":1,"a":0,"b":9}"#);
}

#[test]
fn a_remote_field_that_nobody_knew_shows_through() {
    let mut rows = rows(r#"{"id":1,"a":0}"#);
    rows.set("a", 1);
    rows.sync(r#"{"id":1,"a":0,"new":9}"#, &[]);
    rows.check(r#"{"id":1,"a":1,"new":9}"#);
}

#[test]
fn the_middle_of_three_rolls_back_alone() {
    let mut rows = rows(r#"{"id":1,"a":0,"b":0,"c":0}"#);
    let (first, second, third) = (rows.set("a", 1), rows.set("b", 2), rows.set("c", 3));
    rows.db.end(second);
    rows.check(r#"{"id":1,"a":1,"b":0,"c":3}"#);
    rows.db.end(first);
    rows.check(r#"{"id":1,"a":0,"b":0,"c":3}"#);
    rows.db.end(third);
    rows.check(r#"{"id":1,"a":0,"b":0,"c":0}"#);
}

#[test]
fn of_two_writes_to_one_field_the_later_transaction_wins_whenever_it_wrote() {
    let mut rows = rows(r#"{"id":1,"a":0}"#);
    let (first, second) = (rows.db.begin(), rows.db.begin());
    let set = |value: i64| MutationKind::Update(1.into(), vec![("a".into(), value.into())]);
    rows.write(second, set(2));
    rows.write(first, set(1));
    rows.check(r#"{"id":1,"a":2}"#);
    rows.db.end(second);
    rows.check(r#"{"id":1,"a":1}"#);
}

#[test]
fn sync_is_never_held_back() {
    let mut rows = rows(r#"{"id":1,"a":0,"b":0}"#);
    let set = rows.set("a", 1);
    for b in 1..4 {
        rows.sync(&format!(r#"{{"id":1,"a":0,"b":{b}}}"#), &[]);
        rows.sync(&format!(r#"{{"id":2,"b":{b}}}"#), &[]);
        assert_eq!(rows.row(View::Synced), format!(r#"{{"id":1,"a":0,"b":{b}}}"#));
        rows.check(&format!(r#"{{"id":1,"a":1,"b":{b}}}"#));
        assert_eq!(rows.db.len(rows.id, View::Visible), 2);
    }
    assert!(rows.db.is_open(set));
}

#[test]
fn a_confirmed_write_does_not_flicker() {
    let mut rows = rows(r#"{"id":1,"a":0}"#);
    let live = query::Query::from_json(r#"{"from":{"col":"rows","as":"r"}}"#).unwrap();
    let live = rows.db.live(&live).unwrap();
    let set = rows.set("a", 1);
    rows.sync(r#"{"id":1,"a":1}"#, &[set]);
    rows.check(r#"{"id":1,"a":1}"#);
    assert!(!rows.db.is_open(set));
    let pending: Vec<_> = rows.db.result(live).map(|row| row.meta.is_pending).collect();
    assert_eq!(pending, [false]);
}

#[test]
fn pending_updates_go_with_a_row_that_is_deleted_and_lie_on_it_when_it_returns() {
    let mut rows = rows(r#"{"id":1,"a":0}"#);
    rows.set("a", 1);
    let writes = vec![(rows.id, Write::Truncate)];
    rows.db.apply(Tick { writes, retires: vec![] }).unwrap();
    rows.check("none");
    rows.sync(r#"{"id":1,"a":7,"b":8}"#, &[]);
    rows.check(r#"{"id":1,"a":1,"b":8}"#);
}
