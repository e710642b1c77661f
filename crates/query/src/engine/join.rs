//! Joins of two inputs on equal values.

use std::mem;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{
    Delta, Feed,
    consolidate::consolidate,
    plan::Node,
    weight::{key_bytes, row_bytes},
};
use crate::{
    Semantics,
    caps::JOIN_ROWS_MAX,
    expr::{Expr, Item, key_text},
    ir::JoinKind,
    record::Key,
    value::{List, Value},
};

/// Two inputs, and what each of them has for every value they are joined by.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) left: Node,
    pub(super) right: Node,
    sides: [Arranged; 2],
    semantics: Semantics,
    /// Whether more rows met in a tick than may. What it holds since then is of no use.
    is_overrun: bool,
}

/// One input of a join.
#[derive(Debug)]
struct Arranged {
    /// What is compared.
    on: Box<[Expr]>,
    /// How many sources are in its rows.
    width: usize,
    /// Whether its rows stay when they have no partner.
    is_kept: bool,
    rows: HashMap<Value, Bucket, FixedState>,
}

/// The rows of one value; mostly there is one.
#[derive(Debug)]
enum Bucket {
    One(Key, Item),
    /// In the order of their keys, so that neighbours are told one after the other.
    Few(Vec<(Key, Item)>),
    Many(HashMap<Key, Item, FixedState>),
}

/// From here on a table is faster than making room in a list.
const FEW_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// The two inputs of a join, to be.
pub(super) struct Input {
    pub(super) node: Node,
    pub(super) on: Vec<Expr>,
    pub(super) width: usize,
}

impl Join {
    pub(super) fn new(kind: JoinKind, left: Input, right: Input, semantics: Semantics) -> Self {
        let arranged = |input: &Input, is_kept| Arranged {
            on: input.on.clone().into(),
            width: input.width,
            is_kept,
            rows: HashMap::default(),
        };
        let sides = [arranged(&left, kind.keeps_left()), arranged(&right, kind.keeps_right())];
        Self { left: left.node, right: right.node, sides, semantics, is_overrun: false }
    }

    pub(super) fn step(&mut self, feed: &Feed<'_>) -> Vec<Delta> {
        // One side meets the other as it was, then the other meets it as it is: each pair is met
        // once. To begin with, those who stay alone come last, when all their partners are there.
        let (left, right) = (self.left.step(feed), self.right.step(feed));
        let [keeps_left, keeps_right] = [&self.sides[0], &self.sides[1]].map(|side| side.is_kept);
        let is_initial = matches!(feed, Feed::Initial(_));
        let says_once = match is_initial {
            true => !(keeps_left && keeps_right),
            false => left.len() + right.len() <= 1,
        };
        let mut out = Vec::with_capacity(left.len().max(right.len()));
        let mut inputs = [(Side::Left, left), (Side::Right, right)];
        if is_initial && keeps_left {
            inputs.reverse();
        }
        for (side, deltas) in inputs {
            for delta in deltas {
                if out.len() > JOIN_ROWS_MAX {
                    self.is_overrun = true;
                    return Vec::new();
                }
                self.changed(side, delta, &mut out);
            }
        }
        if !says_once {
            consolidate(&mut out);
        }
        out
    }

    pub(super) fn heap_rows(&self) -> usize {
        let rows = |side: &Arranged| side.rows.values().map(Bucket::len).sum::<usize>();
        self.sides.iter().map(rows).sum()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let nodes = [self.left.owner(), self.right.owner()];
        let side = |(side, owner): (&Arranged, _)| -> usize {
            let bucket = |(on, bucket): (&Value, &Bucket)| {
                let rows = bucket.iter().map(|(key, item)| row_bytes(key, item, owner));
                size_of::<(Value, Bucket)>() + key_bytes(on) + rows.sum::<usize>()
            };
            side.rows.iter().map(bucket).sum()
        };
        self.sides.iter().zip(nodes).map(side).sum()
    }

    pub(super) fn is_overrun(&self) -> bool {
        self.is_overrun || self.left.is_overrun() || self.right.is_overrun()
    }

