//! Rows of several queries, one after the other.

use std::sync::Arc;

use smallvec::smallvec;

use super::{Change, Delta, Feed, plan::Plan};
use crate::{
    record::Record,
    record::{Entry, Shape, Tuple},
    value::Value,
};

/// Several plans whose rows are one relation.
#[derive(Debug)]
pub(super) struct Union {
    pub(super) branches: Vec<Plan>,
    /// For each branch, where its columns go.
    pub(super) columns: Vec<Box<[usize]>>,
    pub(super) shape: Arc<Shape>,
}

impl Union {
    pub(super) fn step(&mut self, feed: &Feed<'_>) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for index in 0..self.branches.len() {
            let changes = self.branches[index].step(feed);
            deltas.extend(changes.into_iter().map(|change| self.delta(index, change)));
        }
        deltas
    }

    fn delta(&self, index: usize, change: Change) -> Delta {
        let key = Value::list([index.into(), change.key]);
        let item = |entry: Arc<Entry>| -> crate::expr::Item {
            let mut values = vec![Value::Missing; self.shape.len()];
            for (from, to) in self.columns[index].iter().enumerate() {
                values[*to] = entry.record.column(from).into_owned();
            }
            let record = Record::Tuple(Tuple::new(self.shape.clone(), values));
            smallvec![Some(Arc::new(Entry { key: key.clone(), record, meta: entry.meta }))]
        };
        Delta { old: change.old.map(item), new: change.new.map(item), key }
    }
}
