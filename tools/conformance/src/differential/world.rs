//! Random writes, kept to those that every sound engine answers alike.
//!
//! The world remembers the synced rows and the open transactions, and holds back what would only
//! tell designs apart (see the module's list of agreed deviations): no row has two writers at a
//! time, and a collection with a transaction on its way to the server syncs nothing but what that
//! transaction wrote.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{random::Random, schema::Table};

type Row = Map<String, Value>;

/// A row's place: its table, and its key as JSON text.
type Place = (usize, String);

/// The state that commands have led to, as far as choosing the next one needs it.
#[derive(Debug)]
pub(super) struct World<'a> {
    tables: &'a [Table],
    synced: Vec<BTreeMap<String, Row>>,
    transactions: Vec<Transaction>,
    /// Rows whose sync waits, in some designs, for the end of a transaction.
    waiting: BTreeSet<Place>,
    transactions_begun: usize,
}

#[derive(Debug)]
struct Transaction {
    name: String,
    state: State,
    /// What it made of each row it touched; `None` is a deletion.
    rows: BTreeMap<Place, Option<Row>>,
    /// Tables it ever tried to write to.
    tables: BTreeSet<usize>,
    /// Tables whose server has confirmed its rows.
    confirmed: BTreeSet<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Rows may still be written.
    Open,
    /// On its way to the server.
    Committed,
}

const ROWS_AT_FIRST_MAX: usize = 12;
const TRANSACTIONS_MAX: usize = 4;

impl<'a> World<'a> {
    /// The world, and the commands that create its collections.
    pub(super) fn create(tables: &'a [Table], random: &mut Random) -> (Self, Vec<Value>) {
        let mut world = Self {
            tables,
            synced: vec![BTreeMap::new(); tables.len()],
            transactions: Vec::new(),
            waiting: BTreeSet::new(),
            transactions_begun: 0,
        };
        let commands = (0..tables.len()).map(|table| world.create_collection(table, random));
        let commands = commands.collect();
        (world, commands)
    }

    fn create_collection(&mut self, table: usize, random: &mut Random) -> Value {
        for _ in 0..random.below(ROWS_AT_FIRST_MAX + 1) {
            let key = self.tables[table].key(random);
            let row = self.tables[table].row(&key, random);
            self.synced[table].insert(key.to_string(), row);
        }
        let rows: Vec<_> = self.synced[table].values().collect();
        json!({ "op": "collection", "name": self.tables[table].name, "key": "id", "init": rows })
    }

    /// One or a few commands that belong together; none when the choice fell on the impossible.
    pub(super) fn step(&mut self, random: &mut Random) -> Vec<Value> {
        let made = match random.weighted(&[45, 15, 12, 10, 12, 6]) {
            0 => self.sync(random),
            1 => self.begin(random),
            2 => self.mutate_again(random),
            3 => self.commit(random),
            4 => self.settle(random),
            _ => self.roll_back(random),
        };
        made.unwrap_or_default()
    }

    // Sync.

    fn sync(&mut self, random: &mut Random) -> Option<Vec<Value>> {
        let table = random.below(self.tables.len());
        if self.is_on_its_way(table) {
            return match random.below(15) {
                0 => self.truncate(table, random),
                _ => self.confirm(table, random),
            };
        }
        match random.below(30) {
            0 => self.truncate(table, random),
            1 => self.refused_sync(table, random),
            _ => Some(vec![self.plain_sync(table, random)]),
        }
    }

    fn plain_sync(&mut self, table: usize, random: &mut Random) -> Value {
        let mut writes = Vec::new();
        for _ in 0..1 + random.weighted(&[55, 25, 12, 8]) {
            let key = self.tables[table].key(random);
            let place = (table, key.to_string());
            if self.is_locked(&place) {
                continue;
            }
            self.write(&place, &key, random, &mut writes);
        }
        json!({ "op": "sync", "col": self.tables[table].name, "writes": writes })
    }

    fn write(&mut self, place: &Place, key: &Value, random: &mut Random, writes: &mut Vec<Value>) {
        let rows = &mut self.synced[place.0];
        let row = self.tables[place.0].row(key, random);
        let deletion = json!({ "type": "delete", "key": key });
        match (rows.contains_key(&place.1), random.below(10)) {
            // Deleting what is not there is allowed, and so is updating it.
            (false, 0) => writes.push(deletion),
            (false, 1) => writes.push(json!({ "type": "update", "value": row })),
            (false, _) => writes.push(json!({ "type": "insert", "value": row })),
            (true, 0..=2) => writes.push(deletion),
            (true, 3) => {
                writes.push(deletion);
                writes.push(json!({ "type": "insert", "value": row }));
            }
            // Inserting the very row that is there is an update that changes nothing.
            (true, 4) => writes.push(json!({ "type": "insert", "value": rows[&place.1] })),
            (true, _) => writes.push(json!({ "type": "update", "value": row })),
        }
        match writes.last().map(|last| &last["value"]) {
            Some(Value::Object(written)) => drop(rows.insert(place.1.clone(), written.clone())),
            _ => drop(rows.remove(&place.1)),
        }
    }

