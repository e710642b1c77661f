//! Who must be told of a change: found by value, not by asking everybody.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    engine::{Change, Lookup, Probe},
    value::Value,
};

/// A leaf of a running query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listener {
    pub(crate) query: usize,
    pub(crate) leaf: usize,
}

/// A change that a leaf must be told of: the listener, and the number of the change.
pub(crate) type Hit = (Listener, usize);

/// The listeners of one view of a collection.
#[derive(Debug, Default)]
pub(crate) struct Dispatch {
    /// Those who are told everything.
    everything: BTreeSet<Listener>,
    /// Those who are told of rows with certain values in a column.
    columns: Vec<(Probe, ByValue)>,
}

type ByValue = HashMap<Value, SmallVec<[Listener; 2]>, FixedState>;

impl Dispatch {
    /// Begins to tell a listener of rows that all these lookups find.
    pub(crate) fn add(&mut self, listener: Listener, lookups: &[Lookup]) {
        let Some(lookup) = self.best(lookups) else {
            self.everything.insert(listener);
            return;
        };
        let by_value = match self.columns.iter().position(|(probe, _)| *probe == lookup.column) {
            Some(index) => &mut self.columns[index].1,
            None => {
                self.columns.push((lookup.column, ByValue::default()));
                let last = self.columns.len() - 1;
                &mut self.columns[last].1
            }
        };
        for value in &lookup.values {
            by_value.entry(value.clone()).or_default().push(listener);
        }
    }

    /// Stops to tell a listener anything.
    pub(crate) fn remove(&mut self, listener: Listener, lookups: &[Lookup]) {
        self.everything.remove(&listener);
        for lookup in lookups {
            let column = self.columns.iter_mut().find(|(probe, _)| *probe == lookup.column);
            let Some((_, by_value)) = column else { continue };
            for value in &lookup.values {
                let Some(listeners) = by_value.get_mut(value) else { continue };
                listeners.retain(|own| *own != listener);
                if listeners.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        self.columns.retain(|(_, by_value)| !by_value.is_empty());
    }

    /// True if nobody listens.
    pub(crate) fn is_empty(&self) -> bool {
        self.everything.is_empty() && self.columns.is_empty()
    }

    /// Calls `hit` for every listener that may care for a change; for some more than once.
    pub(crate) fn find(&self, changes: &[Change], hit: &mut impl FnMut(Hit)) {
        for (number, change) in changes.iter().enumerate() {
            self.everything.iter().for_each(|listener| hit((*listener, number)));
            for (probe, by_value) in &self.columns {
                let value = |entry| probe.of(entry);
                let old = change.old.as_deref().map(value);
                let new = change.new.as_deref().map(value);
                for value in [old.as_ref().filter(|old| new.as_ref() != Some(*old)), new.as_ref()] {
                    let listeners = value.and_then(|value| by_value.get(&**value));
                    listeners.into_iter().flatten().for_each(|own| hit((*own, number)));
                }
            }
        }
    }

    /// The lookup with the fewest listeners on its values: the more different values a column is
    /// looked up by, the fewer are told in vain.
    fn best<'a>(&self, lookups: &'a [Lookup]) -> Option<&'a Lookup> {
        let load = |lookup: &&Lookup| {
            let column = self.columns.iter().find(|(probe, _)| *probe == lookup.column);
            let count = |value| {
                column.and_then(|(_, by_value)| by_value.get(value)).map_or(0, SmallVec::len)
            };
            let is_flag = lookup.column == Probe::Synced;
            (is_flag, lookup.values.iter().map(count).sum::<usize>())
        };
        lookups.iter().min_by_key(load)
    }
}
