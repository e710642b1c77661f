//! Indexes: the rows that have a value in a column, or lie between two, or come first.

mod bucket;
mod sorted;

use std::{borrow::Cow, ops::ControlFlow, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smol_str::SmolStr;

use self::{bucket::Bucket, sorted::Sorted};
use crate::{
    caps::{INDEX_LOOKUPS_MIN, INDEX_ORDERS_MIN, INDEX_ROWS_MIN, INDEX_WISHES_MAX, INDEXES_MAX},
    engine::{Change, Ordered, Probe, Span, Watch},
    ir::View,
    record::{Entry, Key},
    value::Value,
};

/// The indexes of a collection. They make themselves: a column that is looked up again and again
/// among many rows gets one, and so does the order of a window. One that is kept up to date for
/// longer than it would take to make it again, and that nobody uses, is dropped.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    made: Vec<Index>,
    /// How often an index was missed.
    wishes: HashMap<(View, By), u32, FixedState>,
}

/// What an index finds rows by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum By {
    /// The value of a column.
    Value(Probe),
    /// The order of a column, among all rows or those of one value in another column.
    Order { within: Option<Probe>, by: Probe },
}

/// What an index is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To read the rows once.
    Once,
    /// To read them now, and the next ones when rows leave.
    Live,
}

#[derive(Debug)]
struct Index {
    view: View,
    by: By,
    rows: Rows,
    len: usize,
    /// Running queries that read it.
    users: usize,
    /// Changes since it was read.
    idle: usize,
}

#[derive(Debug)]
enum Rows {
    Hash(HashMap<Value, Bucket, FixedState>),
    /// By the value that rows are ordered within; by null if they are not.
    Sorted(HashMap<Value, Sorted, FixedState>),
}

/// What rows are filed under that are not ordered within anything.
const ALL: Value = Value::Null;

impl Indexes {
    /// The index that should be made now, for one who wants these rows of so many.
    pub(super) fn wants(&mut self, watch: &Watch, purpose: Purpose, rows: usize) -> Option<By> {
        if let Some(order) = watch.order.as_ref().filter(|order| rows / 2 >= order.reach) {
            let within = order.within.as_ref().map(|(probe, _)| *probe);
            return self.wish(watch.view, By::Order { within, by: order.by }, purpose, rows);
        }
        if watch.lookups.iter().any(|lookup| lookup.is_by_key()) {
            return None;
        }
        let mut probes = watch.lookups.iter().map(|lookup| lookup.column);
        if let Some(made) = probes.clone().find_map(|probe| self.by_value(watch.view, probe)) {
            self.made[made].idle = 0;
            return None;
        }
        if let Some(probe) = probes.next() {
            return self.wish(watch.view, By::Value(probe), Purpose::Once, rows);
        }
        let mut spans = watch.spans.iter().map(|span| span.column);
        if spans.clone().any(|probe| probe == Probe::Key) {
            return None;
        }
        let by = By::Order { within: None, by: spans.next()? };
        self.wish(watch.view, by, Purpose::Once, rows)
    }

    fn wish(&mut self, view: View, by: By, purpose: Purpose, rows: usize) -> Option<By> {
        if let Some(index) = self.find_mut(view, by) {
            index.idle = 0;
            return None;
        }
        if self.made.len() >= INDEXES_MAX || rows < INDEX_ROWS_MIN {
            return None;
        }
        if self.wishes.len() >= INDEX_WISHES_MAX {
            self.wishes.clear();
        }
        let count = self.wishes.entry((view, by)).or_default();
        *count += 1;
        let is_due = match (by, purpose) {
            (By::Value(_), _) => *count >= INDEX_LOOKUPS_MIN,
            (By::Order { .. }, Purpose::Once) => *count >= INDEX_ORDERS_MIN,
            // It takes the place of all the rows that the query would hold.
            (By::Order { .. }, Purpose::Live) => true,
        };
        is_due.then_some(by)
    }

