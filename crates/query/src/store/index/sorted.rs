//! Rows in the order of a column, and of their keys where that is equal.

use std::{
    borrow::Cow,
    collections::{BTreeMap, btree_map},
    ops::{
        Bound::{self, Excluded, Unbounded},
        ControlFlow,
    },
    sync::Arc,
};

use super::bucket::Bucket;
use crate::{
    engine::Ordered,
    record::{Entry, Key},
    value::{Direction, Nulls, Value},
};

/// Rows by their value in a column. Those without one are filed under null, which is the least.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    rows: BTreeMap<Value, Bucket>,
    len: usize,
}

static NOTHING: Value = Value::Null;

impl Sorted {
    /// These rows, which are in the order of their keys. All of them are there.
    pub(super) fn of(mut rows: Vec<Option<(Value, Arc<Entry>)>>) -> Self {
        let len = rows.len();
        for (value, _) in rows.iter_mut().flatten().filter(|(value, _)| value.is_nothing()) {
            *value = NOTHING.clone();
        }
        // Numbers are sorted in place of the rows, which are larger; few are equal.
        let value = |number: usize| rows[number].as_ref().map(|(value, _)| value);
        let rough = |number| (value(number).map_or(0, Value::rough), number);
        let mut order: Vec<_> = (0..len).map(rough).collect();
        order.sort_unstable_by(|(rough_a, a), (rough_b, b)| {
            let exact = || value(*a).cmp(&value(*b)).then(a.cmp(b));
            rough_a.cmp(rough_b).then_with(exact)
        });
        let mut buckets: Vec<(Value, Bucket)> = Vec::with_capacity(len);
        for (value, entry) in order.into_iter().filter_map(|(_, number)| rows[number].take()) {
            match buckets.last_mut() {
                Some((last, bucket)) if *last == value => drop(bucket.put(&entry)),
                _ => buckets.push((value, Bucket::One(entry))),
            }
        }
        Self { rows: buckets.into_iter().collect(), len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, value: &Value) -> Option<&Bucket> {
        self.rows.get(value)
    }

    pub(super) fn get_mut(&mut self, value: Cow<'_, Value>) -> Option<&mut Bucket> {
        self.rows.get_mut(&*filed(value))
    }

    /// Puts a row in its place; true if there was none of its key.
    pub(super) fn put(&mut self, value: Cow<'_, Value>, entry: &Arc<Entry>) -> bool {
        let is_new = match self.rows.entry(filed(value).into_owned()) {
            btree_map::Entry::Occupied(mut place) => place.get_mut().put(entry),
            btree_map::Entry::Vacant(place) => {
                place.insert(Bucket::One(entry.clone()));
                true
            }
        };
        self.len += usize::from(is_new);
        is_new
    }

    /// Takes a row out; true if it was there.
    pub(super) fn remove(&mut self, value: Cow<'_, Value>, key: &Key) -> bool {
        let place = self.rows.entry(filed(value).into_owned());
        let btree_map::Entry::Occupied(mut place) = place else { return false };
        let (was_there, is_empty) = place.get_mut().remove(key);
        if is_empty {
            place.remove();
        }
        self.len -= usize::from(was_there);
        was_there
    }

    pub(super) fn each(&self, each: &mut dyn FnMut(&Arc<Entry>)) {
        self.rows.values().flat_map(Bucket::iter).for_each(each);
    }

    /// Calls `each` for the rows between two values, of which the second is not less.
    pub(super) fn between(
        &self,
        bounds: (Bound<&Value>, Bound<&Value>),
        each: &mut dyn FnMut(&Arc<Entry>),
    ) {
        let buckets = self.rows.range::<Value, _>(bounds);
        buckets.flat_map(|(_, bucket)| bucket.iter()).for_each(each);
    }

    /// Calls `each` for the rows in an order, from the one after this value and key on, until it
    /// breaks off.
    pub(super) fn walk(
        &self,
        order: &Ordered,
        after: Option<(&Value, &Key)>,
        each: &mut dyn FnMut(&Arc<Entry>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let is_nothing = after.is_some_and(|(value, _)| value.is_nothing());
        let (nothings, others) = (after.filter(|_| is_nothing), after.filter(|_| !is_nothing));
        match order.nulls {
            Nulls::First => {
                if others.is_none() {
                    self.walk_nothings(nothings, each)?;
                }
                self.walk_others(order.direction, others, each)
            }
            Nulls::Last => {
                if nothings.is_none() {
                    self.walk_others(order.direction, others, each)?;
                }
                self.walk_nothings(nothings, each)
            }
        }
    }

    fn walk_nothings(
        &self,
        after: Option<(&Value, &Key)>,
        each: &mut dyn FnMut(&Arc<Entry>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(bucket) = self.rows.get(&NOTHING) else { return ControlFlow::Continue(()) };
        bucket.after(after.map(|(_, key)| key)).try_for_each(each)
    }

    fn walk_others(
        &self,
        direction: Direction,
        after: Option<(&Value, &Key)>,
        each: &mut dyn FnMut(&Arc<Entry>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if let Some((value, key)) = after
            && let Some(bucket) = self.rows.get(value)
        {
            bucket.after(Some(key)).try_for_each(&mut *each)?;
        }
        let value = after.map(|(value, _)| value);
        let mut visit = |(_, bucket): (&Value, &Bucket)| bucket.iter().try_for_each(&mut *each);
        match direction {
            Direction::Ascending => {
                let from = Excluded(value.unwrap_or(&NOTHING));
                self.rows.range::<Value, _>((from, Unbounded)).try_for_each(&mut visit)
            }
            Direction::Descending => {
                let bounds = (Excluded(&NOTHING), value.map_or(Unbounded, Excluded));
                self.rows.range::<Value, _>(bounds).rev().try_for_each(&mut visit)
            }
        }
    }
}

/// A value that is missing is as much nothing as null, and sorts like it.
fn filed(value: Cow<'_, Value>) -> Cow<'_, Value> {
    if value.is_nothing() { Cow::Borrowed(&NOTHING) } else { value }
}
