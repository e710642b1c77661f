//! How a query is kept up to date, for people.

use std::fmt::Write as _;

use super::Planner;
use crate::{engine::leaf::Leaf, expr::Scope, ir::View};

impl Planner {
    pub(super) fn note(&mut self, line: &str) {
        let _ = writeln!(self.explanation, "{:indent$}{line}", "", indent = 2 * (self.depth - 1));
    }

    pub(super) fn explain_leaf(&mut self, leaf: &Leaf, scope: &Scope<'_>) {
        let name = scope.catalog.name(leaf.watch.collection).clone();
        let columns = scope.catalog.names(leaf.watch.collection);
        let how = match (leaf.watch.lookups.first(), leaf.watch.spans.first()) {
            (Some(lookup), _) => {
                let column = lookup.column.name(&columns);
                format!("told by {column}, one of {} values", lookup.values.len())
            }
            (None, Some(span)) => {
                format!("told by {}, between two values", span.column.name(&columns))
            }
            (None, None) => "told of every change".into(),
        };
        let filter = if leaf.filter.is_some() { ", filtered" } else { "" };
        let view = if leaf.watch.view == View::Synced { ", synced rows only" } else { "" };
        self.note(&format!("from {name}: {how}{filter}{view}"));
    }
}
