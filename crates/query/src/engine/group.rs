//! Groups and their aggregates.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::smallvec;

use super::{
    Delta,
    aggregate::{Aggregate, Running},
    weight::{Owner, bytes, item_bytes},
};
use crate::{
    Semantics,
    expr::{Expr, Item, group_key_text},
    record::{Entry, Key, Meta, Origin, Record, Shape, Tuple},
    value::Value,
};

/// What groups are made of, and all groups there are.
#[derive(Debug)]
pub(super) struct Groups {
    by: Box<[Expr]>,
    aggregates: Box<[(Aggregate, Expr)]>,
    shape: Arc<Shape>,
    semantics: Semantics,
    groups: HashMap<Box<[Value]>, Group, FixedState>,
}

#[derive(Debug)]
struct Group {
    rows: u64,
    pending: u64,
    local: u64,
    running: Box<[Running]>,
    shown: Option<Item>,
    is_touched: bool,
}

impl Groups {
    pub(super) fn new(
        by: Vec<Expr>,
        aggregates: Vec<(Aggregate, Expr)>,
        semantics: Semantics,
    ) -> Self {
        let names = (0..by.len() + aggregates.len()).map(|index| index.to_string());
        let shape = Arc::new(Shape::of(names));
        Self {
            by: by.into(),
            aggregates: aggregates.into(),
            shape,
            semantics,
            groups: HashMap::default(),
        }
    }

    /// All rows are one group, which is there even without rows.
    fn is_whole(&self) -> bool {
        self.by.is_empty() && self.semantics == Semantics::Sql
    }

    pub(super) fn heap_rows(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let group = |by: &[Value], group: &Group| -> usize {
            let by: usize = by.iter().map(bytes).sum();
            let running: usize = group.running.iter().map(Running::heap_bytes).sum();
            let shown = group.shown.as_ref().map_or(0, |item| item_bytes(item, Owner::Made));
            size_of::<(Box<[Value]>, Group)>() + by + running + shown
        };
        self.groups.iter().map(|(by, of)| group(by, of)).sum()
    }

    /// The first step shows the group of all rows, if there is one.
    pub(super) fn begin(&mut self, deltas: &[Delta]) -> Vec<Delta> {
        let mut touched = Vec::new();
        if self.is_whole() {
            self.touch(Box::default(), &mut touched);
        }
        self.take(deltas, touched)
    }

    pub(super) fn step(&mut self, deltas: &[Delta]) -> Vec<Delta> {
        self.take(deltas, Vec::new())
    }

    fn take(&mut self, deltas: &[Delta], mut touched: Vec<Box<[Value]>>) -> Vec<Delta> {
        for Delta { key, old, new } in deltas {
            if let Some(item) = old {
                self.row(key, item, Running::remove, &mut touched, -1);
            }
            if let Some(item) = new {
                self.row(key, item, Running::add, &mut touched, 1);
            }
        }
        touched.into_iter().filter_map(|by| self.publish(&by)).collect()
    }

    fn row(
        &mut self,
        key: &Key,
        item: &Item,
        change: fn(&mut Running, &Key, &Value, Semantics),
        touched: &mut Vec<Box<[Value]>>,
        count: i64,
    ) {
        let by: Box<[_]> = self.by.iter().map(|by| self.group_value(by, item)).collect();
        let semantics = self.semantics;
        let values: Vec<_> = self.aggregates.iter().map(|(_, arg)| arg.eval(item)).collect();
        // Evaluated before the group is borrowed; the groups do not look at the expressions.
        let values: Vec<_> = values.into_iter().map(std::borrow::Cow::into_owned).collect();
        let group = self.touch(by, touched);
        group.rows = group.rows.saturating_add_signed(count);
        let (is_pending, is_local) = flags(item);
        group.pending = group.pending.saturating_add_signed(if is_pending { count } else { 0 });
        group.local = group.local.saturating_add_signed(if is_local { count } else { 0 });
        for (running, value) in group.running.iter_mut().zip(&values) {
            change(running, key, value, semantics);
        }
    }

    fn group_value(&self, by: &Expr, item: &Item) -> Value {
        match by.eval(item).into_owned() {
            Value::Missing if self.semantics == Semantics::Sql => Value::Null,
            value => value,
        }
    }

    fn touch(&mut self, by: Box<[Value]>, touched: &mut Vec<Box<[Value]>>) -> &mut Group {
        let aggregates = &self.aggregates;
        let group = self.groups.entry(by.clone()).or_insert_with(|| Group {
            rows: 0,
            pending: 0,
            local: 0,
            running: aggregates.iter().map(|(aggregate, _)| aggregate.start()).collect(),
            shown: None,
            is_touched: false,
        });
        if !group.is_touched {
            group.is_touched = true;
            touched.push(by);
        }
        group
    }

    /// How a group was and is; nothing if that is the same.
    fn publish(&mut self, by: &[Value]) -> Option<Delta> {
        let (is_whole, key) = (self.is_whole(), self.key(by));
        let group = self.groups.get_mut(by)?;
        group.is_touched = false;
        let old = group.shown.take();
        if group.rows == 0 && !is_whole {
            self.groups.remove(by);
            return old.is_some().then_some(Delta { key, old, new: None });
        }
        let values: Vec<_> =
            by.iter().cloned().chain(group.running.iter().map(Running::value)).collect();
        let meta = Meta {
            position: None,
            is_pending: group.pending > 0,
            origin: if group.local > 0 { Origin::Local } else { Origin::Remote },
        };
        let record = Record::Tuple(Tuple::new(self.shape.clone(), values));
        let new: Item = smallvec![Some(Arc::new(Entry { key: key.clone(), record, meta }))];
        group.shown = Some(new.clone());
        (old.as_ref() != Some(&new)).then_some(Delta { key, old, new: Some(new) })
    }

    fn key(&self, by: &[Value]) -> Key {
        match (by, self.semantics) {
            ([], Semantics::Tanstack) => Value::from("single_group"),
            ([only], _) => only.clone(),
            (_, Semantics::Sql) => Value::list(by.iter().cloned()),
            (_, Semantics::Tanstack) => group_key_text(by),
        }
    }
}

/// Whether something of the row is not confirmed, and whether something is this client's.
fn flags(item: &Item) -> (bool, bool) {
    let entries = || item.iter().flatten();
    let is_local = |entry: &Arc<Entry>| entry.meta.origin == Origin::Local;
    (entries().any(|entry| entry.meta.is_pending), entries().any(is_local))
}
