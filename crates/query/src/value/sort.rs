//! Sort keys: values written as bytes whose order is the order asked for.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::{Value, order};

/// Up or down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    #[default]
    Ascending,
    Descending,
}

/// Where rows without a value go, whatever the direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Nulls {
    #[default]
    First,
    Last,
}

/// How one value of a sort key is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SortSpec {
    pub(crate) direction: Direction,
    pub(crate) nulls: Nulls,
    pub(crate) collation: Collation,
}

/// How texts are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Collation {
    /// By character.
    #[default]
    Binary,
    /// By character, and those that differ in case only are equal.
    FoldCase,
    /// As JavaScript compares them: by UTF-16 unit, so that emoji come before some letters.
    Utf16,
}

/// Values of one row by which it is sorted, made to be compared as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SortKey(SmallVec<[u8; 32]>);

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        order::bytes(&self.0, &other.0)
    }
}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl SortKey {
    /// Adds a value that decides where those before it are equal.
    pub(crate) fn push(&mut self, value: &Value, spec: SortSpec) {
        if value.is_nothing() {
            self.0.push(if spec.nulls == Nulls::First { 0 } else { 0xff });
            return;
        }
        self.0.push(1);
        let start = self.0.len();
        self.put(value, spec.collation);
        if spec.direction == Direction::Descending {
            self.0[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Kinds in the order of [`Value`]; every value ends before the next begins.
    fn put(&mut self, value: &Value, collation: Collation) {
        match value {
            Value::Missing => self.0.push(1),
            Value::Null => self.0.push(2),
            Value::Bool(truth) => self.0.extend([3, u8::from(*truth)]),
            Value::Int(_) | Value::Float(_) => {
                self.0.push(4);
                self.put_number(value);
            }
            Value::Text(_) | Value::Rope(_) => {
                self.0.push(5);
                self.put_text(&value.as_text().unwrap_or_default(), collation);
            }
            Value::List(list) => {
                self.0.push(6);
                list.iter().for_each(|value| self.put(value, collation));
                self.0.push(0);
            }
            Value::Object(object) => {
                self.0.push(7);
                let mut fields: Vec<_> = object.present().collect();
                fields.sort_unstable_by_key(|(name, _)| *name);
                for (name, value) in fields {
                    // A field says that it is there, so that the end sorts first.
                    self.0.push(1);
                    self.put_text(name, Collation::Binary);
                    self.put(value, collation);
                }
                self.0.push(0);
            }
        }
    }

    /// The nearest float, then what a whole number has beyond it.
    fn put_number(&mut self, value: &Value) {
        let float = value.as_number().unwrap_or_default();
        let bits = if float.is_nan() { f64::NAN.to_bits() } else { float.to_bits() };
        let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
        self.0.extend_from_slice(&(bits ^ flip).to_be_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "the difference is at most 1,024")]
        let rest = value.as_int().map_or(0, |whole| (i128::from(whole) - float as i128) as i16);
        self.0.extend_from_slice(&(rest.cast_unsigned() ^ 0x8000).to_be_bytes());
    }

    /// A zero ends the text, so a zero within it is written as something else.
    fn put_text(&mut self, text: &str, collation: Collation) {
        match collation {
            Collation::Binary => self.put_bytes(text.as_bytes()),
            Collation::FoldCase => self.put_bytes(text.to_lowercase().as_bytes()),
            Collation::Utf16 => {
                let units =
                    text.encode_utf16().flat_map(|unit| (u32::from(unit) + 1).to_be_bytes());
                self.0.extend(units);
                self.0.extend([0; 4]);
            }
        }
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        if bytes.iter().all(|byte| *byte > 1) {
            self.0.extend_from_slice(bytes);
        } else {
            for byte in bytes {
                match byte {
                    0 => self.0.extend([1, 1]),
                    1 => self.0.extend([1, 2]),
                    _ => self.0.push(*byte),
                }
            }
        }
        self.0.push(0);
    }

    /// What it takes beyond its own size.
    pub(crate) fn heap_bytes(&self) -> usize {
        if self.0.spilled() { self.0.capacity() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::order::tests::any_value;

    fn key(values: &[&Value], spec: SortSpec) -> SortKey {
        let mut key = SortKey::default();
        values.iter().for_each(|value| key.push(value, spec));
        key
    }

    proptest! {
        #[test]
        fn bytes_sort_as_values_do(
            [a, b, c, d] in [any_value(), any_value(), any_value(), any_value()],
        ) {
            let up = SortSpec::default();
            let down = SortSpec { direction: Direction::Descending, ..up };
            if a.is_nothing() || b.is_nothing() {
                return Ok(());
            }
            prop_assert_eq!(key(&[&a], up).cmp(&key(&[&b], up)), a.cmp(&b));
            prop_assert_eq!(key(&[&a], down).cmp(&key(&[&b], down)), b.cmp(&a));
            let utf16 = SortSpec { collation: Collation::Utf16, ..up };
            if let (Value::Text(a), Value::Text(b)) = (&a, &b) {
                let units = a.encode_utf16().cmp(b.encode_utf16());
                let (a, b) = (Value::Text(a.clone()), Value::Text(b.clone()));
                prop_assert_eq!(key(&[&a], utf16).cmp(&key(&[&b], utf16)), units);
            }
            if !c.is_nothing() && !d.is_nothing() {
                let pairs = (&a, &c).cmp(&(&b, &d));
                prop_assert_eq!(key(&[&a, &c], up).cmp(&key(&[&b, &d], up)), pairs);
            }
        }
    }

    #[test]
    fn rows_without_a_value_go_where_they_are_sent() {
        let (null, one) = (Value::Null, Value::Int(1));
        for direction in [Direction::Ascending, Direction::Descending] {
            for (nulls, order) in [(Nulls::First, Ordering::Less), (Nulls::Last, Ordering::Greater)]
            {
                let spec = SortSpec { direction, nulls, collation: Collation::Binary };
                assert_eq!(key(&[&null], spec).cmp(&key(&[&one], spec)), order);
                assert_eq!(key(&[&null], spec), key(&[&Value::Missing], spec));
            }
        }
    }

    #[test]
    fn case_is_ignored_on_request() {
        let spec = SortSpec { collation: Collation::FoldCase, ..SortSpec::default() };
        let (upper, lower) = (Value::from("ÄB"), Value::from("äb"));
        assert_eq!(key(&[&upper], spec), key(&[&lower], spec));
        assert_ne!(key(&[&upper], SortSpec::default()), key(&[&lower], SortSpec::default()));
    }
}
