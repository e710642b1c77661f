//! What a plan is fed: the changes of a tick, or all rows there are.

use std::sync::Arc;

use super::Change;
use crate::{catalog::CollectionId, ir::View, record::Entry, value::Value};

/// What the leaves of a plan are given.
pub(crate) enum Feed<'a> {
    /// Changes of this tick, each for a leaf, in the order of leaves.
    Tick(&'a [(usize, &'a Change)]),
    /// All rows, to begin with.
    Initial(&'a dyn Rows),
}

/// Rows to begin with.
pub(crate) trait Rows {
    /// How many rows a collection has.
    fn len(&self, collection: CollectionId, view: View) -> usize;

    /// Calls `each` for all rows of a collection, or at least for those that all lookups find.
    fn scan(
        &self,
        collection: CollectionId,
        view: View,
        lookups: &[Lookup],
        each: &mut dyn FnMut(&Arc<Entry>),
    );
}

/// The rows a leaf looks for: those that have one of these values in this column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lookup {
    pub(crate) column: Probe,
    pub(crate) values: Box<[Value]>,
}

impl Lookup {
    pub(crate) fn is_by_key(&self) -> bool {
        self.column == Probe::Key
    }
}

/// What of a row can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Probe {
    Key,
    Synced,
    Column(usize),
}

impl Probe {
    pub(crate) fn of(self, entry: &Entry) -> std::borrow::Cow<'_, Value> {
        use std::borrow::Cow;
        match self {
            Self::Key => Cow::Borrowed(&entry.key),
            Self::Synced => Cow::Owned(Value::Bool(!entry.meta.is_pending)),
            Self::Column(column) => entry.record.column(column),
        }
    }
}
