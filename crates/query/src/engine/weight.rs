//! What rows take in memory, roughly: for bounds and for people.
//!
//! Rows of collections are shared with them, and count as a place that holds one. Rows that a query
//! makes count in full where they come to rest; what several of them share, each time.

use crate::{
    expr::Item,
    record::{Entry, Key, Record},
    value::Value,
};

/// The counters of something shared.
const SHARED: usize = 2 * size_of::<usize>();

/// Whose rows are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A collection.
    Shared,
    /// The query, which has made them.
    Made,
}

/// A row that is held by its key.
pub(super) fn row_bytes(key: &Key, item: &Item, owner: Owner) -> usize {
    size_of::<Key>() + key_bytes(key) + item_bytes(item, owner)
}

pub(super) fn item_bytes(item: &Item, owner: Owner) -> usize {
    let made = match owner {
        Owner::Shared => 0,
        Owner::Made => item.iter().flatten().map(|entry| entry_bytes(entry)).sum(),
    };
    size_of::<Item>() + made
}

/// A row that the query has made.
pub(super) fn entry_bytes(entry: &Entry) -> usize {
    let columns = match &entry.record {
        Record::Tuple(tuple) => {
            SHARED + (0..tuple.len()).map(|n| bytes(tuple.column(n))).sum::<usize>()
        }
        Record::Typed(_) => 0,
    };
    SHARED + size_of::<Entry>() + key_bytes(&entry.key) + columns
}

/// A value and all that belongs to it.
pub(super) fn bytes(value: &Value) -> usize {
    size_of::<Value>() + key_bytes(value)
}

/// What a value takes beyond its own place.
pub(super) fn key_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) if text.is_heap_allocated() => SHARED + text.len(),
        Value::Rope(rope) => rope.len(),
        Value::List(list) => SHARED + list.iter().map(bytes).sum::<usize>(),
        Value::Object(object) => {
            2 * SHARED + (0..object.len()).map(|n| bytes(object.column(n))).sum::<usize>()
        }
        _ => 0,
    }
}
