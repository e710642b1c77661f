//! What a database is to mean: synced rows, and the writes of open transactions on them in order.

use std::{collections::BTreeMap, rc::Rc};

use query::{Value, View};

/// The columns of a row that are there.
pub(crate) type Row = BTreeMap<String, Value>;

/// A row with its key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fact {
    pub(crate) key: Value,
    pub(crate) row: Row,
    pub(crate) is_pending: bool,
}

/// A synced write to a collection.
#[derive(Clone, Debug)]
pub(crate) enum Synced {
    Put(Row),
    Insert(Row),
    Delete(Value),
    Truncate,
}

/// A write of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    Insert(Row),
    Update(Value, Row),
    Delete(Value),
}

/// Collections by number, transactions by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) synced: [BTreeMap<Value, Row>; COLLECTIONS.len()],
    pub(crate) open: BTreeMap<u64, Vec<(usize, Local)>>,
}

pub(crate) const COLLECTIONS: [&str; 3] = ["users", "posts", "notes"];

/// A write that must be refused.
#[derive(Debug)]
pub(crate) struct Refused;

impl Model {
    pub(crate) fn apply(
        &mut self,
        writes: &[(usize, Synced)],
        retires: &[u64],
    ) -> Result<(), Refused> {
        let mut synced = self.synced.clone();
        for (collection, write) in writes {
            let rows = &mut synced[*collection];
            match write {
                Synced::Put(row) => drop(rows.insert(row["id"].clone(), row.clone())),
                Synced::Insert(row) => {
                    let before = rows.insert(row["id"].clone(), row.clone());
                    if before.is_some_and(|before| before != *row) {
                        return Err(Refused);
                    }
                }
                Synced::Delete(key) => drop(rows.remove(key)),
                Synced::Truncate => rows.clear(),
            }
        }
        self.synced = synced;
        retires.iter().for_each(|id| drop(self.open.remove(id)));
        Ok(())
    }

    pub(crate) fn mutate(&mut self, id: u64, writes: &[(usize, Local)]) -> Result<(), Refused> {
        let mut after = self.clone();
        for (collection, write) in writes {
            let visible = after.visible(*collection);
            let is_fine = match write {
                Local::Insert(row) => !visible.contains_key(&row["id"]),
                Local::Update(key, columns) => {
                    visible.contains_key(key) && columns.get("id").is_none_or(|id| id == key)
                }
                Local::Delete(key) => visible.contains_key(key),
            };
            if !is_fine {
                return Err(Refused);
            }
            after.open.get_mut(&id).ok_or(Refused)?.push((*collection, write.clone()));
        }
        *self = after;
        Ok(())
    }

    /// Rows as the user sees them, and whether something pending lies on each.
    fn visible(&self, collection: usize) -> BTreeMap<Value, (Row, bool)> {
        let synced = self.synced[collection].iter();
        let mut rows: BTreeMap<_, _> =
            synced.map(|(key, row)| (key.clone(), (row.clone(), false))).collect();
        for (_, write) in self.open.values().flatten().filter(|(own, _)| *own == collection) {
            match write {
                Local::Insert(row) => drop(rows.insert(row["id"].clone(), (row.clone(), true))),
                Local::Delete(key) => drop(rows.remove(key)),
                Local::Update(key, columns) => {
                    if let Some((row, is_pending)) = rows.get_mut(key) {
                        row.extend(columns.clone());
                        row.retain(|_, value| !matches!(value, Value::Missing));
                        *is_pending = true;
                    }
                }
            }
        }
        rows
    }

    pub(crate) fn rows(&self, collection: usize, view: View) -> Vec<Rc<Fact>> {
        let fact = |key: &Value, row: &Row, is_pending| {
            Rc::new(Fact { key: key.clone(), row: row.clone(), is_pending })
        };
        match view {
            View::Synced => {
                self.synced[collection].iter().map(|(key, row)| fact(key, row, false)).collect()
            }
            View::Visible => {
                let rows = self.visible(collection);
                rows.iter().map(|(key, (row, pending))| fact(key, row, *pending)).collect()
            }
        }
    }
}
