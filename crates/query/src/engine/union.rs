//! Rows of several queries, one after the other.

use std::sync::Arc;

use smallvec::smallvec;

use super::{Change, Delta, Feed, plan::Plan};
use crate::{
    expr::Item,
    record::{Entry, Key, Record, Shape, Tuple},
    value::Value,
};

/// Several plans whose rows are one relation.
#[derive(Debug)]
pub(super) struct Union {
    pub(super) branches: Vec<Plan>,
    /// For each branch, where its columns go.
    pub(super) columns: Vec<Vec<usize>>,
    pub(super) shape: Arc<Shape>,
}

impl Union {
    pub(super) fn step(&mut self, feed: &Feed<'_>) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for index in 0..self.branches.len() {
            let changes = self.branches[index].step(feed);
            for change in changes {
                deltas.push(self.delta(index, change));
            }
        }
        deltas
    }

    fn delta(&mut self, index: usize, change: Change) -> Delta {
        let key = Value::list([index.into(), change.key]);
        let old = change.old.map(|entry| self.item(index, &key, &entry));
        let new = change.new.map(|entry| self.item(index, &key, &entry));
        Delta { key, old, new }
    }

    fn item(&mut self, index: usize, key: &Key, entry: &Entry) -> Item {
        let columns = &mut self.columns[index];
        if let Record::Tuple(tuple) = &entry.record {
            // The rows of an open collection may have learned columns since.
            let names = tuple.shape();
            for name in (columns.len()..names.len()).filter_map(|own| names.name(own)) {
                let Ok(to) = Shape::learn(&mut self.shape, name) else { break };
                columns.push(to);
            }
        }
        let mut values = vec![Value::Missing; self.shape.len()];
        for (from, to) in columns.iter().enumerate() {
            values[*to] = entry.record.column(from).into_owned();
        }
        let record = Record::Tuple(Tuple::new(self.shape.clone(), values));
        smallvec![Some(Arc::new(Entry { key: key.clone(), record, meta: entry.meta }))]
    }
}
