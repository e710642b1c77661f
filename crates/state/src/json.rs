//! A JSON value kept as its text, and patches that leave alone what they do not name.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::value::RawValue;
use wire::caps::JSON_DEPTH_MAX;

/// One JSON value as its text: valid, not parsed, cheap to clone. Equal means equal text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

/// A text or a value that is not the JSON asked for.
#[derive(Debug, thiserror::Error)]
#[error("not the JSON that was asked for: {0}")]
pub struct BadJson(#[from] serde_json::Error);

/// A patch that cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadPatch {
    /// Fields can only be set in an object.
    #[error("the row is not a JSON object, so it has no fields")]
    NotAnObject,
    /// The patch nests too deep.
    #[error("the patch nests deeper than {JSON_DEPTH_MAX} levels")]
    TooDeep,
    /// A field name that is no Unicode text, such as half of a surrogate pair.
    #[error("a field name cannot be read: {0}")]
    FieldName(#[from] serde_json::Error),
}

impl Json {
    /// The JSON of a value.
    ///
    /// # Errors
    /// If the value refuses to be JSON, such as a map with keys that are not text.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, BadJson> {
        Ok(Self(serde_json::to_string(value)?.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the value as a `T`.
    ///
    /// # Errors
    /// If the value is no `T`, or nests deeper than the parser goes.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, BadJson> {
        Ok(serde_json::from_str(&self.0)?)
    }

    /// Merges a patch into this value by the rules of RFC 7396: fields of the patch replace ours,
    /// objects merge, `null` removes. Every field that the patch does not name keeps its text.
    ///
    /// ```
    /// use state::Json;
    ///
    /// let row: Json = r#"{"text":"hi","likes":1,"theirs":{"a":1.50}}"#.parse()?;
    /// let patch: Json = r#"{"text":"hello","likes":null}"#.parse()?;
    /// assert_eq!(row.merge(&patch)?.as_str(), r#"{"text":"hello","theirs":{"a":1.50}}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the patch nests too deep, or a field name on its way cannot be read.
    pub fn merge(&self, patch: &Self) -> Result<Self, BadPatch> {
        let merged = merge(Some(self.raw()?), patch.raw()?, 0)?;
        Ok(Self(serde_json::to_string(&merged)?.into()))
    }

    /// Sets one field of this object, also to `null`; all other fields keep their text.
    ///
    /// # Errors
    /// If this is not an object, or one of its field names cannot be read.
    pub fn set(&self, field: &str, value: &Self) -> Result<Self, BadPatch> {
        let row = self.raw()?;
        if !is_object(row) {
            return Err(BadPatch::NotAnObject);
        }
        let mut object: Object<'_> = serde_json::from_str(row.get())?;
        object.put(Cow::Borrowed(field), Node::Raw(value.raw()?));
        Ok(Self(serde_json::to_string(&object)?.into()))
    }

    /// One field of this object; none if there is none, or this is no object.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Self> {
        let object: Object<'_> = serde_json::from_str(self.raw().ok()?.get()).ok()?;
        object.raw(name).map(Self::from)
    }

    fn raw(&self) -> Result<&RawValue, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl FromStr for Json {
    type Err = BadJson;

    fn from_str(text: &str) -> Result<Self, BadJson> {
        let raw: &RawValue = serde_json::from_str(text)?;
        Ok(raw.into())
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self(Arc::from(raw.get()))
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({})", self.0)
    }
}

/// Recursion follows the patch, never the row.
fn merge<'a>(
    row: Option<&'a RawValue>,
    patch: &'a RawValue,
    depth: usize,
) -> Result<Node<'a>, BadPatch> {
    if !is_object(patch) {
        return Ok(Node::Raw(patch));
    }
    if depth == JSON_DEPTH_MAX {
        return Err(BadPatch::TooDeep);
    }
    let mut object = match row.filter(|row| is_object(row)) {
        Some(row) => serde_json::from_str(row.get())?,
        None => Object::default(),
    };
    let patch: Object<'a> = serde_json::from_str(patch.get())?;
    for (name, node) in patch.fields {
        match node {
            Some(Node::Raw(raw)) if raw.get() != "null" => {
                let merged = merge(object.raw(&name), raw, depth + 1)?;
                object.put(name, merged);
            }
            _ => object.remove(&name),
        }
    }
    Ok(Node::Object(object))
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Part of a patched value: text that is carried over, or an object that was merged.
enum Node<'a> {
    Raw(&'a RawValue),
    Object(Object<'a>),
}

/// The fields of an object in their order. Of a name that comes twice the last value counts, as
/// for every JSON parser that people use.
#[derive(Default)]
struct Object<'a> {
    fields: Vec<(Cow<'a, str>, Option<Node<'a>>)>,
    /// Sorted, not hashed: a stranger chooses these names.
    places: BTreeMap<Cow<'a, str>, usize>,
}

impl<'a> Object<'a> {
    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        match self.fields[*self.places.get(name)?].1 {
            Some(Node::Raw(raw)) => Some(raw),
            _ => None,
        }
    }

    fn put(&mut self, name: Cow<'a, str>, node: Node<'a>) {
        match self.places.get(&name) {
            Some(&place) => self.fields[place].1 = Some(node),
            None => {
                self.places.insert(name.clone(), self.fields.len());
                self.fields.push((name, Some(node)));
            }
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(&place) = self.places.get(name) {
            self.fields[place].1 = None;
        }
    }
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Raw(raw) => raw.serialize(serializer),
            Self::Object(object) => object.serialize(serializer),
        }
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, node) in &self.fields {
            if let Some(node) = node {
                map.serialize_entry(name, node)?;
            }
        }
        map.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut object = Object::default();
        while let Some(Text(name)) = map.next_key()? {
            object.put(name, Node::Raw(map.next_value()?));
        }
        Ok(object)
    }
}

