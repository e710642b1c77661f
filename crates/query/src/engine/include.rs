//! Rows nested in other rows, in their own order.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{
    Delta, Feed, Out,
    nest::Nest,
    plan::Node,
    weight::{bytes, key_bytes},
    window::Sorting,
};
use crate::{
    expr::{Expr, Item, js_text},
    ir::Form,
    record::{Entry, Key},
    value::{List, Rope, SortKey, Value},
};

/// A query whose rows are nested in those of another.
#[derive(Debug)]
pub(super) struct Include {
    /// The column they are shown in.
    pub(super) column: usize,
    pub(super) form: Form,
    pub(super) source: Node,
    /// What ties a row of its own to an outer one, and what ties the outer one to it.
    pub(super) own: Expr,
    pub(super) outer: Expr,
    pub(super) sorting: Sorting,
    pub(super) offset: usize,
    pub(super) limit: Option<usize>,
    pub(super) nest: Box<Nest>,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    members: HashMap<Key, Member, FixedState>,
    families: HashMap<Value, Family, FixedState>,
    parents: HashMap<Value, BTreeSet<Key>, FixedState>,
}

/// Where a nested row belongs.
#[derive(Clone, Debug, PartialEq)]
struct Member {
    tie: Value,
    place: SortKey,
}

/// All rows that are nested together.
#[derive(Debug, Default)]
struct Family {
    places: Vec<SortKey>,
    rows: List,
    /// Their text; made anew at the end of a step in which it did not only grow at its end.
    text: Option<Rope>,
}

/// What an include is made of.
pub(super) struct Parts {
    pub(super) column: usize,
    pub(super) form: Form,
    pub(super) source: Node,
    pub(super) own: Expr,
    pub(super) outer: Expr,
    pub(super) sorting: Sorting,
    pub(super) offset: usize,
    pub(super) limit: Option<usize>,
    pub(super) nest: Nest,
}

impl Include {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { column, form, source, own, outer, sorting, offset, limit, nest } = parts;
        let (nest, state) = (Box::new(nest), State::default());
        Self { column, form, source, own, outer, sorting, offset, limit, nest, state }
    }

    /// Takes in what changed; answers which ties have other rows now.
    pub(super) fn step(&mut self, feed: &Feed<'_>) -> Vec<Value> {
        let deltas = self.source.step(feed);
        let mut moved: HashMap<Key, Option<Member>, FixedState> = HashMap::default();
        for Delta { key, new, .. } in &deltas {
            let member = new.as_ref().map(|item| Member {
                tie: self.own.eval(item).into_owned(),
                place: self.sorting.place(key, item),
            });
            let before = match member {
                Some(member) => self.state.members.insert(key.clone(), member),
                None => self.state.members.remove(key),
            };
            moved.insert(key.clone(), before);
        }
        let outs = self.nest.step(deltas, None, feed);
        let mut touched = Vec::new();
        for Out { change, .. } in outs {
            let after = self.state.members.get(&change.key).cloned();
            let before = moved.remove(&change.key).unwrap_or_else(|| after.clone());
            if before == after && change.old == change.new {
                continue;
            }
            let entry = change.new.as_deref();
            self.state.seat(before, after, entry, self.form, &mut touched);
        }
        touched.sort_unstable();
        touched.dedup();
        if self.form == Form::Text && self.is_all() {
            for tie in &touched {
                if let Some(family) = self.state.families.get_mut(tie) {
                    family.mend();
                }
            }
        }
        touched
    }

    /// Whether all rows of a family are shown.
    fn is_all(&self) -> bool {
        self.offset == 0 && self.limit.is_none()
    }

    /// What ties nested rows to this outer row.
    pub(super) fn tie_of(&self, outer: &Item) -> Value {
        self.outer.eval(outer).into_owned()
    }

    /// An outer row came, left, or is tied otherwise.
    pub(super) fn tie(&mut self, key: &Key, old: Option<&Value>, new: Option<Value>) {
        if old == new.as_ref() {
            return;
        }
        if let Some(keys) = old.and_then(|old| self.state.parents.get_mut(old)) {
            keys.remove(key);
        }
        if let Some(old) = old
            && self.state.parents.get(old).is_some_and(BTreeSet::is_empty)
        {
            self.state.parents.remove(old);
        }
        if let Some(new) = new.filter(|new| !new.is_nothing()) {
            self.state.parents.entry(new).or_default().insert(key.clone());
        }
    }

    /// The outer rows with this tie.
    pub(super) fn parents(&self, tie: &Value) -> impl Iterator<Item = &Key> {
        self.state.parents.get(tie).into_iter().flatten()
    }

    /// What is nested by this tie.
    pub(super) fn value(&self, tie: &Value) -> Value {
        let family = self.state.families.get(tie).filter(|_| !tie.is_nothing());
        let shown = |family: &Family| -> Vec<Value> {
            let rows = family.rows.iter().skip(self.offset);
            rows.take(self.limit.unwrap_or(usize::MAX)).cloned().collect()
        };
        let is_all = self.is_all();
        match (self.form, family) {
            (Form::List, None) => Value::List(List::default()),
            (Form::Text, None) => Value::Rope(Rope::default()),
            (Form::One, None) => Value::Null,
            (Form::List, Some(family)) if is_all => Value::List(family.rows.clone()),
            (Form::List, Some(family)) => Value::list(shown(family)),
            (Form::One, Some(family)) => shown(family).into_iter().next().unwrap_or(Value::Null),
            (Form::Text, Some(family)) => match &family.text {
                Some(text) if is_all => Value::Rope(text.clone()),
                _ => Value::Rope(shown(family).iter().map(|value| js_text(value).into()).collect()),
            },
        }
    }

    /// The nested rows count where they are shown.
    pub(super) fn heap_bytes(&self) -> usize {
        let member = |(key, member): (&Key, &Member)| {
            let place = member.place.heap_bytes();
            size_of::<(Key, Member)>() + key_bytes(key) + key_bytes(&member.tie) + place
        };
        let family = |family: &Family| {
            let places: usize = family.places.iter().map(SortKey::heap_bytes).sum();
            let row = size_of::<SortKey>() + size_of::<Value>();
            size_of::<(Value, Family)>() + places + family.places.len() * row
        };
        let parents = |(tie, keys): (&Value, &BTreeSet<Key>)| {
            size_of::<BTreeSet<Key>>() + bytes(tie) + keys.iter().map(bytes).sum::<usize>()
        };
        self.state.members.iter().map(member).sum::<usize>()
            + self.state.families.values().map(family).sum::<usize>()
            + self.state.parents.iter().map(parents).sum::<usize>()
            + self.nest.heap_bytes()
            + self.source.heap_bytes()
    }

    pub(super) fn is_overrun(&self) -> bool {
        self.source.is_overrun() || self.nest.is_overrun()
    }

    pub(super) fn heap_rows(&self) -> usize {
        self.state.members.len() + self.nest.heap_rows() + self.source.heap_rows()
    }
}

