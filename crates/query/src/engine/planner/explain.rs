//! How a query is kept up to date, for people.

use std::fmt::Write as _;

use smol_str::ToSmolStr;

use super::Planner;
use crate::{
    engine::{feed::Probe, leaf::Leaf},
    expr::Scope,
    ir::View,
};

impl Planner {
    pub(super) fn note(&mut self, line: &str) {
        let _ = writeln!(self.explanation, "{:indent$}{line}", "", indent = 2 * (self.depth - 1));
    }

    pub(super) fn explain_leaf(&mut self, leaf: &Leaf, scope: &Scope<'_>) {
        let name = scope.catalog.name(leaf.watch.collection).clone();
        let how = match leaf.watch.lookups.first() {
            Some(lookup) => {
                let column = match lookup.column {
                    Probe::Key => "$key".to_smolstr(),
                    Probe::Synced => "$synced".to_smolstr(),
                    Probe::Column(column) => {
                        let names = scope.catalog.names(leaf.watch.collection);
                        names.get(column).cloned().unwrap_or_default()
                    }
                };
                format!("told by {column}, one of {} values", lookup.values.len())
            }
            None => "told of every change".into(),
        };
        let filter = if leaf.filter.is_some() { ", filtered" } else { "" };
        let view = if leaf.watch.view == View::Synced { ", synced rows only" } else { "" };
        self.note(&format!("from {name}: {how}{filter}{view}"));
    }
}