/// A text, borrowed from the message unless it has escapes.
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.into())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::testing::any_json;

    fn json(text: &str) -> Json {
        text.parse().unwrap()
    }

    #[track_caller]
    fn check(row: &str, patch: &str, expected: &str) {
        assert_eq!(json(row).merge(&json(patch)).unwrap().as_str(), expected, "{row} <- {patch}");
    }

    #[test]
    fn merges_as_the_examples_of_rfc_7396() {
        check(r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"a":null}"#, "{}");
        check(r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#);
        check(r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#);
        check(r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#);
        check(r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#);
        check(r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#);
        check(r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#);
        check(r#"{"a":"foo"}"#, "null", "null");
        check(r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#);
        check(r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#);
        check("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#);
        check("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#);
    }

    #[test]
    fn what_a_patch_does_not_name_keeps_its_text() {
        check(
            r#"{"n":1.00e2,"x":{ "y" : 1}}"#,
            r#"{"z":1}"#,
            r#"{"n":1.00e2,"x":{ "y" : 1},"z":1}"#,
        );
        check(r#"{"a":1,"a":2}"#, r#"{"b":3}"#, r#"{"a":2,"b":3}"#);
        check(r#"{"\u0061":1}"#, r#"{"a":2}"#, r#"{"a":2}"#);
    }

    #[test]
    fn a_field_can_be_set_to_null() {
        let row = json(r#"{"a":1,"b":2}"#).set("a", &json("null")).unwrap();
        assert_eq!(row.as_str(), r#"{"a":null,"b":2}"#);
        assert!(matches!(json("[1]").set("a", &json("1")), Err(BadPatch::NotAnObject)));
    }

    #[test]
    fn deep_patches_are_refused_and_deep_rows_are_carried() {
        let deep = |levels: usize| json(&(r#"{"a":"#.repeat(levels) + "1" + &"}".repeat(levels)));
        assert!(deep(JSON_DEPTH_MAX).merge(&deep(JSON_DEPTH_MAX)).is_ok());
        assert!(matches!(json("{}").merge(&deep(200)), Err(BadPatch::TooDeep)));
        assert!(deep(100_000).merge(&json(r#"{"b":1}"#)).is_ok());
        assert!(deep(100_000).read::<Value>().is_err());
    }

    #[test]
    fn text_around_a_value_is_dropped() {
        assert_eq!(json(" {\"a\": 1}\n").as_str(), "{\"a\": 1}");
        for bad in ["", "{", "1 2", "nul", "\"\u{1}\""] {
            assert!(bad.parse::<Json>().is_err(), "{bad:?}");
        }
    }

    /// RFC 7396, word for word, on parsed values.
    fn model(row: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut row = match row {
            Value::Object(row) => row,
            _ => serde_json::Map::new(),
        };
        for (name, value) in patch {
            let old = row.remove(name).unwrap_or(Value::Null);
            if !value.is_null() {
                row.insert(name.clone(), model(old, value));
            }
        }
        Value::Object(row)
    }

    proptest! {
        #[test]
        fn merges_like_the_rfc(row in any_json(), patch in any_json()) {
            let merged = Json::of(&row).unwrap().merge(&Json::of(&patch).unwrap()).unwrap();
            prop_assert_eq!(merged.read::<Value>().unwrap(), model(row, &patch));
        }

        #[test]
        fn a_patch_keeps_unknown_fields(row in any_json(), set in any_json()) {
            let row = serde_json::json!({"known": 1, "unknown": row});
            let patch = serde_json::json!({"known": set});
            let merged = Json::of(&row).unwrap().merge(&Json::of(&patch).unwrap()).unwrap();
            prop_assert_eq!(&merged.read::<Value>().unwrap()["unknown"], &row["unknown"]);
            let known = Json::of(&row).unwrap().set("known", &Json::of(&set).unwrap()).unwrap();
            let known = known.read::<Value>().unwrap();
            prop_assert_eq!((&known["known"], &known["unknown"]), (&set, &row["unknown"]));
        }
    }
}