    /// A row of one side has changed.
    fn changed(&mut self, side: Side, delta: Delta, out: &mut Vec<Delta>) {
        let Delta { key, old, new } = delta;
        let own = &self.sides[side as usize];
        let old_on = old.as_ref().and_then(|item| own.value(item));
        let new_on = new.as_ref().and_then(|item| own.value(item));
        if old.is_some() && new.is_some() && old_on == new_on {
            self.updated(side, &key, (&old, &new), new_on.as_ref(), out);
        } else {
            let was_alone = self.parted(side, &key, old.as_ref(), old_on.as_ref(), out);
            let is_alone = self.met(side, &key, new.as_ref(), new_on.as_ref(), out);
            if was_alone || is_alone {
                let before = old.as_ref().filter(|_| was_alone);
                let after = new.as_ref().filter(|_| is_alone);
                out.push(self.pair(side, (&key, before, after), None));
            }
        }
        let own = &mut self.sides[side as usize];
        let was_empty = own.replace(&key, (old_on.as_ref(), new_on.as_ref()), new);
        self.flip(side, old_on.as_ref(), new_on.as_ref(), was_empty, out);
    }

    /// Another row, but the same partners.
    fn updated(
        &self,
        side: Side,
        key: &Key,
        (old, new): (&Option<Item>, &Option<Item>),
        on: Option<&Value>,
        out: &mut Vec<Delta>,
    ) {
        let row = (key, old.as_ref(), new.as_ref());
        let mut is_alone = true;
        for (other_key, other) in self.sides[side.other() as usize].get(on) {
            is_alone = false;
            out.push(self.pair(side, row, Some((other_key, other))));
        }
        if is_alone && self.sides[side as usize].is_kept {
            out.push(self.pair(side, row, None));
        }
    }

    /// Takes the row from its partners; true if it had none, and stood alone.
    fn parted(
        &self,
        side: Side,
        key: &Key,
        old: Option<&Item>,
        on: Option<&Value>,
        out: &mut Vec<Delta>,
    ) -> bool {
        let Some(old) = old else { return false };
        let start = out.len();
        for partner in self.sides[side.other() as usize].get(on) {
            out.push(self.pair(side, (key, Some(old), None), Some(partner)));
        }
        out.len() == start && self.sides[side as usize].is_kept
    }

    /// Brings the row to its partners; true if it has none, and stands alone.
    fn met(
        &self,
        side: Side,
        key: &Key,
        new: Option<&Item>,
        on: Option<&Value>,
        out: &mut Vec<Delta>,
    ) -> bool {
        let Some(new) = new else { return false };
        let start = out.len();
        for partner in self.sides[side.other() as usize].get(on) {
            out.push(self.pair(side, (key, None, Some(new)), Some(partner)));
        }
        out.len() == start && self.sides[side as usize].is_kept
    }

    /// Rows of the other side that stay without a partner have lost their last one, or found
    /// their first.
    fn flip(
        &self,
        side: Side,
        old_on: Option<&Value>,
        new_on: Option<&Value>,
        was_empty: bool,
        out: &mut Vec<Delta>,
    ) {
        let (own, other) = (&self.sides[side as usize], &self.sides[side.other() as usize]);
        if !other.is_kept || old_on == new_on {
            return;
        }
        let is_empty = |on| own.get(on).next().is_none();
        if old_on.is_some() && is_empty(old_on) {
            for (key, item) in other.get(old_on) {
                out.push(self.pair(side.other(), (key, None, Some(item)), None));
            }
        }
        if new_on.is_some() && was_empty {
            for (key, item) in other.get(new_on) {
                out.push(self.pair(side.other(), (key, Some(item), None), None));
            }
        }
    }

    /// A row of `side` before and after, with a partner or none.
    fn pair(
        &self,
        side: Side,
        (key, old, new): (&Key, Option<&Item>, Option<&Item>),
        partner: Option<(&Key, &Item)>,
    ) -> Delta {
        let other_key = partner.map_or_else(|| self.nobody(), |(key, _)| key);
        let keys = match side {
            Side::Left => [key, other_key],
            Side::Right => [other_key, key],
        };
        let key = match self.semantics {
            Semantics::Sql => Value::List(List::pair(keys.map(Clone::clone))),
            Semantics::Tanstack => key_text(&keys),
        };
        let glue = |item: &Item| self.glue(side, item, partner.map(|(_, item)| item));
        Delta { key, old: old.map(glue), new: new.map(glue) }
    }