    pub(super) fn has(&self, view: View) -> bool {
        self.made.iter().any(|index| index.view == view)
    }

    /// Makes an index of so many rows, which are in the order of their keys.
    pub(super) fn build<'a>(
        &mut self,
        view: View,
        by: By,
        rows: impl Iterator<Item = &'a Arc<Entry>>,
        len: usize,
    ) {
        let own = Rows::Hash(HashMap::default());
        let mut index = Index { view, by, rows: own, len: 0, users: 0, idle: 0 };
        match by {
            By::Value(_) => rows.for_each(|entry| index.put(entry)),
            By::Order { .. } => index.sort(rows, len),
        }
        self.made.push(index);
    }

    pub(super) fn apply(&mut self, view: View, changes: &[Change]) {
        let mut is_dropped = false;
        for index in self.made.iter_mut().filter(|index| index.view == view) {
            changes.iter().for_each(|change| index.apply(change));
            index.idle += changes.len();
            is_dropped |= index.is_idle();
        }
        if is_dropped {
            for index in self.made.extract_if(.., |index| index.is_idle()) {
                self.wishes.remove(&(index.view, index.by));
            }
        }
    }

    /// Calls `each` for the rows that one of the lookups finds, the one that finds the fewest, or
    /// one of the spans; false if there is no index for any.
    pub(super) fn scan(&self, watch: &Watch, each: &mut dyn FnMut(&Arc<Entry>)) -> bool {
        let found = watch.lookups.iter().filter_map(|lookup| {
            let index = &self.made[self.by_value(watch.view, lookup.column)?];
            Some((index, lookup, lookup.values.iter().map(|value| index.count(value)).sum()))
        });
        if let Some((index, lookup, _)) = found.min_by_key(|(_, _, count): &(_, _, usize)| *count) {
            lookup.values.iter().for_each(|value| index.each(value, each));
            return true;
        }
        let sorted = |span: &Span| {
            let by = By::Order { within: None, by: span.column };
            self.find(watch.view, by).map(|index| (index, span.clone()))
        };
        let Some((index, span)) = watch.spans.iter().find_map(sorted) else { return false };
        if let (Some(sorted), Some(bounds)) = (index.sorted(&ALL), span.bounds()) {
            sorted.between(bounds, each);
        }
        true
    }

    /// Calls `each` for rows in their order, until it breaks off; nothing if there is no index.
    pub(super) fn ordered(
        &self,
        view: View,
        order: &Ordered,
        after: Option<(&Value, &Key)>,
        each: &mut dyn FnMut(&Arc<Entry>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let index = self.find(view, By::of(order))?;
        let within = order.within.as_ref().map_or(&ALL, |(_, value)| value);
        let Some(sorted) = index.sorted(within) else { return Some(ControlFlow::Continue(())) };
        Some(sorted.walk(order, after, each))
    }

    /// One more running query reads this order; false if there is no index.
    pub(super) fn hold(&mut self, view: View, order: &Ordered) -> bool {
        let Some(index) = self.find_mut(view, By::of(order)) else { return false };
        index.users += 1;
        true
    }

    /// One less.
    pub(super) fn release(&mut self, view: View, order: &Ordered) {
        if let Some(index) = self.find_mut(view, By::of(order)) {
            index.users -= 1;
            index.idle = 0;
        }
    }

    /// How many rows the index of this order has.
    pub(super) fn len(&self, view: View, order: &Ordered) -> usize {
        self.find(view, By::of(order)).map_or(0, |index| index.len)
    }

    /// What rows are read by.
    pub(super) fn used(&self, watch: &Watch) -> Option<By> {
        let by = |made: usize| self.made[made].by;
        let order = watch.order.as_ref().and_then(|order| self.find(watch.view, By::of(order)));
        let mut looked_up = watch.lookups.iter().map(|lookup| lookup.column);
        let mut spans = watch.spans.iter().map(|span| By::Order { within: None, by: span.column });
        order
            .map(|index| index.by)
            .or_else(|| looked_up.find_map(|probe| self.by_value(watch.view, probe)).map(by))
            .or_else(|| spans.find_map(|by| self.find(watch.view, by)).map(|index| index.by))
    }

    /// All of them, for people.
    pub(super) fn list(&self, columns: &[SmolStr]) -> Vec<String> {
        let tell = |index: &Index| {
            let Index { view, by, len, users, .. } = index;
            format!("{}, {view:?} rows: {len}, live queries: {users}", by.explain(columns))
        };
        self.made.iter().map(tell).collect()
    }

    /// The index that finds rows by their value in a column.
    fn by_value(&self, view: View, probe: Probe) -> Option<usize> {
        self.made.iter().position(|index| index.view == view && index.by.finds(probe))
    }

    fn find(&self, view: View, by: By) -> Option<&Index> {
        self.made.iter().find(|index| index.view == view && index.by == by)
    }

    fn find_mut(&mut self, view: View, by: By) -> Option<&mut Index> {
        self.made.iter_mut().find(|index| index.view == view && index.by == by)
    }
}

