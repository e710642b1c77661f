//! Equal rows, shown once.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::smallvec;

use super::{
    Delta,
    consolidate::consolidate,
    output::Select,
    weight::{Owner, row_bytes},
};
use crate::{
    expr::Item,
    record::{Entry, Key, Meta, Record},
    value::Value,
};

/// What is selected, and how many rows come to the same.
#[derive(Debug)]
pub(super) struct Distinct {
    pub(super) select: Select,
    counts: HashMap<Key, Counted, FixedState>,
}

#[derive(Debug)]
struct Counted {
    rows: u64,
    item: Item,
}

impl Distinct {
    pub(super) fn new(select: Select) -> Self {
        Self { select, counts: HashMap::default() }
    }

    pub(super) fn heap_rows(&self) -> usize {
        self.counts.len()
    }

    /// The key is the row.
    pub(super) fn heap_bytes(&self) -> usize {
        let row = |(key, counted): (&Key, &Counted)| row_bytes(key, &counted.item, Owner::Shared);
        self.counts.iter().map(row).sum()
    }

    pub(super) fn step(&mut self, deltas: Vec<Delta>) -> Vec<Delta> {
        let mut out = Vec::new();
        for Delta { old, new, .. } in deltas {
            let old = old.map(|item| self.select.tuple(&item));
            let new = new.map(|item| self.select.tuple(&item));
            if old == new {
                continue;
            }
            if let Some(tuple) = old {
                out.extend(self.remove(Value::Object(Arc::new(tuple))));
            }
            if let Some(tuple) = new {
                let key = Value::Object(Arc::new(tuple.clone()));
                out.extend(self.add(key, Record::Tuple(tuple)));
            }
        }
        consolidate(&mut out);
        out
    }

    fn add(&mut self, key: Key, record: Record) -> Option<Delta> {
        if let Some(counted) = self.counts.get_mut(&key) {
            counted.rows += 1;
            return None;
        }
        let entry = Entry { key: key.clone(), record, meta: Meta::default() };
        let item: Item = smallvec![Some(Arc::new(entry))];
        self.counts.insert(key.clone(), Counted { rows: 1, item: item.clone() });
        Some(Delta { key, old: None, new: Some(item) })
    }

    fn remove(&mut self, key: Key) -> Option<Delta> {
        let counted = self.counts.get_mut(&key)?;
        counted.rows -= 1;
        if counted.rows > 0 {
            return None;
        }
        let item = self.counts.remove(&key)?.item;
        Some(Delta { key, old: Some(item), new: None })
    }
}
