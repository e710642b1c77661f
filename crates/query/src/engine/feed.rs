//! What a plan is fed: the changes of a tick, or all rows there are.

use std::{
    borrow::Cow,
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use super::{Change, Watch};
use crate::{
    expr::Virtual,
    record::{Entry, Key},
    value::{Direction, Nulls, Value},
};

/// What the leaves of a plan are given.
pub(crate) enum Feed<'a> {
    /// Changes of this tick, each for a leaf, in the order of leaves; and the rows after it.
    Tick(&'a [(usize, &'a Change)], &'a dyn Rows),
    /// All rows, to begin with.
    Initial(&'a dyn Rows),
}

/// The rows of collections.
pub(crate) trait Rows {
    /// How many rows the collection has.
    fn len(&self, watch: &Watch) -> usize;

    /// Calls `each` for all rows of the collection, or at least for those that are looked for.
    fn scan(&self, watch: &Watch, each: &mut dyn FnMut(&Arc<Entry>));

    /// Calls `each` for the rows in the order that is asked for, from the one after this value and
    /// key on, until it breaks off. Nothing if there is no index for that.
    fn ordered(
        &self,
        watch: &Watch,
        after: Option<(&Value, &Key)>,
        each: &mut dyn FnMut(&Arc<Entry>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>>;
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

/// The rows a leaf looks for: those whose value in this column lies between two others of its
/// kind. At least one of both is there, and both are of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) column: Probe,
    pub(crate) from: Bound<Value>,
    pub(crate) to: Bound<Value>,
}

impl Span {
    /// Both ends. Nothing if no value lies between them.
    pub(crate) fn bounds(&self) -> Option<(Bound<&Value>, Bound<&Value>)> {
        let kindred = end(&self.from).or_else(|| end(&self.to)).and_then(Kindred::of)?;
        let from = match self.from.as_ref() {
            Bound::Unbounded => Bound::Included(kindred.first),
            own => own,
        };
        let to = match self.to.as_ref() {
            Bound::Unbounded => kindred.end,
            own => own,
        };
        let is_closed = matches!((from, to), (Bound::Included(_), Bound::Included(_)));
        let is_empty = match (bound(from), bound(to)) {
            (Some(from), Some(to)) => from > to || from == to && !is_closed,
            _ => false,
        };
        (!is_empty).then_some((from, to))
    }
}

/// The value at an end.
pub(crate) fn end(bound: &Bound<Value>) -> Option<&Value> {
    self::bound(bound.as_ref())
}

fn bound(bound: Bound<&Value>) -> Option<&Value> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}

/// Where the values of a kind begin and end among all values.
pub(crate) struct Kindred {
    pub(crate) first: &'static Value,
    pub(crate) end: Bound<&'static Value>,
}

impl Kindred {
    /// The kind of a value that can lie between others.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        static NO: Value = Value::Bool(false);
        static LEAST: Value = Value::Float(f64::NEG_INFINITY);
        static EMPTY: Value = Value::word("");
        match value {
            Value::Bool(_) => Some(Self { first: &NO, end: Bound::Excluded(&LEAST) }),
            Value::Int(_) | Value::Float(_) => {
                Some(Self { first: &LEAST, end: Bound::Excluded(&EMPTY) })
            }
            // Lists and objects come after texts, and are told apart by whoever looks at the rows.
            Value::Text(_) | Value::Rope(_) => Some(Self { first: &EMPTY, end: Bound::Unbounded }),
            _ => None,
        }
    }
}

/// The rows of a window: those of one value in a column, or all, by another column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ordered {
    pub(crate) within: Option<(Probe, Value)>,
    pub(crate) by: Probe,
    pub(crate) direction: Direction,
    pub(crate) nulls: Nulls,
    /// How many of the first rows are needed.
    pub(crate) reach: usize,
}

impl Ordered {
    /// Whether rows of one value come after all rows of another.
    pub(crate) fn is_after(&self, value: &Value, other: &Value) -> bool {
        match (value.is_nothing(), other.is_nothing()) {
            (true, true) => false,
            (true, false) => self.nulls == Nulls::Last,
            (false, true) => self.nulls == Nulls::First,
            (false, false) => match self.direction {
                Direction::Ascending => value > other,
                Direction::Descending => value < other,
            },
        }
    }
}

/// What of a row can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Probe {
    Key,
    Synced,
    Origin,
    Position,
    Column(usize),
}

impl Probe {
    pub(crate) fn of(self, entry: &Entry) -> Cow<'_, Value> {
        match self {
            Self::Key => Cow::Borrowed(&entry.key),
            Self::Synced => Cow::Owned(Virtual::of(entry, Virtual::Synced)),
            Self::Origin => Cow::Owned(Virtual::of(entry, Virtual::Origin)),
            Self::Position => Cow::Owned(Virtual::of(entry, Virtual::Position)),
            Self::Column(column) => entry.record.column(column),
        }
    }

    /// Whether it has two values only, so that many rows have each.
    pub(crate) fn is_flag(self) -> bool {
        matches!(self, Self::Synced | Self::Origin)
    }

    /// What people call it, in a collection with these columns.
    pub(crate) fn name(self, columns: &[smol_str::SmolStr]) -> smol_str::SmolStr {
        smol_str::SmolStr::new_static(match self {
            Self::Key => "$key",
            Self::Synced => "$synced",
            Self::Origin => "$origin",
            Self::Position => "$position",
            Self::Column(column) => return columns.get(column).cloned().unwrap_or_default(),
        })
    }
}