    /// An insert of a row that is there with other values.
    fn refused_sync(&mut self, table: usize, random: &mut Random) -> Option<Vec<Value>> {
        let rows: Vec<_> = self.synced[table].values().collect();
        if rows.is_empty() {
            return None;
        }
        let mut row = (*random.pick(&rows)).clone();
        row.insert("extra".to_owned(), json!(1));
        let write = json!({ "type": "insert", "value": row });
        Some(vec![json!({ "op": "sync", "col": self.tables[table].name, "writes": [write] })])
    }

    /// Starts the collection over, unless an open transaction changed one of its rows.
    fn truncate(&mut self, table: usize, random: &mut Random) -> Option<Vec<Value>> {
        let touched = self.transactions.iter().flat_map(|transaction| transaction.rows.keys());
        let mut touched = touched.filter(|place| place.0 == table);
        let has_changes = touched.any(|place| self.synced[table].contains_key(&place.1));
        if has_changes || self.waiting.iter().any(|place| place.0 == table) {
            return None;
        }
        let mut fresh = BTreeMap::new();
        for _ in 0..random.below(ROWS_AT_FIRST_MAX) {
            let key = self.tables[table].key(random);
            if !self.is_locked(&(table, key.to_string())) {
                fresh.insert(key.to_string(), self.tables[table].row(&key, random));
            }
        }
        let insert = |row| json!({ "type": "insert", "value": row });
        let writes: Vec<_> = fresh.values().map(insert).collect();
        self.synced[table] = fresh;
        let name = &self.tables[table].name;
        Some(vec![json!({ "op": "sync", "col": name, "truncate": true, "writes": writes })])
    }

    /// The server sends back what one transaction wrote to this table.
    fn confirm(&mut self, table: usize, random: &mut Random) -> Option<Vec<Value>> {
        let waits = |transaction: &&mut Transaction| {
            transaction.state == State::Committed
                && transaction.tables.contains(&table)
                && !transaction.confirmed.contains(&table)
        };
        let mut candidates: Vec<_> = self.transactions.iter_mut().filter(waits).collect();
        if candidates.is_empty() {
            return None;
        }
        let index = random.below(candidates.len());
        let transaction = &mut candidates[index];
        transaction.confirmed.insert(table);
        let mut writes = Vec::new();
        for (place, row) in transaction.rows.iter().filter(|(place, _)| place.0 == table) {
            let rows = &mut self.synced[table];
            match (row, rows.contains_key(&place.1)) {
                (Some(row), true) => writes.push(json!({ "type": "update", "value": row })),
                (Some(row), false) => writes.push(json!({ "type": "insert", "value": row })),
                (None, _) => writes.push(json!({ "type": "delete", "key": key_of(place) })),
            }
            match row {
                Some(row) => drop(rows.insert(place.1.clone(), row.clone())),
                None => drop(rows.remove(&place.1)),
            }
            self.waiting.insert(place.clone());
        }
        let name = &self.tables[table].name;
        Some(vec![json!({ "op": "sync", "col": name, "writes": writes })])
    }

    // Transactions.

    fn begin(&mut self, random: &mut Random) -> Option<Vec<Value>> {
        if self.transactions.len() == TRANSACTIONS_MAX {
            return None;
        }
        self.transactions_begun += 1;
        let name = format!("t{}", self.transactions_begun);
        let begin = json!({ "op": "begin", "tx": name });
        self.transactions.push(Transaction {
            name,
            state: State::Open,
            rows: BTreeMap::new(),
            tables: BTreeSet::new(),
            confirmed: BTreeSet::new(),
        });
        Some(vec![begin, self.mutate(self.transactions.len() - 1, random)])
    }

    fn mutate_again(&mut self, random: &mut Random) -> Option<Vec<Value>> {
        let index = self.pick(State::Open, random)?;
        Some(vec![self.mutate(index, random)])
    }

    fn mutate(&mut self, index: usize, random: &mut Random) -> Value {
        let mut mutations = Vec::new();
        if random.chance(6) {
            mutations.extend(self.refused_mutation(index, random).into_iter().flatten());
        }
        let is_refused = !mutations.is_empty();
        for _ in 0..random.between(1, 3) {
            let table = random.below(self.tables.len());
            let key = self.tables[table].key(random);
            let place = (table, key.to_string());
            if is_refused || self.is_locked_for(index, &place) {
                continue;
            }
            self.transactions[index].tables.insert(table);
            let count = 1 + random.weighted(&[80, 20]);
            mutations.extend((0..count).map(|_| self.mutation(index, &place, &key, random)));
        }
        json!({ "op": "mutate", "tx": self.transactions[index].name, "muts": mutations })
    }

