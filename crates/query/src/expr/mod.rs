//! Expressions, resolved: names have become numbers, and what is constant has been worked out.

mod bounded;
mod compile;
mod functions;
mod javascript;
mod like;
mod moment;

use std::{borrow::Cow, sync::Arc};

use smallvec::SmallVec;
use smol_str::SmolStr;

pub(crate) use self::{
    compile::{Scope, Slot, SlotColumns, result_kind},
    functions::Function,
    javascript::{group_key_text, key_text, number as js_number, text as js_text},
};
use crate::{
    Semantics,
    record::{Entry, Origin},
    value::Value,
};

/// A row on its way through a query: an entry for each source, or none where an outer join found
/// no partner.
pub(crate) type Item = SmallVec<[Option<Arc<Entry>>; 2]>;

/// An expression that can be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Const(Value),
    /// A column of a source, and a way into it.
    Column {
        slot: usize,
        column: usize,
        path: Box<[SmolStr]>,
    },
    /// What is known of a row beside its columns.
    Virtual {
        slot: usize,
        what: Virtual,
    },
    /// A row as an object; missing if there is none.
    Row {
        slot: usize,
    },
    Call {
        function: Function,
        args: Box<[Expr]>,
        semantics: Semantics,
    },
}

/// Columns that every row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Virtual {
    /// `$synced`
    Synced,
    /// `$origin`
    Origin,
    /// `$key`
    Key,
    /// `$position`
    Position,
}

impl Virtual {
    pub(crate) fn of(entry: &Entry, what: Self) -> Value {
        match what {
            Self::Synced => Value::Bool(!entry.meta.is_pending),
            Self::Origin => match entry.meta.origin {
                Origin::Local => Value::from("local"),
                Origin::Remote => Value::from("remote"),
            },
            Self::Key => entry.key.clone(),
            Self::Position => entry.meta.position.into(),
        }
    }
}

static MISSING: Value = Value::Missing;

impl Expr {
    /// What it comes to for this row.
    pub(crate) fn eval<'a>(&'a self, item: &'a Item) -> Cow<'a, Value> {
        match self {
            Self::Const(value) => Cow::Borrowed(value),
            Self::Column { slot, column, path } => {
                let Some(entry) = &item[*slot] else { return Cow::Borrowed(&MISSING) };
                let value = entry.record.column(*column);
                if path.is_empty() { value } else { Cow::Owned(walk(&value, path)) }
            }
            Self::Virtual { slot, what } => match &item[*slot] {
                Some(entry) => Cow::Owned(Virtual::of(entry, *what)),
                None => Cow::Borrowed(&MISSING),
            },
            Self::Row { slot } => match &item[*slot] {
                Some(entry) => Cow::Owned(whole_row(entry)),
                None => Cow::Borrowed(&MISSING),
            },
            Self::Call { function, args, semantics } => {
                let made = functions::call(*function, args, *semantics, item);
                Cow::Owned(made.unwrap_or(Value::Null))
            }
        }
    }

    /// Whether it is true; what is unknown is not.
    pub(crate) fn holds(&self, item: &Item) -> bool {
        matches!(*self.eval(item), Value::Bool(true))
    }

    /// The slots it looks at.
    pub(crate) fn slots(&self, found: &mut Vec<usize>) {
        match self {
            Self::Const(_) => {}
            Self::Column { slot, .. } | Self::Virtual { slot, .. } | Self::Row { slot } => {
                found.push(*slot);
            }
            Self::Call { args, .. } => args.iter().for_each(|arg| arg.slots(found)),
        }
    }

    /// The same expression over rows of fewer or other slots.
    pub(crate) fn moved(&self, to: &impl Fn(usize) -> usize) -> Self {
        let mut moved = self.clone();
        moved.move_slots(to);
        moved
    }

    fn move_slots(&mut self, to: &impl Fn(usize) -> usize) {
        match self {
            Self::Const(_) => {}
            Self::Column { slot, .. } | Self::Virtual { slot, .. } | Self::Row { slot } => {
                *slot = to(*slot);
            }
            Self::Call { args, .. } => args.iter_mut().for_each(|arg| arg.move_slots(to)),
        }
    }
}

/// A row as an object. Rows of rows of sub-queries double from one to the next.
fn whole_row(entry: &Entry) -> Value {
    let row = Value::Object(Arc::new(entry.record.to_tuple()));
    if bounded::size(&row).is_ok() { row } else { Value::Null }
}

/// Steps through `null` stay `null`, steps to nowhere are missing.
fn walk(value: &Value, path: &[SmolStr]) -> Value {
    let mut value = value.clone();
    for step in path {
        if value.is_nothing() {
            return value;
        }
        value = value.field(step);
    }
    value
}
