//! Indexes: the rows that have a value in a column.

use std::{collections::BTreeMap, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::{
    caps::{INDEX_ROWS_MIN, INDEX_SCANS_MIN, INDEXES_MAX},
    engine::{Change, Lookup, Probe},
    ir::View,
    record::{Entry, Key},
    value::Value,
};

/// The indexes of a collection. They make themselves: a column that is looked up again and again
/// among many rows gets one.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    made: Vec<Index>,
    /// How often a column was looked up without an index.
    wanted: HashMap<(View, Probe), u32, FixedState>,
}

#[derive(Debug)]
struct Index {
    view: View,
    probe: Probe,
    rows: HashMap<Value, BTreeMap<Key, Arc<Entry>>, FixedState>,
}

impl Indexes {
    /// The column that should have an index by now, of those that are looked up.
    pub(super) fn wants(&mut self, view: View, lookups: &[Lookup], rows: usize) -> Option<Probe> {
        let is_made = |lookup: &Lookup| self.find(view, lookup.column).is_some();
        let is_full = self.made.len() >= INDEXES_MAX || rows < INDEX_ROWS_MIN;
        if is_full || lookups.iter().any(|lookup| lookup.is_by_key() || is_made(lookup)) {
            return None;
        }
        let probe = lookups.first()?.column;
        let scans = self.wanted.entry((view, probe)).or_default();
        *scans += 1;
        (*scans >= INDEX_SCANS_MIN).then_some(probe)
    }

    pub(super) fn has(&self, view: View) -> bool {
        self.made.iter().any(|index| index.view == view)
    }

    pub(super) fn build(&mut self, view: View, probe: Probe, rows: &[Arc<Entry>]) {
        let mut index = Index { view, probe, rows: HashMap::default() };
        rows.iter().for_each(|entry| index.put(entry));
        self.made.push(index);
    }

    pub(super) fn apply(&mut self, view: View, changes: &[Change]) {
        for index in self.made.iter_mut().filter(|index| index.view == view) {
            for change in changes {
                if let Some(old) = &change.old {
                    index.remove(old);
                }
                if let Some(new) = &change.new {
                    index.put(new);
                }
            }
        }
    }

    /// Calls `each` for the rows that one of the lookups finds, the one that finds the fewest;
    /// false if there is no index for any.
    pub(super) fn scan(
        &self,
        view: View,
        lookups: &[Lookup],
        each: &mut dyn FnMut(&Arc<Entry>),
    ) -> bool {
        let found = lookups.iter().filter_map(|lookup| {
            let index = self.find(view, lookup.column)?;
            let buckets = lookup.values.iter().filter_map(|value| index.rows.get(value));
            Some(buckets.collect::<Vec<_>>())
        });
        let fewest =
            found.min_by_key(|buckets| buckets.iter().map(|rows| rows.len()).sum::<usize>());
        let Some(buckets) = fewest else { return false };
        buckets.into_iter().flat_map(BTreeMap::values).for_each(each);
        true
    }

    fn find(&self, view: View, probe: Probe) -> Option<&Index> {
        self.made.iter().find(|index| index.view == view && index.probe == probe)
    }
}

impl Index {
    fn put(&mut self, entry: &Arc<Entry>) {
        let value = self.probe.of(entry);
        if let Some(rows) = self.rows.get_mut(&*value) {
            rows.insert(entry.key.clone(), entry.clone());
            return;
        }
        self.rows.insert(value.into_owned(), [(entry.key.clone(), entry.clone())].into());
    }

    fn remove(&mut self, entry: &Arc<Entry>) {
        let value = self.probe.of(entry);
        if let Some(rows) = self.rows.get_mut(&*value) {
            rows.remove(&entry.key);
            if rows.is_empty() {
                self.rows.remove(&*value);
            }
        }
    }
}
