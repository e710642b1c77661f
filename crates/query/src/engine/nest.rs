//! The last stage: rows as they are shown, with the rows that are nested in them.

use std::{
    collections::{BTreeMap, btree_map},
    mem,
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{
    Change, Delta, Feed, Out,
    include::Include,
    output::Output,
    weight::{bytes, entry_bytes, key_bytes},
    window::Sorting,
};
use crate::{
    expr::Item,
    record::{Entry, Key, Record},
    value::Value,
};

/// What becomes of rows in the end.
#[derive(Debug)]
pub(super) struct Nest {
    pub(super) output: Output,
    pub(super) includes: Box<[Include]>,
    /// Whether all rows are told, whatever they look like: somebody else knows their places.
    pub(super) tells_all: bool,
    /// Rows with something nested in them.
    rows: HashMap<Key, Parent, FixedState>,
}

#[derive(Debug)]
struct Parent {
    shown: Arc<Entry>,
    /// For each include, what ties the nested rows to this one.
    ties: Box<[Value]>,
}

/// How many rows are looked at before the next one is searched for.
const NEIGHBOURS: usize = 2;

impl Nest {
    pub(super) fn new(output: Output, includes: Vec<Include>, tells_all: bool) -> Self {
        Self { output, includes: includes.into(), tells_all, rows: HashMap::default() }
    }

    pub(super) fn step(
        &mut self,
        deltas: Vec<Delta>,
        sorting: Option<&Sorting>,
        feed: &Feed<'_>,
    ) -> Vec<Out> {
        if self.includes.is_empty() {
            return deltas.into_iter().filter_map(|delta| self.plain(delta, sorting)).collect();
        }
        let touched: Vec<_> = self.includes.iter_mut().map(|include| include.step(feed)).collect();
        let mut outs = Vec::with_capacity(deltas.len());
        let mut told: HashMap<Key, usize, FixedState> = HashMap::default();
        for delta in deltas {
            let key = (!touched.iter().all(Vec::is_empty)).then(|| delta.key.clone());
            if let Some(out) = self.parent(delta, sorting) {
                told.extend(key.map(|key| (key, outs.len())));
                outs.push(out);
            }
        }
        for (index, ties) in touched.into_iter().enumerate() {
            ties.iter().for_each(|tie| self.children(index, tie, &mut told, &mut outs));
        }
        outs
    }

    /// Rows with nothing nested in them.
    fn plain(&self, delta: Delta, sorting: Option<&Sorting>) -> Option<Out> {
        let Delta { key, old, new } = delta;
        let place = |item: &Item| sorting.map(|sorting| sorting.place(&key, item));
        let to = new.as_ref().and_then(place);
        let before = sorting.and(old.clone());
        let old = old.and_then(|item| self.output.entry(&key, item));
        let new = new.and_then(|item| self.output.entry(&key, item));
        // What changed may be nothing that is shown.
        let is_told = self.tells_all || old != new || before.as_ref().and_then(place) != to;
        is_told.then_some(Out { change: Change { key, old, new }, place: to })
    }

    /// Whether rows have nothing nested in them, and those that look as before are not told.
    pub(super) fn is_plain(&self) -> bool {
        self.includes.is_empty() && !self.tells_all
    }

    /// Changes rows with nothing nested in them among those that are shown. How they were is found
    /// there, and need not be worked out again.
    pub(super) fn exchange(
        &self,
        deltas: Vec<Delta>,
        rows: &mut BTreeMap<Key, Arc<Entry>>,
    ) -> Vec<Out> {
        let is_update = |delta: &Delta| delta.old.is_some() && delta.new.is_some();
        if deltas.len() < 2 || !deltas.iter().all(is_update) {
            let one = |delta| self.exchange_one(delta, rows);
            return deltas.into_iter().filter_map(one).collect();
        }
        let mut outs = Vec::with_capacity(deltas.len());
        // Rows that change together are mostly neighbours, and need no search from the root.
        let mut rest: Option<btree_map::RangeMut<'_, _, _>> = None;
        for delta in deltas {
            let mut next = rest.iter_mut().flat_map(|rest| rest.take(NEIGHBOURS));
            if let Some((key, shown)) = next.find(|(key, _)| **key == delta.key) {
                outs.extend(self.replace(key, shown, delta.new));
                continue;
            }
            let mut from = rows.range_mut(&delta.key..);
            match from.next() {
                Some((key, shown)) if *key == delta.key => {
                    outs.extend(self.replace(key, shown, delta.new));
                    rest = Some(from);
                }
                _ => {
                    outs.extend(self.exchange_one(delta, rows));
                    rest = None;
                }
            }
        }
        outs
    }

    fn exchange_one(
        &self,
        Delta { key, old, new }: Delta,
        rows: &mut BTreeMap<Key, Arc<Entry>>,
    ) -> Option<Out> {
        let entry = |key: &Key, item: Option<Item>| self.output.entry(key, item?);
        let change = match rows.entry(key) {
            btree_map::Entry::Vacant(place) => {
                let key = place.key().clone();
                let (old, new) = (entry(&key, old), entry(&key, new));
                new.clone().map(|new| place.insert(new));
                Change { key, old, new }
            }
            btree_map::Entry::Occupied(mut place) => {
                let key = place.key().clone();
                if old.is_some() && new.is_some() {
                    return self.replace(&key, place.get_mut(), new);
                }
                let new = entry(&key, new);
                let before = match &new {
                    Some(new) => place.insert(new.clone()),
                    None => place.remove(),
                };
                Change { key, old: old.map(|_| before), new }
            }
        };
        Some(Out { change, place: None })
    }

    /// Shows a row in place of what is shown. The key that is there serves all rows it will ever
    /// name.
    fn replace(&self, key: &Key, shown: &mut Arc<Entry>, new: Option<Item>) -> Option<Out> {
        let new = self.output.entry(key, new?)?;
        // What changed may be nothing that is shown.
        if new == *shown {
            return None;
        }
        let old = mem::replace(shown, new.clone());
        let change = Change { key: key.clone(), old: Some(old), new: Some(new) };
        Some(Out { change, place: None })
    }

    fn parent(&mut self, delta: Delta, sorting: Option<&Sorting>) -> Option<Out> {
        let Delta { key, old, new } = delta;
        let place = |item: &Item| sorting.map(|sorting| sorting.place(&key, item));
        let (from, to) = (old.as_ref().and_then(place), new.as_ref().and_then(place));
        let before = self.rows.remove(&key);
        let new = new.and_then(|item| self.shown(&key, item));
        let (old, old_ties) = before.map(|parent| (parent.shown, parent.ties)).unzip();
        let (new, new_ties) = new.map(|parent| (parent.shown, parent.ties)).unzip();
        for (index, include) in self.includes.iter_mut().enumerate() {
            let tie = |ties: &Option<Box<[Value]>>| ties.as_ref().map(|ties| ties[index].clone());
            include.tie(&key, tie(&old_ties).as_ref(), tie(&new_ties));
        }
        if let (Some(shown), Some(ties)) = (new.clone(), new_ties) {
            self.rows.insert(key.clone(), Parent { shown, ties });
        }
        let is_told = match self.tells_all {
            true => old.is_some() || new.is_some(),
            false => from != to || old != new,
        };
        is_told.then_some(Out { change: Change { key, old, new }, place: to })
    }

    fn shown(&self, key: &Key, item: Item) -> Option<Parent> {
        let ties: Box<[_]> = self.includes.iter().map(|include| include.tie_of(&item)).collect();
        let entry = self.output.entry(key, item)?;
        let nested = self.includes.iter().zip(&ties).map(|(own, tie)| (own.column, own.value(tie)));
        let Record::Tuple(tuple) = &entry.record else { return None };
        let record = Record::Tuple(tuple.with(nested, tuple.shape()));
        Some(Parent { shown: Arc::new(Entry { record, ..(*entry).clone() }), ties })
    }

    /// What is nested in some rows has changed.
    fn children(
        &mut self,
        index: usize,
        tie: &Value,
        told: &mut HashMap<Key, usize, FixedState>,
        outs: &mut Vec<Out>,
    ) {
        let include = &self.includes[index];
        let value = include.value(tie);
        for key in include.parents(tie) {
            let Some(parent) = self.rows.get_mut(key) else { continue };
            let Record::Tuple(tuple) = &parent.shown.record else { continue };
            // What changed may lie outside the window of the include.
            if *tuple.column(include.column) == value {
                continue;
            }
            let record =
                Record::Tuple(tuple.with([(include.column, value.clone())], tuple.shape()));
            let new = Arc::new(Entry { record, ..(*parent.shown).clone() });
            let old = mem::replace(&mut parent.shown, new.clone());
            match told.get(key).and_then(|place| outs.get_mut(*place)) {
                Some(out) => out.change.new = Some(new),
                None => {
                    told.insert(key.clone(), outs.len());
                    let change = Change { key: key.clone(), old: Some(old), new: Some(new) };
                    outs.push(Out { change, place: None });
                }
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let row = |(key, parent): (&Key, &Parent)| {
            let ties: usize = parent.ties.iter().map(bytes).sum();
            let held = size_of::<(Key, Parent)>() + key_bytes(key) + ties;
            held + entry_bytes(&parent.shown)
        };
        self.rows.iter().map(row).sum::<usize>()
            + self.includes.iter().map(Include::heap_bytes).sum::<usize>()
    }

    pub(super) fn is_overrun(&self) -> bool {
        self.includes.iter().any(Include::is_overrun)
    }

    pub(super) fn heap_rows(&self) -> usize {
        self.rows.len() + self.includes.iter().map(Include::heap_rows).sum::<usize>()
    }
}