impl State {
    /// Seats a row where it belongs now.
    fn seat(
        &mut self,
        before: Option<Member>,
        after: Option<Member>,
        entry: Option<&Entry>,
        form: Form,
        touched: &mut Vec<Value>,
    ) {
        let value = entry.map(|entry| nested_value(entry, form));
        if let (Some(before), Some(after), Some(value)) = (&before, &after, &value)
            && before == after
            && let Some(family) = self.families.get_mut(&after.tie)
        {
            family.replace(&after.place, value);
            touched.push(after.tie.clone());
            return;
        }
        if let Some(Member { tie, place }) = before
            && let Some(family) = self.families.get_mut(&tie)
        {
            family.remove(&place);
            if family.places.is_empty() {
                self.families.remove(&tie);
            }
            touched.push(tie);
        }
        if let (Some(Member { tie, place }), Some(value)) = (after, value) {
            self.families.entry(tie.clone()).or_default().insert(place, value, form);
            touched.push(tie);
        }
    }
}

fn nested_value(entry: &Entry, form: Form) -> Value {
    match form {
        Form::Text => entry.record.column(0).into_owned(),
        Form::List | Form::One => Value::Object(std::sync::Arc::new(entry.record.to_tuple())),
    }
}

impl Family {
    fn insert(&mut self, place: SortKey, value: Value, form: Form) {
        let Err(index) = self.places.binary_search(&place) else { return };
        if form == Form::Text {
            let is_end = index == self.places.len();
            let text = if index == 0 && is_end { Some(Rope::default()) } else { self.text.take() };
            self.text = text.filter(|_| is_end).map(|text| text.push(js_text(&value).into()));
        }
        self.places.insert(index, place);
        self.rows.insert(index, value);
    }

    /// Makes the text anew if it did not only grow, so that it can grow again.
    fn mend(&mut self) {
        if self.text.is_none() {
            self.text = Some(self.rows.iter().map(|value| js_text(value).into()).collect());
        }
    }

    fn replace(&mut self, place: &SortKey, value: &Value) {
        if let Ok(index) = self.places.binary_search(place) {
            self.rows.set(index, value.clone());
            self.text = None;
        }
    }

    fn remove(&mut self, place: &SortKey) {
        if let Ok(index) = self.places.binary_search(place) {
            self.places.remove(index);
            self.rows.remove(index);
            self.text = None;
        }
    }
}
