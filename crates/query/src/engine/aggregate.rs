//! Aggregates that are kept up to date: nothing is read again when one row of a group changes.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{sum::Sum, weight::bytes};
use crate::{
    Semantics,
    expr::js_number,
    record::Key,
    value::{List, Value},
};

/// The names of all aggregates.
pub(crate) const NAMES: &[&str] =
    &["count", "countDistinct", "sum", "avg", "min", "max", "collect"];

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Aggregate {
    Count,
    CountDistinct,
    Sum,
    Avg,
    Min,
    Max,
    Collect,
}

impl Aggregate {
    pub(super) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "countDistinct" => Self::CountDistinct,
            "sum" => Self::Sum,
            "avg" => Self::Avg,
            "min" => Self::Min,
            "max" => Self::Max,
            "collect" => Self::Collect,
            _ => return None,
        })
    }

    pub(super) fn start(self) -> Running {
        match self {
            Self::Count => Running::Count(0),
            Self::Sum => Running::Sum { sum: Sum::default(), count: 0 },
            Self::Avg => Running::Avg { sum: Sum::default(), count: 0 },
            Self::CountDistinct => Running::CountDistinct(BTreeMap::new()),
            Self::Min => Running::Min(BTreeMap::new()),
            Self::Max => Running::Max(BTreeMap::new()),
            Self::Collect => Running::Collect { keys: List::default(), values: List::default() },
        }
    }
}

/// One aggregate of one group.
#[derive(Debug)]
pub(super) enum Running {
    Count(i64),
    Sum {
        sum: Sum,
        count: i64,
    },
    Avg {
        sum: Sum,
        count: i64,
    },
    CountDistinct(Counts),
    Min(Counts),
    Max(Counts),
    /// Values in the order of their rows' keys. What was told of them shares their blocks.
    Collect {
        keys: List,
        values: List,
    },
}

/// Values, and how many rows have each.
type Counts = BTreeMap<Ranked, u64>;

/// A value in the order that the semantics have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ranked {
    value: Value,
    semantics: Semantics,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.value, &other.value) {
            (Value::Text(a), Value::Text(b)) if self.semantics == Semantics::Tanstack => {
                a.encode_utf16().cmp(b.encode_utf16())
            }
            (a, b) => a.cmp(b),
        }
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Running {
    /// A row came into the group.
    pub(super) fn add(&mut self, key: &Key, value: &Value, semantics: Semantics) {
        match self {
            Self::Collect { keys, values } => match keys.search(key) {
                Ok(index) => values.set(index, value.clone()),
                Err(index) => {
                    keys.insert(index, key.clone());
                    values.insert(index, value.clone());
                }
            },
            Self::Min(counts) | Self::Max(counts) | Self::CountDistinct(counts) => {
                if let Some(value) = compared(value, semantics) {
                    *counts.entry(value).or_default() += 1;
                }
            }
            _ => self.tally(value, 1, semantics),
        }
    }

    /// A row left the group.
    pub(super) fn remove(&mut self, key: &Key, value: &Value, semantics: Semantics) {
        match self {
            Self::Collect { keys, values } => {
                if let Ok(index) = keys.search(key) {
                    keys.remove(index);
                    values.remove(index);
                }
            }
            Self::Min(counts) | Self::Max(counts) | Self::CountDistinct(counts) => {
                let Some(value) = compared(value, semantics) else { return };
                let Some(count) = counts.get_mut(&value) else { return };
                *count -= 1;
                if *count == 0 {
                    counts.remove(&value);
                }
            }
            _ => self.tally(value, -1, semantics),
        }
    }

    fn tally(&mut self, value: &Value, by: i64, semantics: Semantics) {
        match self {
            Self::Count(count) if !value.is_nothing() => *count += by,
            Self::Sum { sum, count } | Self::Avg { sum, count } => match (value, semantics) {
                (Value::Int(number), _) => {
                    sum.add_whole(*number, by);
                    *count += by;
                }
                (Value::Float(number), _) => {
                    sum.add(*number, by);
                    *count += by;
                }
                (_, Semantics::Sql) => {}
                (_, Semantics::Tanstack) => {
                    sum.add(js_number(value), by);
                    *count += by;
                }
            },
            _ => {}
        }
    }

    /// What it takes. Values that are collected are those that are shown, and count there.
    pub(super) fn heap_bytes(&self) -> usize {
        let held = match self {
            Self::Count(_) | Self::Sum { .. } | Self::Avg { .. } => 0,
            Self::CountDistinct(counts) | Self::Min(counts) | Self::Max(counts) => {
                let count = size_of::<(Ranked, u64)>() - size_of::<Value>();
                counts.keys().map(|ranked| count + bytes(&ranked.value)).sum()
            }
            Self::Collect { keys, .. } => keys.iter().map(bytes).sum(),
        };
        size_of::<Self>() + held
    }

    /// What it comes to now.
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Count(count) => Value::Int(*count),
            Self::CountDistinct(counts) => counts.len().into(),
            Self::Sum { count: 0, .. } | Self::Avg { count: 0, .. } => Value::Null,
            Self::Sum { sum, .. } => {
                sum.whole().map_or_else(|| Value::number(sum.value()), Value::Int)
            }
            #[expect(clippy::cast_precision_loss, reason = "an average is a float")]
            Self::Avg { sum, count } => Value::number(sum.value() / *count as f64),
            Self::Min(counts) => shown(counts.keys().next()),
            Self::Max(counts) => shown(counts.keys().next_back()),
            Self::Collect { values, .. } => Value::List(values.clone()),
        }
    }
}

fn shown(extreme: Option<&Ranked>) -> Value {
    extreme.map_or(Value::Null, |ranked| ranked.value.clone())
}

/// What takes part in a minimum or maximum.
fn compared(value: &Value, semantics: Semantics) -> Option<Ranked> {
    let value = match (value, semantics) {
        (Value::Missing | Value::Null, Semantics::Sql) => return None,
        (Value::Int(_) | Value::Float(_) | Value::Text(_) | Value::Rope(_), _)
        | (_, Semantics::Sql) => value.clone(),
        (_, Semantics::Tanstack) => Value::number(js_number(value)),
    };
    Some(Ranked { value, semantics })
}