    /// What stands for the key of a partner that is not there. No row has it: null is the key of
    /// the group of rows without a value, which may well be a partner.
    fn nobody(&self) -> &'static Value {
        match self.semantics {
            Semantics::Sql => &Value::Missing,
            Semantics::Tanstack => &Value::Null,
        }
    }

    fn glue(&self, side: Side, item: &Item, partner: Option<&Item>) -> Item {
        let nobody = || std::iter::repeat_n(None, self.sides[side.other() as usize].width);
        let mut glued = Item::with_capacity(self.sides[0].width + self.sides[1].width);
        match (side, partner) {
            (Side::Left, Some(partner)) => {
                glued.extend(item.iter().chain(partner).cloned());
            }
            (Side::Left, None) => glued.extend(item.iter().cloned().chain(nobody())),
            (Side::Right, Some(partner)) => {
                glued.extend(partner.iter().chain(item).cloned());
            }
            (Side::Right, None) => glued.extend(nobody().chain(item.iter().cloned())),
        }
        glued
    }
}

impl Arranged {
    /// What a row is joined by; nothing never meets nothing.
    fn value(&self, item: &Item) -> Option<Value> {
        if let [only] = &*self.on {
            return Some(only.eval(item).into_owned()).filter(|value| !value.is_nothing());
        }
        let values: Vec<_> = self.on.iter().map(|on| on.eval(item).into_owned()).collect();
        (!values.iter().any(Value::is_nothing)).then(|| Value::list(values))
    }

    fn get(&self, on: Option<&Value>) -> impl Iterator<Item = (&Key, &Item)> {
        on.and_then(|on| self.rows.get(on)).into_iter().flat_map(Bucket::iter)
    }

    /// Moves a row to where it belongs; true if nobody was there before.
    fn replace(
        &mut self,
        key: &Key,
        (old_on, new_on): (Option<&Value>, Option<&Value>),
        new: Option<Item>,
    ) -> bool {
        if let Some(old_on) = old_on.filter(|old_on| Some(*old_on) != new_on) {
            self.remove(old_on, key);
        }
        let (Some(new_on), Some(new)) = (new_on, new) else { return false };
        if let Some(bucket) = self.rows.get_mut(new_on) {
            bucket.put(key, new);
            return false;
        }
        self.rows.insert(new_on.clone(), Bucket::One(key.clone(), new));
        true
    }

    fn remove(&mut self, on: &Value, key: &Key) {
        let is_empty = match self.rows.get_mut(on) {
            Some(Bucket::Few(rows)) => {
                if let Ok(place) = rows.binary_search_by(|(own, _)| own.cmp(key)) {
                    rows.remove(place);
                }
                rows.is_empty()
            }
            Some(Bucket::Many(rows)) => {
                rows.remove(key);
                rows.is_empty()
            }
            Some(Bucket::One(..)) => true,
            None => false,
        };
        if is_empty {
            self.rows.remove(on);
        }
    }
}

impl Bucket {
    fn put(&mut self, key: &Key, item: Item) {
        match self {
            Self::One(own, place) if own == key => *place = item,
            Self::One(own, first) => {
                let mut rows = vec![(mem::take(own), mem::take(first)), (key.clone(), item)];
                rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
                *self = Self::Few(rows);
            }
            Self::Few(rows) => match rows.binary_search_by(|(own, _)| own.cmp(key)) {
                Ok(place) => rows[place].1 = item,
                Err(place) if rows.len() < FEW_MAX => {
                    if rows.len() == rows.capacity() {
                        // There are many buckets: twice the room would be too much.
                        rows.reserve_exact(rows.len() / 4 + 1);
                    }
                    rows.insert(place, (key.clone(), item));
                }
                Err(_) => {
                    let mut rows: HashMap<_, _, _> = mem::take(rows).into_iter().collect();
                    rows.insert(key.clone(), item);
                    *self = Self::Many(rows);
                }
            },
            Self::Many(rows) => {
                rows.insert(key.clone(), item);
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&Key, &Item)> {
        let (one, few, many) = match self {
            Self::One(key, item) => (Some((key, item)), &[][..], None),
            Self::Few(rows) => (None, &rows[..], None),
            Self::Many(rows) => (None, &[][..], Some(rows.iter())),
        };
        let few = few.iter().map(|(key, item)| (key, item));
        one.into_iter().chain(few).chain(many.into_iter().flatten())
    }

    fn len(&self) -> usize {
        match self {
            Self::One(..) => 1,
            Self::Few(rows) => rows.len(),
            Self::Many(rows) => rows.len(),
        }
    }
}
