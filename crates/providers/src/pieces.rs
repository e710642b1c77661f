//! What bodies of JSON have in common.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

/// A body, and in it the fields that the caller has chosen: they win, object by object.
pub(crate) fn body(
    body: &impl Serialize,
    extra: &Map<String, Value>,
) -> Result<Bytes, serde_json::Error> {
    if extra.is_empty() {
        return serde_json::to_vec(body).map(Bytes::from);
    }
    let mut whole = serde_json::to_value(body)?;
    merge(&mut whole, extra);
    serde_json::to_vec(&whole).map(Bytes::from)
}

/// The arguments of a call as an object, which is all that these providers take. What a model
/// wrote and is no object is shown to it as it was, in one.
pub(crate) fn arguments(written: &str) -> Cow<'_, RawValue> {
    let written = written.trim();
    if written.starts_with('{')
        && let Ok(object) = serde_json::from_str::<&RawValue>(written)
    {
        return Cow::Borrowed(object);
    }
    if written.is_empty() || written == "null" {
        return Cow::Owned(raw(&Map::new()));
    }
    let unread = Map::from_iter([("unreadable".to_owned(), Value::from(written))]);
    Cow::Owned(raw(&unread))
}

/// The same value, not yet written.
fn raw(object: &Map<String, Value>) -> Box<RawValue> {
    serde_json::value::to_raw_value(object).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn merge(into: &mut Value, fields: &Map<String, Value>) {
    let Value::Object(into) = into else { return };
    for (name, value) in fields {
        match (into.get_mut(name), value) {
            (Some(old @ Value::Object(_)), Value::Object(fields)) => merge(old, fields),
            _ => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn extra_fields_win_object_by_object() {
        let ours = json!({ "model": "m", "config": { "a": 1, "b": 2 } });
        let Value::Object(extra) = json!({ "config": { "b": 3 }, "tier": "x", "model": null })
        else {
            panic!("an object")
        };
        let merged: Value = serde_json::from_slice(&body(&ours, &extra).unwrap()).unwrap();
        let expected = json!({ "model": null, "config": { "a": 1, "b": 3 }, "tier": "x" });
        assert_eq!(merged, expected);
    }

    #[test]
    fn arguments_are_always_an_object() {
        let rows = [
            ("", "{}"),
            ("null", "{}"),
            (" {\"a\": 1.0} ", "{\"a\": 1.0}"),
            ("{\"a\":", "{\"unreadable\":\"{\\\"a\\\":\"}"),
            ("{} {}", "{\"unreadable\":\"{} {}\"}"),
            ("[1]", "{\"unreadable\":\"[1]\"}"),
        ];
        for (written, expected) in rows {
            assert_eq!(arguments(written).get(), expected, "of {written:?}");
        }
    }
}