    /// One change to a row, which is then the transaction's own.
    fn mutation(&mut self, index: usize, place: &Place, key: &Value, random: &mut Random) -> Value {
        let table = &self.tables[place.0];
        let own = self.transactions[index].rows.get(place).cloned();
        let visible = own.unwrap_or_else(|| self.synced[place.0].get(&place.1).cloned());
        let (command, row) = match visible {
            None => {
                let row = table.row(key, random);
                (json!({ "col": table.name, "type": "insert", "value": row }), Some(row))
            }
            Some(_) if random.chance(30) => {
                (json!({ "col": table.name, "type": "delete", "key": key }), None)
            }
            Some(mut row) => {
                let set = table.patch(random);
                row.extend(set.clone());
                (json!({ "col": table.name, "type": "update", "key": key, "set": set }), Some(row))
            }
        };
        self.transactions[index].rows.insert(place.clone(), row);
        command
    }

    /// A change that is fine and one that is not: neither may be seen afterwards.
    fn refused_mutation(&mut self, index: usize, random: &mut Random) -> Option<[Value; 2]> {
        let table = random.below(self.tables.len());
        let rows: Vec<_> = self.synced[table].iter().collect();
        let (key, row) = if rows.is_empty() { return None } else { random.pick(&rows) };
        let place = (table, (*key).clone());
        if self.is_locked(&place) {
            return None;
        }
        let name = &self.tables[table].name;
        let key = key_of(&place);
        let fine = json!({ "col": name, "type": "update", "key": key, "set": { "extra": 1 } });
        let refused = match random.below(4) {
            0 => json!({ "col": name, "type": "insert", "value": row }),
            1 => json!({ "col": name, "type": "update", "key": "none", "set": { "extra": 1 } }),
            2 => json!({ "col": name, "type": "update", "key": key, "set": { "id": "other" } }),
            _ => json!({ "col": name, "type": "delete", "key": "none" }),
        };
        self.transactions[index].tables.insert(table);
        Some([fine, refused])
    }

    /// Hands a transaction over to the server, if there is anything in it.
    fn commit(&mut self, random: &mut Random) -> Option<Vec<Value>> {
        let index = self.pick(State::Open, random)?;
        let mut rows = self.transactions[index].rows.iter();
        if rows.all(|(place, row)| self.synced[place.0].get(&place.1) == row.as_ref()) {
            return None;
        }
        self.transactions[index].state = State::Committed;
        Some(vec![json!({ "op": "commit", "tx": self.transactions[index].name })])
    }

    fn settle(&mut self, random: &mut Random) -> Option<Vec<Value>> {
        let index = self.pick(State::Committed, random)?;
        let is_fine = !self.transactions[index].confirmed.is_empty() || random.chance(60);
        let transaction = self.end(index);
        Some(vec![json!({ "op": "settle", "tx": transaction.name, "ok": is_fine })])
    }

    fn roll_back(&mut self, random: &mut Random) -> Option<Vec<Value>> {
        let state = *random.pick(&[State::Open, State::Open, State::Committed]);
        let index = self.pick(state, random)?;
        if !self.transactions[index].confirmed.is_empty() {
            return None;
        }
        let transaction = self.end(index);
        Some(vec![json!({ "op": "rollback", "tx": transaction.name })])
    }

    /// Some transaction in this state.
    fn pick(&self, state: State, random: &mut Random) -> Option<usize> {
        let is_fitting = |index: &usize| self.transactions[*index].state == state;
        let fitting: Vec<_> = (0..self.transactions.len()).filter(is_fitting).collect();
        (!fitting.is_empty()).then(|| *random.pick(&fitting))
    }

    fn end(&mut self, index: usize) -> Transaction {
        let transaction = self.transactions.remove(index);
        for table in 0..self.tables.len() {
            if !self.is_on_its_way(table) {
                self.waiting.retain(|place| place.0 != table);
            }
        }
        transaction
    }

    // Questions.

    fn is_on_its_way(&self, table: usize) -> bool {
        let mut committed = self.transactions.iter().filter(|own| own.state == State::Committed);
        committed.any(|transaction| transaction.tables.contains(&table))
    }

    fn is_locked(&self, place: &Place) -> bool {
        let mut transactions = self.transactions.iter();
        self.waiting.contains(place) || transactions.any(|other| other.rows.contains_key(place))
    }

    /// Whether this row belongs to another transaction.
    fn is_locked_for(&self, index: usize, place: &Place) -> bool {
        !self.transactions[index].rows.contains_key(place) && self.is_locked(place)
    }
}

fn key_of(place: &Place) -> Value {
    serde_json::from_str(&place.1).expect("a place holds its key as JSON")
}
