//! What a client is told of a table: the log of one shape.

use serde_json::{Map, Value, json};

use crate::{
    params::Definition,
    subset::Subset,
    table::{COLUMNS, Cells, Happened, Table, key},
};

/// How often the count of transactions has run over.
const EPOCH: u64 = 3;
/// Messages in one page, few, so that there are many pages.
const PAGE_MESSAGES: usize = 3;

/// The log of a shape, which begins with the rows there were when it was first asked for.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) handle: String,
    definition: Definition,
    snapshot: Vec<Cells>,
    /// What of the table's history follows the snapshot.
    history_start: usize,
}

/// A piece of a log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Page {
    pub(crate) messages: Vec<Value>,
    pub(crate) offset: String,
    pub(crate) is_end: bool,
}

impl Shape {
    pub(crate) fn new(handle: String, definition: Definition, table: &Table) -> Self {
        let rows = table.rows();
        let is_told = |row: &Cells| !definition.is_changes_only && is_in(&definition, row);
        let snapshot = rows.into_iter().filter(is_told).collect();
        Self { handle, definition, snapshot, history_start: table.history.len() }
    }

    /// The page after an offset; nothing if there is no such offset.
    pub(crate) fn page(&self, offset: &str, table: &Table) -> Option<Page> {
        let snapshot_start = match offset {
            "-1" => Some(0),
            "now" => {
                let last = table.history[self.history_start..].last();
                let last = last.map(|last| format!("{}_{}", last.lsn, last.position + 1));
                let offset = last.unwrap_or_else(|| "0_inf".to_owned());
                return Some(Page { messages: Vec::new(), offset, is_end: true });
            }
            other => other
                .strip_prefix("0_")
                .filter(|place| *place != "inf")
                .and_then(|place| place.parse::<usize>().ok())
                .map(|last| last + 1),
        };
        match snapshot_start {
            Some(start) => Some(self.snapshot_page(start)),
            None => self.changes_page(offset, table),
        }
    }

    /// The rows of a subset, and what of the database they were read from.
    pub(crate) fn subset(&self, subset: &Subset, table: &Table) -> Result<Value, String> {
        let rows = table.rows().into_iter().filter(|row| is_in(&self.definition, row));
        let rows = subset.of(rows.collect())?;
        let messages = rows.iter().map(|row| {
            let headers = json!({"operation": "insert", "relation": ["public", "todos"]});
            Self::message(row, self.cells(row), headers)
        });
        // Snapshots count transactions with more bits than the log does.
        let next = (EPOCH << 32) + table.txid() + 1;
        let metadata = json!({
            "snapshot_mark": table.txid(), "database_lsn": (table.lsn() + 1).to_string(),
            "xmin": next.to_string(), "xmax": next.to_string(), "xip_list": [],
        });
        Ok(json!({"metadata": metadata, "data": messages.collect::<Vec<_>>()}))
    }

    fn snapshot_page(&self, start: usize) -> Page {
        let end = (start + PAGE_MESSAGES).min(self.snapshot.len());
        let rows = self.snapshot.get(start..end).unwrap_or_default();
        let messages = rows.iter().map(|row| {
            let headers = json!({"operation": "insert", "relation": ["public", "todos"]});
            Self::message(row, self.cells(row), headers)
        });
        let is_last = end >= self.snapshot.len();
        let offset = if is_last { "0_inf".to_owned() } else { format!("0_{}", end - 1) };
        // The start of a log is cached for long, so it never says that it is all.
        Page { messages: messages.collect(), offset, is_end: false }
    }

    fn changes_page(&self, offset: &str, table: &Table) -> Option<Page> {
        let (lsn, position) = offset.split_once('_')?;
        let lsn: u64 = lsn.parse().ok()?;
        let position = if position == "inf" { u64::MAX } else { position.parse().ok()? };
        if lsn > table.lsn() {
            return None;
        }
        let history = table.history[self.history_start..].iter();
        let rest = history.filter(|one| (one.lsn, one.position) > (lsn, position));
        let mut told = rest.flat_map(|one| self.told(one)).peekable();
        let mut page = Page { messages: Vec::new(), offset: offset.to_owned(), is_end: false };
        while page.messages.len() < PAGE_MESSAGES
            && let Some((offset, message)) = told.next()
        {
            page.messages.push(message);
            page.offset = offset;
        }
        page.is_end = told.peek().is_none();
        Some(page)
    }

