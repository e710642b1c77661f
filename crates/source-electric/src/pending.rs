//! Rows that wait until all of their batch is there.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use live::{Batch, Key, Kind, Row, Sink};
use serde_json::{Map, Value};

use crate::{
    caps::{ROWS_WAITING_MAX, TXIDS_SEEN_MAX},
    failure::Failure,
    message::{Change, Operation},
    schema::Columns,
    wanted::Wanted,
};

/// What a batch comes to so far, row by row.
#[derive(Debug)]
pub(crate) struct Pending<R> {
    /// Whether the rows that were shown go.
    truncates: bool,
    rows: Vec<(Key, Option<R>)>,
    places: HashMap<Key, usize, FixedState>,
    txids: VecDeque<u64>,
}

/// A change that cannot be shown. It never holds a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misfit(String);

impl<R> Default for Pending<R> {
    fn default() -> Self {
        Self {
            truncates: false,
            rows: Vec::new(),
            places: HashMap::default(),
            txids: VecDeque::new(),
        }
    }
}

impl<R: Row> Pending<R> {
    /// From here on it counts what follows alone.
    pub(crate) fn truncate(&mut self) {
        *self = Self { truncates: true, ..Self::default() };
    }

    /// Takes a change in, if its row is wanted. A row that does not fit is an inner error, and is
    /// left out.
    pub(crate) fn take(
        &mut self,
        change: Change,
        columns: &Columns,
        sink: &Sink,
        is_wanted: impl FnOnce(&R) -> bool,
    ) -> Result<Result<(), Misfit>, Failure> {
        self.note(&change.txids);
        if self.rows.len() >= ROWS_WAITING_MAX {
            let why = format!(
                "more than {ROWS_WAITING_MAX} rows came before the server was up to date; \
                 narrow the shape with `where_`"
            );
            return Err(Failure::Final(why));
        }
        let Change { operation, value, .. } = change;
        let key = columns.read_one(R::KEY, value.get(R::KEY)).and_then(as_key);
        let read = match (operation, &key) {
            (Operation::Insert, _) => read_row::<R>(columns, value, None),
            (Operation::Update, None) => read_row::<R>(columns, value, None),
            (Operation::Update, Some(key)) => read_row(columns, value, self.earlier(key, sink)),
            (Operation::Delete, Some(key)) => {
                self.remove(key.clone(), sink);
                return Ok(Ok(()));
            }
            (Operation::Delete, None) => Err(Misfit(format!("it lacks its key, {:?}", R::KEY))),
        };
        // A row that cannot be shown as it is now is not shown as it was.
        match (&read, key) {
            (Ok(row), _) if is_wanted(row) => self.set(row.key(), Some(row.clone())),
            (Ok(row), _) => self.remove(row.key(), sink),
            (Err(_), Some(key)) => self.remove(key, sink),
            (Err(_), None) => {}
        }
        Ok(read.map(|_| ()))
    }

    /// The batch as it stands, and the transactions in it. What follows is another.
    pub(crate) fn end(&mut self) -> (Option<Batch>, VecDeque<u64>) {
        let Self { truncates, rows, txids, .. } = std::mem::take(self);
        if !truncates && rows.is_empty() {
            return (None, txids);
        }
        let begin = if truncates { Batch::begin().truncate() } else { Batch::begin() };
        let batch = rows.into_iter().fold(begin, |batch, (key, row)| match row {
            Some(row) => batch.put(row),
            None => batch.delete(key),
        });
        (Some(batch), txids)
    }

    /// Remembers transactions, but no more than anybody can ask for.
    pub(crate) fn note(&mut self, txids: &[u64]) {
        for txid in txids {
            if self.txids.back() != Some(txid) {
                self.txids.push_back(*txid);
            }
        }
        while self.txids.len() > TXIDS_SEEN_MAX {
            self.txids.pop_front();
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        !self.truncates && self.rows.is_empty()
    }

    /// Takes a row out, if it is there.
    pub(crate) fn remove(&mut self, key: Key, sink: &Sink) {
        if self.earlier(&key, sink).is_some() {
            self.set(key, None);
        }
    }

    /// Tells which rows will be there and which will not.
    pub(crate) fn tell(&self, wanted: &mut Wanted) {
        if self.truncates {
            wanted.forget_shown();
        }
        self.rows.iter().for_each(|(key, row)| wanted.note(key, row.is_some()));
    }

    fn earlier(&self, key: &Key, sink: &Sink) -> Option<R> {
        match self.places.get(key) {
            Some(place) => self.rows[*place].1.clone(),
            None if self.truncates => None,
            None => Some((*sink.row::<R>(key.clone()).ok()??).clone()),
        }
    }

    fn set(&mut self, key: Key, row: Option<R>) {
        match self.places.get(&key) {
            Some(place) => self.rows[*place].1 = row,
            None => {
                self.places.insert(key.clone(), self.rows.len());
                self.rows.push((key, row));
            }
        }
    }
}

fn as_key(value: Value) -> Option<Key> {
    (!value.is_null()).then(|| Key::from(value))
}

/// The columns that came, and the others as they were.
fn merged<R: Row>(earlier: Option<R>, value: Map<String, Value>) -> Map<String, Value> {
    let earlier = earlier.and_then(|row| serde_json::to_value(row).ok());
    let Some(Value::Object(mut whole)) = earlier else { return value };
    whole.extend(value);
    whole
}

fn read_row<R: Row>(
    columns: &Columns,
    value: Map<String, Value>,
    earlier: Option<R>,
) -> Result<R, Misfit> {
    let value = columns.read(value).map_err(|error| Misfit(error.to_string()))?;
    let whole = Value::Object(merged(earlier, value));
    // What serde says repeats the value, and rows may be private.
    R::deserialize(&whole).map_err(|_| Misfit(why_not::<R>(&whole)))
}

/// Why a row does not fit, without its values.
fn why_not<R: Row>(row: &Value) -> String {
    for column in R::columns() {
        let name = &column.name;
        match row.get(name.as_str()) {
            None if column.is_required => return format!("it has no column {name:?}"),
            Some(Value::Null) if column.is_required => return format!("column {name:?} is null"),
            Some(value) if !value.is_null() && !is_kind(value, column.kind) => {
                let (is, wanted) = (told(value), column.kind);
                return format!("column {name:?} is {is} where the row type has {wanted:?}");
            }
            _ => {}
        }
    }
    "a value is not one that the row type has".to_owned()
}

fn is_kind(value: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Bool => value.is_boolean(),
        Kind::Number => value.is_number(),
        Kind::Text => value.is_string(),
        Kind::List => value.is_array(),
        Kind::Object => value.is_object(),
        _ => true,
    }
}

fn told(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
