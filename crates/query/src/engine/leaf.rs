//! Leaves: the rows of a collection that a query cares for.

use std::sync::Arc;

use smallvec::smallvec;

use super::{Change, Delta, Feed, Lookup, feed::Probe};
use crate::{
    Semantics,
    catalog::CollectionId,
    expr::{Expr, Function, Item, Virtual},
    ir::View,
    record::Entry,
    value::Value,
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
}

impl Leaf {
    pub(super) fn new(
        number: usize,
        collection: CollectionId,
        view: View,
        filter: Option<Expr>,
    ) -> Self {
        let mut lookups = Vec::new();
        let is_exact = filter.as_ref().is_some_and(|filter| find_lookups(filter, &mut lookups));
        Self { number, watch: Watch { collection, view, lookups }, filter, is_exact }
    }

    pub(super) fn step(&self, feed: &Feed<'_>) -> Vec<Delta> {
        let mut deltas = Vec::new();
        match feed {
            Feed::Tick(changes) => {
                let start = changes.partition_point(|(leaf, _)| *leaf < self.number);
                let own = changes[start..].iter().take_while(|(leaf, _)| *leaf == self.number);
                deltas.extend(own.filter_map(|(_, change)| self.pass(change)));
            }
            Feed::Initial(rows) => {
                let Watch { collection, view, lookups } = &self.watch;
                if self.filter.is_none() {
                    deltas.reserve_exact(rows.len(*collection, *view));
                }
                rows.scan(*collection, *view, lookups, &mut |entry| {
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

    fn filtered(&self, entry: Option<&Arc<Entry>>) -> Option<Item> {
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

/// Conjuncts that say which values a column must have; true if there are no others.
fn find_lookups(filter: &Expr, found: &mut Vec<Lookup>) -> bool {
    let Expr::Call { function, args, semantics } = filter else { return false };
    match (function, &**args) {
        (Function::And, args) => {
            let is_exact = |is_exact, arg| find_lookups(arg, found) && is_exact;
            args.iter().fold(true, is_exact)
        }
        (Function::Eq, [probe, Expr::Const(value)] | [Expr::Const(value), probe]) => {
            let lookup = lookup(probe, [value]);
            // JavaScript has an equality of its own.
            let is_exact = lookup.is_some() && *semantics == Semantics::Sql;
            found.extend(lookup);
            is_exact
        }
        (Function::In, [probe, Expr::Const(Value::List(list))]) => {
            found.extend(lookup(probe, list.iter()));
            false
        }
        _ => false,
    }
}

fn lookup<'a>(probe: &Expr, values: impl IntoIterator<Item = &'a Value>) -> Option<Lookup> {
    let column = match probe {
        Expr::Column { column, path, .. } if path.is_empty() => Probe::Column(*column),
        Expr::Virtual { what: Virtual::Key, .. } => Probe::Key,
        Expr::Virtual { what: Virtual::Synced, .. } => Probe::Synced,
        _ => return None,
    };
    // Nothing equals nothing.
    let mut values: Vec<_> =
        values.into_iter().filter(|value| !value.is_nothing()).cloned().collect();
    // Lists and objects are not worth an index, and a lookup must find all rows that can pass.
    if values.iter().any(|value| matches!(value, Value::List(_) | Value::Object(_))) {
        return None;
    }
    values.sort_unstable();
    values.dedup();
    Some(Lookup { column, values: values.into() })
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
