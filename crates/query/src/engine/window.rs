//! Order, and windows over it.

use std::{
    collections::BTreeMap,
    mem,
    ops::{
        Bound::{Excluded, Unbounded},
        ControlFlow,
    },
};

use super::{
    Delta, Feed, Rows,
    consolidate::consolidate,
    leaf::Leaf,
    plan::Node,
    weight::{Owner, row_bytes},
};
use crate::{
    Semantics,
    caps::WINDOW_SPARE_MIN,
    expr::{Expr, Item},
    record::Key,
    value::{Collation, SortKey, SortSpec, Value},
};

/// What rows are sorted by.
#[derive(Debug)]
pub(super) struct Sorting {
    pub(super) by: Vec<(Expr, SortSpec)>,
    pub(super) semantics: Semantics,
}

impl Sorting {
    /// The place of a row. Keys decide where all else is equal, so no two rows have one place.
    pub(super) fn place(&self, key: &Key, item: &Item) -> SortKey {
        let mut place = SortKey::default();
        for (expr, spec) in &self.by {
            place.push(&expr.eval(item), *spec);
        }
        if self.semantics == Semantics::Tanstack {
            // There, texts come before numbers.
            let is_text = matches!(key, Value::Text(_) | Value::Rope(_));
            place.push(&Value::Bool(!is_text), SortSpec::default());
            place.push(key, SortSpec { collation: Collation::Utf16, ..SortSpec::default() });
        } else {
            place.push(key, SortSpec::default());
        }
        place
    }
}

/// Rows in order, and which of them are shown: those from `offset` on, `limit` of them.
///
/// ```text
/// before the window │ shown │ spare │ not held: read from an index when rows leave
/// ```
#[derive(Debug)]
pub(super) struct Window {
    pub(super) sorting: Sorting,
    pub(super) offset: usize,
    pub(super) limit: usize,
    rows: BTreeMap<SortKey, (Key, Item)>,
    /// Rows before the window: `offset` of them, or all.
    before: usize,
    shown: Option<Shown>,
    held: Held,
}

/// Which rows it holds.
#[derive(Debug)]
enum Held {
    /// All there are.
    All,
    /// All there are so far, and an index has them, too.
    AllOfIndex,
    /// All up to this place; the index has the others.
    UpTo(Place),
}

/// A place in an order, and what the index knows it by.
#[derive(Clone, Debug)]
struct Place {
    at: SortKey,
    value: Value,
    key: Key,
}

/// The rows within the window.
#[derive(Debug)]
struct Shown {
    first: SortKey,
    last: SortKey,
    count: usize,
}

impl Window {
    pub(super) fn new(sorting: Sorting, offset: usize, limit: usize) -> Self {
        let rows = BTreeMap::new();
        Self { sorting, offset, limit, rows, before: 0, shown: None, held: Held::All }
    }

