//! The engine: a query is a tree of operators, and each turns the rows that changed below it into
//! the rows that change above it.
//!
//! ```text
//! leaves ─► joins ─► filter ─► groups ─► having ─► distinct ─► window ─► output, includes
//! ```
//!
//! Every row has a key at every stage, and a stage speaks of a key at most once in a tick: how it
//! was before, and how it is after. So an operator never sees a state that nobody was meant to
//! see, and whoever comes last can tell by presence alone whether a row entered, changed or left.

mod aggregate;
mod consolidate;
mod distinct;
mod feed;
mod group;
mod include;
mod join;
mod leaf;
mod narrow;
mod nest;
mod output;
mod plan;
mod planner;
mod shown;
mod sum;
mod union;
mod weight;
mod window;

use std::sync::Arc;

pub(crate) use self::{
    aggregate::NAMES as AGGREGATES,
    feed::{Feed, Kindred, Lookup, Ordered, Probe, Rows, Span, end},
    leaf::Watch,
    plan::Plan,
    planner::compile,
    shown::Shown,
};
use crate::{
    expr::Item,
    record::{Entry, Key},
    value::SortKey,
};

/// A row before and after a tick. At least one of both is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its key.
    pub key: Key,
    /// How it was.
    pub old: Option<Arc<Entry>>,
    /// How it is.
    pub new: Option<Arc<Entry>>,
}

/// What a change is to somebody who looks at the rows of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The row was not there before.
    Enter,
    /// The row was there and is another now.
    Update,
    /// The row is not there any more.
    Exit,
}

impl Change {
    /// What kind of change it is, by presence before and after.
    #[must_use]
    pub fn kind(&self) -> ChangeKind {
        match (&self.old, &self.new) {
            (None, _) => ChangeKind::Enter,
            (Some(_), Some(_)) => ChangeKind::Update,
            (Some(_), None) => ChangeKind::Exit,
        }
    }
}

/// A row of an operator before and after a tick.
#[derive(Clone, Debug)]
pub(crate) struct Delta {
    pub(crate) key: Key,
    pub(crate) old: Option<Item>,
    pub(crate) new: Option<Item>,
}

/// A change of what a plan shows, and where the row belongs if it has another place now.
#[derive(Clone, Debug)]
pub(crate) struct Out {
    pub(crate) change: Change,
    pub(crate) place: Option<SortKey>,
}
