//! JSON in and out.

use std::{fmt, mem, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};
use smallvec::SmallVec;
use smol_str::SmolStr;

use super::Value;
use crate::record::{Shape, Tuple};

/// A text that is not the JSON asked for, or nests too deep.
#[derive(Debug, thiserror::Error)]
#[error("not the JSON that was asked for: {0}")]
pub struct BadValue(#[from] serde_json::Error);

/// Reads an object as a row of a shape, which learns the fields it does not know.
pub(crate) fn parse_tuple(json: &str, shape: &mut Arc<Shape>) -> Result<Tuple, BadValue> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let tuple = Fields(shape).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(tuple)
}

/// The JSON of a value. What is missing is `null`.
pub(crate) fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Missing | Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Rope(rope) => rope.to_string().into(),
        Value::List(list) => list.iter().map(to_json).collect(),
        Value::Object(object) => {
            object.present().map(|(name, value)| (name.to_owned(), to_json(value))).collect()
        }
    }
}

impl Value {
    /// An object of these fields.
    #[must_use]
    pub fn object<N: AsRef<str>>(fields: impl IntoIterator<Item = (N, Self)>) -> Self {
        let mut shape = Arc::default();
        let fields = fields.into_iter().map(|(name, value)| (SmolStr::new(name), value));
        Self::Object(Arc::new(Tuple::of(fields, &mut shape)))
    }

    /// Anything that serde can write, as a value.
    ///
    /// # Errors
    /// If it refuses to be JSON.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, BadValue> {
        Ok(serde_json::to_value(value)?.into())
    }

    /// The value as a `T`.
    ///
    /// # Errors
    /// If it is no `T`; the error says where.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, BadValue> {
        Ok(serde_json::from_value(to_json(self))?)
    }
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(truth) => Self::Bool(truth),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(whole) => Self::Int(whole),
                None => Self::number(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Self::Text(text.into()),
            serde_json::Value::Array(values) => Self::list(values.into_iter().map(Self::from)),
            serde_json::Value::Object(fields) => {
                Self::object(fields.into_iter().map(|(name, value)| (name, value.into())))
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Missing | Self::Null => serializer.serialize_unit(),
            Self::Bool(truth) => serializer.serialize_bool(*truth),
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Rope(rope) => serializer.collect_str(rope),
            Self::List(list) => {
                let mut seq = serializer.serialize_seq(Some(list.len()))?;
                list.iter().try_for_each(|value| seq.serialize_element(value))?;
                seq.end()
            }
            Self::Object(object) => object.serialize(serializer),
        }
    }
}

impl Serialize for Tuple {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.present().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values: Vec<Value> = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Value::list(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        let tuple = Fields(&mut Arc::default()).visit_map(map)?;
        Ok(Value::Object(Arc::new(tuple)))
    }
}

/// So many fields of an object are read before there must be room for more.
const FIELDS: usize = 12;

/// An object, read into a shape.
struct Fields<'a>(&'a mut Arc<Shape>);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Tuple;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tuple, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Tuple;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tuple, A::Error> {
        let mut values: SmallVec<[Value; FIELDS]> = SmallVec::new();
        while let Some(index) = map.next_key_seed(Field { shape: self.0, guess: values.len() })? {
            let value = map.next_value()?;
            if values.len() == index {
                values.push(value);
                continue;
            }
            if values.len() < index {
                values.resize(index + 1, Value::Missing);
            }
            values[index] = value;
        }
        let places = 0..values.len();
        let values = places.map(|place| mem::take(&mut values[place]));
        Ok(Tuple::new(self.0.clone(), values.collect::<Arc<[_]>>()))
    }
}

/// A field name, read as its column; rows mostly have their fields in the same order.
struct Field<'a> {
    shape: &'a mut Arc<Shape>,
    guess: usize,
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Field<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<usize, E> {
        if self.shape.name(self.guess) == Some(name) {
            return Ok(self.guess);
        }
        Shape::learn(self.shape, name).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::order::tests::any_value;

    /// JSON has no place for these.
    fn is_plain(value: &Value) -> bool {
        match value {
            Value::Missing => false,
            Value::Float(number) => number.is_finite(),
            Value::List(list) => list.iter().all(is_plain),
            Value::Object(object) => object.present().all(|(_, value)| is_plain(value)),
            _ => true,
        }
    }

    proptest! {
        #[test]
        fn values_go_through_json_and_back(value in any_value()) {
            prop_assume!(is_plain(&value));
            let text = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &value, "{}", text);
            prop_assert_eq!(&Value::from(to_json(&value)), &value);
        }
    }

    #[test]
    fn rows_of_one_collection_share_their_columns() {
        let mut shape = Arc::default();
        let one = parse_tuple(r#"{"id":1,"a":"x"}"#, &mut shape).unwrap();
        let two = parse_tuple(r#"{"a":"y","id":2,"b":null}"#, &mut shape).unwrap();
        assert_eq!((one.column(0), two.column(0)), (&Value::Int(1), &Value::Int(2)));
        assert_eq!((one.column(2), two.column(2)), (&Value::Missing, &Value::Null));
        assert_eq!(serde_json::to_string(&two).unwrap(), r#"{"id":2,"a":"y","b":null}"#);
        assert!(parse_tuple("[]", &mut shape).unwrap_err().to_string().contains("JSON object"));
        assert!(parse_tuple("{} x", &mut shape).is_err());
    }
}