impl By {
    fn of(order: &Ordered) -> Self {
        let within = order.within.as_ref().map(|(probe, _)| *probe);
        Self::Order { within, by: order.by }
    }

    /// Whether rows of one value in this column are found by it.
    fn finds(self, probe: Probe) -> bool {
        match self {
            Self::Value(own) | Self::Order { within: Some(own), .. } => own == probe,
            Self::Order { within: None, by } => by == probe,
        }
    }

    /// For people.
    pub(super) fn explain(self, columns: &[SmolStr]) -> String {
        match self {
            Self::Value(probe) => format!("index by {}", probe.name(columns)),
            Self::Order { within, by } => {
                let within = within.map(|probe| format!(" within {}", probe.name(columns)));
                format!("index ordered by {}{}", by.name(columns), within.unwrap_or_default())
            }
        }
    }
}

impl Index {
    /// Whether it has cost more since it was read than to make it again.
    fn is_idle(&self) -> bool {
        self.users == 0 && self.idle > self.len.max(INDEX_ROWS_MIN)
    }

    fn apply(&mut self, Change { old, new, .. }: &Change) {
        if let (Some(old), Some(new)) = (old, new)
            && self.replace(old, new)
        {
            return;
        }
        if let Some(old) = old {
            self.remove(old);
        }
        if let Some(new) = new {
            self.put(new);
        }
    }

