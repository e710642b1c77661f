//! Who must be told of a change: found by value, not by asking everybody.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    engine::{Change, Kindred, Lookup, Probe, Span, Watch, end},
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
    /// Those who are told of rows between certain values in a column.
    spans: Vec<(Probe, BySpan)>,
}

type ByValue = HashMap<Value, SmallVec<[Listener; 2]>, FixedState>;

/// Listeners by where what they care for begins, or ends if it has no beginning.
#[derive(Debug, Default)]
struct BySpan {
    /// With the end, if there is one.
    from: BTreeMap<Value, Vec<(Listener, Option<Value>)>>,
    to: BTreeMap<Value, Vec<Listener>>,
}

impl Dispatch {
    /// Begins to tell a listener of rows that can be what it looks for.
    pub(crate) fn add(&mut self, listener: Listener, watch: &Watch) {
        if let Some(lookup) = self.best(&watch.lookups) {
            // Who looks for nothing is told nothing.
            if !lookup.values.is_empty() {
                let by_value = of_column(&mut self.columns, lookup.column);
                for value in &lookup.values {
                    by_value.entry(value.clone()).or_default().push(listener);
                }
            }
        } else if let Some(span) = watch.spans.first() {
            of_column(&mut self.spans, span.column).add(listener, span);
        } else {
            self.everything.insert(listener);
        }
    }

    /// Stops to tell a listener anything.
    pub(crate) fn remove(&mut self, listener: Listener, watch: &Watch) {
        self.everything.remove(&listener);
        for lookup in &watch.lookups {
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
        if let Some(span) = watch.spans.first().filter(|_| watch.lookups.is_empty()) {
            of_column(&mut self.spans, span.column).remove(listener, span);
            self.spans.retain(|(_, by_span)| !by_span.is_empty());
        }
    }

    /// True if nobody listens.
    pub(crate) fn is_empty(&self) -> bool {
        self.everything.is_empty() && self.columns.is_empty() && self.spans.is_empty()
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
            for (probe, by_span) in &self.spans {
                for entry in [&change.old, &change.new].into_iter().flatten() {
                    by_span.find(&probe.of(entry), &mut |own| hit((own, number)));
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
            (lookup.column.is_flag(), lookup.values.iter().map(count).sum::<usize>())
        };
        lookups.iter().min_by_key(load)
    }
}

impl BySpan {
    fn is_empty(&self) -> bool {
        self.from.is_empty() && self.to.is_empty()
    }

    fn add(&mut self, listener: Listener, span: &Span) {
        match (end(&span.from), end(&span.to)) {
            (Some(from), to) => {
                self.from.entry(from.clone()).or_default().push((listener, to.cloned()));
            }
            (None, Some(to)) => self.to.entry(to.clone()).or_default().push(listener),
            (None, None) => {}
        }
    }

    fn remove(&mut self, listener: Listener, span: &Span) {
        if let Some(from) = end(&span.from)
            && let Some(listeners) = self.from.get_mut(from)
        {
            listeners.retain(|(own, _)| *own != listener);
            if listeners.is_empty() {
                self.from.remove(from);
            }
        } else if let Some(to) = end(&span.to)
            && let Some(listeners) = self.to.get_mut(to)
        {
            listeners.retain(|own| *own != listener);
            if listeners.is_empty() {
                self.to.remove(to);
            }
        }
    }

    /// Calls `hit` for every listener that may care for this value; the ends count in any case.
    fn find(&self, value: &Value, hit: &mut impl FnMut(Listener)) {
        let Some(kindred) = Kindred::of(value) else { return };
        let begun = (Bound::Included(kindred.first), Bound::Included(value));
        for (listener, to) in self.from.range::<Value, _>(begun).flat_map(|(_, own)| own) {
            if to.as_ref().is_none_or(|to| value <= to) {
                hit(*listener);
            }
        }
        let not_ended = self.to.range::<Value, _>((Bound::Included(value), kindred.end));
        not_ended.flat_map(|(_, own)| own).for_each(|listener| hit(*listener));
    }
}

/// What is known of a column, which is added if it is new.
fn of_column<T: Default>(columns: &mut Vec<(Probe, T)>, column: Probe) -> &mut T {
    let index = columns.iter().position(|(probe, _)| *probe == column).unwrap_or_else(|| {
        columns.push((column, T::default()));
        columns.len() - 1
    });
    &mut columns[index].1
}