    /// The messages that something leads to, with their offsets.
    fn told(&self, happened: &Happened) -> Vec<(String, Value)> {
        let visible = |row: &Option<Cells>| row.clone().filter(|row| is_in(&self.definition, row));
        let (before, after) = (visible(&happened.before), visible(&happened.after));
        let offset = |more: u64| format!("{}_{}", happened.lsn, happened.position + more);
        let one = |operation: &str, row: &Cells, value: Map<String, Value>, more: u64| {
            let headers = headers(happened, operation, more);
            vec![(offset(more), Self::message(row, value, headers))]
        };
        match (&before, &after) {
            (None, None) => Vec::new(),
            (None, Some(row)) => one("insert", row, self.cells(row), 0),
            (Some(row), None) => one("delete", row, self.gone(row), 0),
            (Some(old), Some(new)) if key(old) != key(new) => {
                let deleted = one("delete", old, self.gone(old), 0);
                let inserted = one("insert", new, self.cells(new), 1);
                deleted.into_iter().chain(inserted).collect()
            }
            (Some(old), Some(new)) => self.updated(happened, old, new),
        }
    }

    fn updated(&self, happened: &Happened, old: &Cells, new: &Cells) -> Vec<(String, Value)> {
        let changed = |name: &str| old.get(name) != new.get(name);
        let mut value = self.cells(new);
        let mut old_value = self.cells(old);
        old_value.retain(|name, _| changed(name));
        if old_value.is_empty() {
            return Vec::new();
        }
        if !self.definition.is_full {
            value.retain(|name, _| name == "id" || changed(name));
        }
        let mut message = Self::message(new, value, headers(happened, "update", 0));
        if self.definition.is_full {
            message["old_value"] = Value::Object(old_value);
        }
        vec![(format!("{}_{}", happened.lsn, happened.position), message)]
    }

    /// What is told of a row that went.
    fn gone(&self, row: &Cells) -> Map<String, Value> {
        let mut value = self.cells(row);
        if !self.definition.is_full {
            value.retain(|name, _| name == "id");
        }
        value
    }

    fn cells(&self, row: &Cells) -> Map<String, Value> {
        let is_wanted = |name: &String| match &self.definition.columns {
            Some(columns) => columns.contains(name),
            None => true,
        };
        let cells = row.iter().filter(|(name, _)| is_wanted(name));
        cells.map(|(name, text)| (name.clone(), json!(text))).collect()
    }

    fn message(row: &Cells, value: Map<String, Value>, headers: Value) -> Value {
        let key = format!("\"public\".\"todos\"/\"{}\"", key(row));
        let parts = [("key", json!(key)), ("value", Value::Object(value)), ("headers", headers)];
        Value::Object(parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect())
    }
}

fn headers(happened: &Happened, operation: &str, more: u64) -> Value {
    let mut headers = json!({
        "operation": operation,
        "txids": [happened.txid],
        "relation": ["public", "todos"],
        "lsn": happened.lsn.to_string(),
        "op_position": happened.position + more,
    });
    if happened.is_last {
        headers["last"] = json!(true);
    }
    headers
}

fn is_in(definition: &Definition, row: &Cells) -> bool {
    let Some((column, value)) = &definition.condition else { return true };
    row.get(column).cloned().flatten().as_ref() == Some(value)
}

/// The header that says what the columns are.
pub(crate) fn schema() -> String {
    let column = |(name, kind, dims): (&str, &str, u8)| {
        let mut column = json!({"type": kind});
        if dims > 0 {
            column["dims"] = json!(dims);
        }
        if name == "id" {
            (column["pk_index"], column["not_null"]) = (json!(0), json!(true));
        }
        (name.to_owned(), column)
    };
    Value::Object(COLUMNS.into_iter().map(column).collect()).to_string()
}