    pub(super) fn heap_rows(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn heap_bytes(&self, owner: Owner) -> usize {
        let row = |(place, (key, item)): (&SortKey, &(Key, Item))| {
            size_of::<SortKey>() + place.heap_bytes() + row_bytes(key, item, owner)
        };
        self.rows.iter().map(row).sum()
    }

    /// How many of the first rows it needs.
    pub(super) fn reach(&self) -> usize {
        self.offset.saturating_add(self.limit)
    }

    /// How many rows it holds beyond those, so that it need not read for each that leaves.
    fn spare(&self) -> usize {
        self.reach().max(WINDOW_SPARE_MIN)
    }

    /// The first rows, if an index has them in order; from then on it holds no more than it needs.
    pub(super) fn begin(&mut self, leaf: &Leaf, rows: &dyn Rows) -> Option<Vec<Delta>> {
        leaf.watch.order.as_ref()?;
        let (mut deltas, most) = (Vec::new(), self.reach().saturating_add(self.spare()));
        let flow = rows.ordered(&leaf.watch, None, &mut |entry| {
            if deltas.len() >= most {
                return ControlFlow::Break(());
            }
            let new = leaf.filtered(Some(entry));
            deltas.push(Delta { key: entry.key.clone(), old: None, new });
            ControlFlow::Continue(())
        })?;
        let last = deltas.last().and_then(|delta| Some((&delta.key, delta.new.as_ref()?)));
        self.held = match last {
            Some((key, item)) if flow.is_break() => Held::UpTo(self.place(leaf, key, item)?),
            _ => Held::AllOfIndex,
        };
        Some(deltas)
    }

    pub(super) fn step(&mut self, deltas: Vec<Delta>, node: &Node, feed: &Feed<'_>) -> Vec<Delta> {
        if self.limit == 0 {
            return Vec::new();
        }
        let is_empty = self.rows.is_empty();
        let leaf = match node {
            Node::Leaf(leaf) => Some(leaf),
            _ => None,
        };
        let mut out = if is_empty { self.fill(deltas) } else { self.change(deltas, leaf) };
        if let (Some(leaf), Feed::Tick(_, rows)) = (leaf, feed) {
            self.refill(leaf, *rows, &mut out);
            self.trim(leaf);
        }
        if !is_empty {
            consolidate(&mut out);
        }
        out
    }

    /// Reads the next rows if it holds too few.
    fn refill(&mut self, leaf: &Leaf, rows: &dyn Rows, out: &mut Vec<Delta>) {
        let (reach, most) = (self.reach(), self.reach().saturating_add(self.spare()));
        if self.rows.len() >= reach {
            return;
        }
        let Held::UpTo(held) = &self.held else { return };
        let (held, mut last) = (held.clone(), None);
        let flow = rows.ordered(&leaf.watch, Some((&held.value, &held.key)), &mut |entry| {
            if self.rows.len() >= most {
                return ControlFlow::Break(());
            }
            if let Some(item) = leaf.filtered(Some(entry)) {
                last = self.place(leaf, &entry.key, &item);
                let at = last.as_ref().map_or_else(SortKey::default, |last| last.at.clone());
                self.insert(at, entry.key.clone(), item, out);
            }
            ControlFlow::Continue(())
        });
        self.held = match flow {
            Some(ControlFlow::Continue(())) => Held::AllOfIndex,
            _ => Held::UpTo(last.unwrap_or(held)),
        };
    }

    /// Lets go of rows far beyond the window.
    fn trim(&mut self, leaf: &Leaf) {
        let most = self.reach().saturating_add(self.spare());
        let is_held = matches!(self.held, Held::All);
        if is_held || self.rows.len() <= most.saturating_add(self.spare()) {
            return;
        }
        while self.rows.len() > most {
            self.rows.pop_last();
        }
        if let Some((_, (key, item))) = self.rows.last_key_value()
            && let Some(place) = self.place(leaf, key, item)
        {
            self.held = Held::UpTo(place);
        }
    }

    fn place(&self, leaf: &Leaf, key: &Key, item: &Item) -> Option<Place> {
        let entry = item.first()?.as_ref()?;
        let value = leaf.watch.order.as_ref()?.by.of(entry).into_owned();
        Some(Place { at: self.sorting.place(key, item), value, key: key.clone() })
    }

    fn holds(&self, at: &SortKey) -> bool {
        match &self.held {
            Held::All | Held::AllOfIndex => true,
            Held::UpTo(last) => *at <= last.at,
        }
    }

    /// Whether a row is not held, as one can tell by its value alone. Most changes are far away.
    fn is_beyond(&self, leaf: Option<&Leaf>, item: &Item) -> bool {
        let order = leaf.and_then(|leaf| leaf.watch.order.as_ref());
        match (&self.held, order, item.first()) {
            (Held::UpTo(last), Some(order), Some(Some(entry))) => {
                order.is_after(&order.by.of(entry), &last.value)
            }
            _ => false,
        }
    }

    fn change(&mut self, deltas: Vec<Delta>, leaf: Option<&Leaf>) -> Vec<Delta> {
        let mut out = Vec::new();
        for Delta { key, old, new } in deltas {
            let old = old.filter(|item| !self.is_beyond(leaf, item));
            let new = new.filter(|item| !self.is_beyond(leaf, item));
            let from = old.map(|item| self.sorting.place(&key, &item));
            let to = new.map(|item| (self.sorting.place(&key, &item), item));
            let from = from.filter(|from| self.holds(from));
            let to = to.filter(|(to, _)| self.holds(to));
            match (from, to) {
                (Some(from), Some((to, item))) if from == to => {
                    self.replace(&from, key, item, &mut out);
                }
                (from, to) => {
                    if let Some(from) = from {
                        self.remove(&from, &mut out);
                    }
                    if let Some((to, item)) = to {
                        self.insert(to, key, item, &mut out);
                    }
                }
            }
        }
        out
    }

    /// Many rows into an empty window: sorted at once.
    fn fill(&mut self, mut deltas: Vec<Delta>) -> Vec<Delta> {
        // Places are sorted apart from their rows, which are larger.
        let mut places = Vec::with_capacity(deltas.len());
        for (number, Delta { key, new, .. }) in deltas.iter().enumerate() {
            places.extend(new.as_ref().map(|item| (self.sorting.place(key, item), number)));
        }
        places.sort_unstable();
        let row = |(at, number): (SortKey, usize)| {
            let Delta { key, new, .. } = &mut deltas[number];
            (at, (mem::take(key), mem::take(new).unwrap_or_default()))
        };
        self.rows = places.into_iter().map(row).collect();
        self.before = self.rows.len().min(self.offset);
        let within = || self.rows.iter().skip(self.offset).take(self.limit);
        let ends = within().next().zip(within().next_back());
        self.shown = ends.map(|((first, _), (last, _))| Shown {
            first: first.clone(),
            last: last.clone(),
            count: within().count(),
        });
        let entered = |(_, (key, item)): (_, &(Key, Item))| enter(key, item);
        within().map(entered).collect()
    }

    /// The row changed, its place did not.
    fn replace(&mut self, at: &SortKey, key: Key, item: Item, out: &mut Vec<Delta>) {
        let Some(place) = self.rows.get_mut(at) else { return };
        let (_, old) = mem::replace(place, (key.clone(), item.clone()));
        let is_shown = |shown: &Shown| (&shown.first..=&shown.last).contains(&at);
        if self.shown.as_ref().is_some_and(is_shown) {
            out.push(Delta { key, old: Some(old), new: Some(item) });
        }
    }

    fn insert(&mut self, at: SortKey, key: Key, item: Item, out: &mut Vec<Delta>) {
        self.rows.insert(at.clone(), (key, item));
        if self.before < self.offset {
            self.before += 1;
            return;
        }
        let Some(shown) = &mut self.shown else {
            // There were exactly as many rows as the window leaves out: the last one is shown.
            let Some((last, (key, item))) = self.rows.last_key_value() else { return };
            self.shown = Some(Shown { first: last.clone(), last: last.clone(), count: 1 });
            out.push(enter(key, item));
            return;
        };
        if at < shown.first {
            let mut before = self.rows.range::<SortKey, _>((Unbounded, Excluded(&shown.first)));
            let Some((first, (key, item))) = before.next_back() else { return };
            out.push(enter(key, item));
            shown.first = first.clone();
        } else if at < shown.last || shown.count < self.limit {
            let Some((key, item)) = self.rows.get(&at) else { return };
            out.push(enter(key, item));
            shown.last = at.max(shown.last.clone());
        } else {
            return;
        }
        shown.count += 1;
        if shown.count > self.limit {
            self.push_out(out);
        }
    }

    /// The window has one row too many at its end.
    fn push_out(&mut self, out: &mut Vec<Delta>) {
        let Some(shown) = &mut self.shown else { return };
        let mut upto = self.rows.range(..=&shown.last).rev();
        if let Some((_, (key, item))) = upto.next() {
            out.push(exit(key, item));
        }
        if let Some((last, _)) = upto.next() {
            shown.last = last.clone();
        }
        shown.count -= 1;
    }

    fn remove(&mut self, at: &SortKey, out: &mut Vec<Delta>) {
        let Some((key, item)) = self.rows.remove(at) else { return };
        let Some(shown) = &mut self.shown else {
            self.before -= 1;
            return;
        };
        if *at > shown.last {
            return;
        }
        let next =
            |from: &SortKey| self.rows.range::<SortKey, _>((Excluded(from), Unbounded)).next();
        let beyond = next(&shown.last);
        if *at < shown.first {
            // The first row of the window now stands before it.
            if let Some((key, item)) = self.rows.get(&shown.first) {
                out.push(exit(key, item));
            }
            if let Some((first, _)) = next(&shown.first) {
                shown.first = first.clone();
            }
        } else {
            out.push(exit(&key, &item));
            if *at == shown.first
                && let Some((first, _)) = next(at)
            {
                shown.first = first.clone();
            }
        }
        shown.count -= 1;
        match beyond {
            Some((last, (key, item))) => {
                out.push(enter(key, item));
                shown.last = last.clone();
                shown.count += 1;
            }
            None if shown.count == 0 => self.shown = None,
            None if *at == shown.last => {
                if let Some((last, _)) = self.rows.last_key_value() {
                    shown.last = last.clone();
                }
            }
            None => {}
        }
    }
}

fn enter(key: &Key, item: &Item) -> Delta {
    Delta { key: key.clone(), old: None, new: Some(item.clone()) }
}

fn exit(key: &Key, item: &Item) -> Delta {
    Delta { key: key.clone(), old: Some(item.clone()), new: None }
}