    /// Where a row is filed; nothing if it is not.
    fn place<'a>(&self, entry: &'a Entry) -> Option<(Cow<'a, Value>, Option<Cow<'a, Value>>)> {
        match self.by {
            By::Value(probe) => Some((probe.of(entry), None)),
            By::Order { within: None, by } => Some((Cow::Owned(ALL), Some(by.of(entry)))),
            By::Order { within: Some(within), by } => {
                // Nobody asks for rows that have nothing there.
                let within = Some(within.of(entry)).filter(|value| !value.is_nothing())?;
                Some((within, Some(by.of(entry))))
            }
        }
    }

    /// Many rows at once.
    fn sort<'a>(&mut self, rows: impl Iterator<Item = &'a Arc<Entry>>, len: usize) {
        let mut sorted: HashMap<_, _, FixedState> = HashMap::default();
        if let By::Order { within: None, by } = self.by {
            let mut all = Vec::with_capacity(len);
            all.extend(rows.map(|entry| Some((by.of(entry).into_owned(), entry.clone()))));
            sorted.insert(ALL, Sorted::of(all));
        } else {
            let mut filed: HashMap<Value, Vec<_>, FixedState> = HashMap::default();
            for entry in rows {
                let Some((within, by)) = self.place(entry) else { continue };
                let row = Some((by.unwrap_or_default().into_owned(), entry.clone()));
                match filed.get_mut(&*within) {
                    Some(rows) => rows.push(row),
                    None => drop(filed.insert(within.into_owned(), vec![row])),
                }
            }
            sorted.extend(filed.into_iter().map(|(within, rows)| (within, Sorted::of(rows))));
        }
        self.len = sorted.values().map(Sorted::len).sum();
        self.rows = Rows::Sorted(sorted);
    }

    /// Puts a row in the place of another if it is the same place.
    fn replace(&mut self, old: &Entry, new: &Arc<Entry>) -> bool {
        let (from, to) = (self.place(old), self.place(new));
        let is_same = from == to;
        let bucket = match (to, &mut self.rows) {
            (Some((value, None)), Rows::Hash(rows)) if is_same => rows.get_mut(&*value),
            (Some((within, Some(value))), Rows::Sorted(rows)) if is_same => {
                rows.get_mut(&*within).and_then(|sorted| sorted.get_mut(value))
            }
            // Neither was nor is filed.
            (None, _) => return is_same,
            _ => None,
        };
        match bucket {
            Some(bucket) => {
                bucket.put(new);
                true
            }
            None => false,
        }
    }

    fn put(&mut self, entry: &Arc<Entry>) {
        let Some((value, sorted_by)) = self.place(entry) else { return };
        let is_new = match &mut self.rows {
            Rows::Hash(rows) => match rows.get_mut(&*value) {
                Some(bucket) => bucket.put(entry),
                None => rows.insert(value.into_owned(), Bucket::One(entry.clone())).is_none(),
            },
            Rows::Sorted(rows) => {
                let by = sorted_by.unwrap_or_default();
                match rows.get_mut(&*value) {
                    Some(sorted) => sorted.put(by, entry),
                    None => {
                        let mut sorted = Sorted::default();
                        sorted.put(by, entry);
                        rows.insert(value.into_owned(), sorted).is_none()
                    }
                }
            }
        };
        self.len += usize::from(is_new);
    }

    fn remove(&mut self, entry: &Arc<Entry>) {
        let Some((value, sorted_by)) = self.place(entry) else { return };
        let (was_there, is_empty) = match &mut self.rows {
            Rows::Hash(rows) => match rows.get_mut(&*value) {
                Some(bucket) => bucket.remove(&entry.key),
                None => return,
            },
            Rows::Sorted(rows) => match rows.get_mut(&*value) {
                Some(sorted) => {
                    let was_there = sorted.remove(sorted_by.unwrap_or_default(), &entry.key);
                    (was_there, sorted.is_empty())
                }
                None => return,
            },
        };
        self.len -= usize::from(was_there);
        if is_empty {
            match &mut self.rows {
                Rows::Hash(rows) => drop(rows.remove(&*value)),
                Rows::Sorted(rows) => drop(rows.remove(&*value)),
            }
        }
    }

    fn sorted(&self, within: &Value) -> Option<&Sorted> {
        match &self.rows {
            Rows::Hash(_) => None,
            Rows::Sorted(rows) => rows.get(within),
        }
    }

    /// How many rows have this value.
    fn count(&self, value: &Value) -> usize {
        match (&self.rows, self.by) {
            (Rows::Hash(rows), _) => rows.get(value).map_or(0, Bucket::len),
            (Rows::Sorted(_), By::Order { within: Some(_), .. }) => {
                self.sorted(value).map_or(0, Sorted::len)
            }
            _ => self.sorted(&ALL).and_then(|all| all.get(value)).map_or(0, Bucket::len),
        }
    }

    /// Calls `each` for the rows that have this value.
    fn each(&self, value: &Value, each: &mut dyn FnMut(&Arc<Entry>)) {
        let bucket = match (&self.rows, self.by) {
            (Rows::Hash(rows), _) => rows.get(value),
            (Rows::Sorted(_), By::Order { within: Some(_), .. }) => {
                self.sorted(value).into_iter().for_each(|sorted| sorted.each(each));
                return;
            }
            _ => self.sorted(&ALL).and_then(|all| all.get(value)),
        };
        bucket.into_iter().flat_map(Bucket::iter).for_each(each);
    }
}
