//! The table, and everything that has happened to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The columns of a row, as Postgres writes them.
pub type Cells = BTreeMap<String, Option<String>>;

/// One thing to do in a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// A row, new or in place of another.
    Insert(Cells),
    /// Other values in some columns of the row with this key, which may be among them.
    Update {
        /// The key.
        id: String,
        /// The columns.
        set: Cells,
    },
    /// One row less.
    Delete(String),
}

/// The table.
#[derive(Clone, Debug)]
pub struct Table {
    rows: BTreeMap<String, Cells>,
    pub(crate) history: Vec<Happened>,
    lsn: u64,
    txid: u64,
}

/// One row before and after a transaction touched it.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) lsn: u64,
    pub(crate) position: u64,
    pub(crate) txid: u64,
    pub(crate) before: Option<Cells>,
    pub(crate) after: Option<Cells>,
    pub(crate) is_last: bool,
}

/// Names and types of all columns.
pub(crate) const COLUMNS: [(&str, &str, u8); 8] = [
    ("id", "int8", 0),
    ("text", "text", 0),
    ("done", "bool", 0),
    ("score", "float8", 0),
    ("tags", "text", 1),
    ("meta", "jsonb", 0),
    ("amount", "numeric", 0),
    ("owner", "text", 0),
];

impl Default for Table {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), history: Vec::new(), lsn: 1_000, txid: 700 }
    }
}

impl Table {
    /// The rows as they are now, in the order of their keys' texts.
    #[must_use]
    pub fn rows(&self) -> Vec<Cells> {
        self.rows.values().cloned().collect()
    }

    /// Does all of this in one transaction, and gives its number.
    pub fn transact(&mut self, operations: Vec<Operation>) -> u64 {
        self.lsn += 8;
        self.txid += 1;
        let first = self.history.len();
        for operation in operations {
            let (before, after) = self.perform(operation);
            if before == after {
                continue;
            }
            let position = 2 * (self.history.len() - first) as u64;
            let (lsn, txid) = (self.lsn, self.txid);
            self.history.push(Happened { lsn, position, txid, before, after, is_last: false });
        }
        if let Some(last) = self.history[first..].last_mut() {
            last.is_last = true;
        }
        self.txid
    }

    pub(crate) fn txid(&self) -> u64 {
        self.txid
    }

    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }

    fn perform(&mut self, operation: Operation) -> (Option<Cells>, Option<Cells>) {
        match operation {
            Operation::Insert(cells) => {
                let row: Cells = COLUMNS
                    .iter()
                    .map(|(name, ..)| ((*name).to_owned(), cells.get(*name).cloned().flatten()))
                    .collect();
                (self.rows.insert(key(&row), row.clone()), Some(row))
            }
            Operation::Update { id, set } => {
                let Some(before) = self.rows.remove(&id) else { return (None, None) };
                let mut after = before.clone();
                after.extend(set);
                self.rows.insert(key(&after), after.clone());
                (Some(before), Some(after))
            }
            Operation::Delete(id) => (self.rows.remove(&id), None),
        }
    }
}

/// The key of a row.
pub(crate) fn key(row: &Cells) -> String {
    row.get("id").cloned().flatten().unwrap_or_default()
}
