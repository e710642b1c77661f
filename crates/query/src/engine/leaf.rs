//! Leaves: the rows of a collection that a query cares for.

use std::sync::Arc;

use smallvec::smallvec;

use super::{
    Change, Delta, Feed, Lookup,
    feed::{Ordered, Probe, Span},
    narrow::{Narrowed, narrow},
};
use crate::{
    catalog::CollectionId,
    expr::{Expr, Item},
    ir::View,
    record::Entry,
};

/// Where rows enter a plan.
#[derive(Debug)]
pub(super) struct Leaf {
    /// Its number in the plan.
    pub(super) number: usize,
    pub(super) watch: Watch,
    pub(super) filter: Option<Expr>,
    /// Whether the lookups say all that the filter says.
    is_exact: bool,
}

/// What a leaf must be told.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) collection: CollectionId,
    pub(crate) view: View,
    /// Rows that can pass the filter; any of these tells them all.
    pub(crate) lookups: Vec<Lookup>,
    /// Rows that can pass the filter; any of these tells them all, too.
    pub(crate) spans: Vec<Span>,
    /// The order in which the first rows are wanted, if they are.
    pub(crate) order: Option<Ordered>,
}

impl Leaf {
    /// A leaf of a collection whose key is the column of this number.
    pub(super) fn new(
        number: usize,
        (collection, key): (CollectionId, Option<usize>),
        view: View,
        filter: Option<Expr>,
    ) -> Self {
        let found = filter.as_ref().map(|filter| narrow(filter, key)).unwrap_or_default();
        let Narrowed { lookups, spans, is_exact } = found;
        let watch = Watch { collection, view, lookups, spans, order: None };
        Self { number, watch, filter, is_exact }
    }

    /// The only value that rows must have, and where, if that is all that is asked of them; or
    /// nothing is.
    pub(super) fn only(&self) -> Option<Option<(Probe, crate::Value)>> {
        match (&self.filter, &self.watch.lookups[..]) {
            (None, _) => Some(None),
            (Some(_), [Lookup { column, values }]) if self.is_exact => match &values[..] {
                [value] => Some(Some((*column, value.clone()))),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn step(&self, feed: &Feed<'_>) -> Vec<Delta> {
        let mut deltas = Vec::new();
        match feed {
            Feed::Tick(changes, _) => {
                let start = changes.partition_point(|(leaf, _)| *leaf < self.number);
                let own = changes[start..].iter().take_while(|(leaf, _)| *leaf == self.number);
                deltas.extend(own.filter_map(|(_, change)| self.pass(change)));
            }
            Feed::Initial(rows) => {
                if self.filter.is_none() {
                    deltas.reserve_exact(rows.len(&self.watch));
                }
                rows.scan(&self.watch, &mut |entry| {
                    let new = self.filtered(Some(entry));
                    if new.is_some() {
                        deltas.push(Delta { key: entry.key.clone(), old: None, new });
                    }
                });
            }
        }
        deltas
    }

    fn pass(&self, change: &Change) -> Option<Delta> {
        let (old, new) = (self.filtered(change.old.as_ref()), self.filtered(change.new.as_ref()));
        (old.is_some() || new.is_some()).then(|| Delta { key: change.key.clone(), old, new })
    }

    pub(super) fn filtered(&self, entry: Option<&Arc<Entry>>) -> Option<Item> {
        let entry = entry?;
        if self.is_exact {
            let is_found = |lookup: &Lookup| lookup.values.contains(&lookup.column.of(entry));
            let is_wanted = self.watch.lookups.iter().all(is_found);
            return is_wanted.then(|| smallvec![Some(Arc::clone(entry))]);
        }
        let item: Item = smallvec![Some(Arc::clone(entry))];
        match &self.filter {
            Some(filter) if !filter.holds(&item) => None,
            _ => Some(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, Query, Schema, Tick, Write};

    #[track_caller]
    fn check(filter: &str, rows: &[&str], told: usize) {
        let mut db = Database::new();
        let jobs = db.collection("jobs", Schema::open("id")).unwrap();
        let query = format!(r#"{{"from":{{"col":"jobs","as":"j"}},"where":[{filter}]}}"#);
        let query = db.live(&Query::from_json(&query).unwrap()).unwrap();
        let mut write = |row| {
            let record = db.record(jobs, row).unwrap();
            let writes = vec![(jobs, Write::Put(record, Default::default()))];
            db.apply(Tick { writes, retires: vec![] }).unwrap();
        };
        rows.iter().for_each(|row| write(row));
        assert_eq!(db.result_len(query), told, "{filter}");
    }

    #[test]
    fn a_change_is_told_whatever_it_is_looked_up_by() {
        let rows = &[r#"{"id":"a","n":1,"s":"x"}"#, r#"{"id":"b","n":[1]}"#, r#"{"id":"c"}"#];
        let eq = |value: &str| {
            format!(r#"{{"fn":"eq","args":[{{"ref":["j","n"]}},{{"val":{value}}}]}}"#)
        };
        let is_x = r#"{"fn":"eq","args":[{"ref":["j","s"]},{"val":"x"}]}"#;
        check(&eq("1"), rows, 1);
        check(&eq("1.0"), rows, 1);
        check(&eq("[1]"), rows, 1);
        check(&eq("null"), rows, 0);
        check(&format!("{},{is_x}", eq("1")), rows, 1);
        check(&format!("{},{is_x}", eq("[1]")), rows, 0);
        check(r#"{"fn":"in","args":[{"ref":["j","n"]},{"val":[[1],1]}]}"#, rows, 2);
    }
}
