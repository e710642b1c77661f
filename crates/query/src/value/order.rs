//! One order over all values, and the equality and hash that go with it.

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

use super::{List, Value};
use crate::record::Tuple;

/// Values of one kind stand together.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Missing => 0,
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::Int(_) | Value::Float(_) => 3,
        Value::Text(_) | Value::Rope(_) => 4,
        Value::List(_) => 5,
        Value::Object(_) => 6,
    }
}

/// By kind, then by content: numbers by size with NaN last, texts by their bytes, lists and
/// objects member by member.
impl Ord for Value {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // Most keys are texts or whole numbers, and trees of keys compare often.
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => bytes(a.as_bytes(), b.as_bytes()),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::List(a), Self::List(b)) => lists(a, b),
            _ => self.cmp_any(other),
        }
    }
}

impl Value {
    fn cmp_any(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => floats(*a, *b),
            (Self::Int(a), Self::Float(b)) => mixed(*a, *b),
            (Self::Float(a), Self::Int(b)) => mixed(*b, *a).reverse(),
            (Self::Object(a), Self::Object(b)) => fields(a).cmp(&fields(b)),
            (Self::Text(_) | Self::Rope(_), Self::Text(_) | Self::Rope(_)) => {
                self.as_text().cmp(&other.as_text())
            }
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl Value {
    /// A number that tells much of the order: of two values, the one with the lesser number is the
    /// lesser one. Equal numbers tell nothing.
    pub(crate) fn rough(&self) -> u64 {
        let within = match self {
            Self::Bool(truth) => u64::from(*truth),
            Self::Int(_) | Self::Float(_) => {
                let float = self.as_number().unwrap_or_default();
                let bits = if float.is_nan() { f64::NAN.to_bits() } else { float.to_bits() };
                let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
                (bits ^ flip) >> 8
            }
            Self::Text(text) => first_bytes(text),
            Self::Rope(rope) => first_bytes(&rope.to_string()),
            Self::Missing | Self::Null | Self::List(_) | Self::Object(_) => 0,
        };
        u64::from(rank(self)) << 56 | within
    }
}

/// Seven of them, as a number.
fn first_bytes(text: &str) -> u64 {
    let mut first = [0; 8];
    for (place, byte) in first[1..].iter_mut().zip(text.bytes()) {
        *place = byte;
    }
    u64::from_be_bytes(first)
}

/// The order of bytes. The first eight are compared as one number: keys mostly differ within them.
#[inline]
pub(super) fn bytes(a: &[u8], b: &[u8]) -> Ordering {
    let (Some((first, a_rest)), Some((other, b_rest))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    else {
        return a.cmp(b);
    };
    let order = u64::from_be_bytes(*first).cmp(&u64::from_be_bytes(*other));
    order.then_with(|| a_rest.cmp(b_rest))
}

/// The keys of joined rows are pairs, mostly of texts; the first decides almost always.
fn lists(a: &List, b: &List) -> Ordering {
    match (a.parts(), b.parts()) {
        _ if a.is_same(b) => Ordering::Equal,
        (([Value::Text(a), a_rest @ ..], []), ([Value::Text(b), b_rest @ ..], [])) => {
            bytes(a.as_bytes(), b.as_bytes()).then_with(|| a_rest.cmp(b_rest))
        }
        ((a, []), (b, [])) => a.cmp(b),
        _ => a.iter().cmp(b.iter()),
    }
}

/// NaN equals itself and is greater than every number.
pub(super) fn floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn mixed(whole: i64, float: f64) -> Ordering {
    // A float without fraction that were within i64 would be an Int, so these bounds decide.
    if float.is_nan() || float >= 2f64.powi(63) {
        return Ordering::Less;
    }
    if float < -(2f64.powi(63)) {
        return Ordering::Greater;
    }
    #[expect(clippy::cast_possible_truncation, reason = "within the bounds of i64")]
    let below = float.floor() as i64;
    if whole <= below { Ordering::Less } else { Ordering::Greater }
}

fn fields(object: &Tuple) -> Vec<(&str, &Value)> {
    let mut fields: Vec<_> = object.present().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    fields
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            // A text that grew is told from what it was without being read.
            (Self::Rope(a), Self::Rope(b)) if a.len() != b.len() => false,
            (Self::Rope(a), Self::Rope(b)) if a.is_same(b) => true,
            (Self::List(a), Self::List(b)) => a == b,
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Missing | Self::Null => rank(self).hash(state),
            Self::Bool(truth) => truth.hash(state),
            Self::Int(number) => number.hash(state),
            Self::Float(number) if number.is_nan() => f64::NAN.to_bits().hash(state),
            Self::Float(number) => number.to_bits().hash(state),
            Self::Text(text) => text.as_str().hash(state),
            Self::Rope(rope) => rope.to_string().hash(state),
            Self::List(list) => {
                list.len().hash(state);
                list.iter().for_each(|value| value.hash(state));
            }
            Self::Object(object) => fields(object).hash(state),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::hash::BuildHasher;

    use foldhash::fast::FixedState;
    use proptest::prelude::*;

    use super::*;
    use crate::value::Rope;

    pub(crate) fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Missing),
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-3..4i64).prop_map(Value::Int),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_map(Value::number),
            (-6..6i32).prop_map(|n| Value::number(f64::from(n) / 2.0)),
            prop::sample::select(vec![f64::NAN, f64::INFINITY, 9.3e18, -9.3e18, -0.0])
                .prop_map(Value::number),
            "[a-c\u{e9}\u{1f600}]{0,3}".prop_map(Value::from),
            prop::collection::vec("[a-c]{0,2}", 0..3).prop_map(|pieces| {
                Value::Rope(pieces.into_iter().map(Into::into).collect::<Rope>())
            }),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::list),
                prop::collection::btree_map("[ab]", inner, 0..3)
                    .prop_map(|fields| Value::object(fields.iter().map(|(k, v)| (k, v.clone())))),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_a_total_order(a in any_value(), b in any_value(), c in any_value()) {
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&a), Ordering::Equal);
            if a <= b && b <= c {
                prop_assert!(a <= c);
            }
            if a.rough() < b.rough() {
                prop_assert!(a < b);
            }
            if a == b {
                let hash = |value: &Value| FixedState::default().hash_one(value);
                prop_assert_eq!(a.cmp(&c), b.cmp(&c));
                prop_assert_eq!(hash(&a), hash(&b));
            }
        }
    }

    #[test]
    fn numbers_are_one_kind() {
        let sorted = [
            Value::number(f64::NEG_INFINITY),
            Value::Float(-9.3e18),
            Value::Int(i64::MIN),
            Value::number(-0.5),
            Value::number(-0.0),
            Value::number(0.5),
            Value::Int(1),
            Value::Int(i64::MAX),
            Value::Float(2f64.powi(63)),
            Value::number(f64::INFINITY),
            Value::number(f64::NAN),
        ];
        assert!(sorted.is_sorted_by(|a, b| a < b), "{sorted:?}");
        assert_eq!(Value::number(3.0), Value::Int(3));
    }
}
