//! What JavaScript makes of values: for the semantics of `@tanstack/db` alone.

use std::cmp::Ordering;

use crate::value::Value;

/// `Number(value)`, but `null` for nothing.
pub(crate) fn number(value: &Value) -> f64 {
    match value {
        Value::Missing | Value::Null => 0.0,
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        Value::Int(_) | Value::Float(_) => value.as_number().unwrap_or(f64::NAN),
        Value::Text(_) | Value::Rope(_) => {
            let text = value.as_text().unwrap_or_default();
            let text = text.trim();
            if text.is_empty() { 0.0 } else { text.parse().unwrap_or(f64::NAN) }
        }
        Value::List(_) => number(&Value::from(text(value))),
        Value::Object(_) => f64::NAN,
    }
}

/// `String(value ?? "")`
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Missing | Value::Null => String::new(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => float_text(*number),
        Value::Text(text) => text.to_string(),
        Value::Rope(rope) => rope.to_string(),
        Value::List(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Object(_) => "[object Object]".into(),
    }
}

/// Shortest digits; with an exponent from 1e21 on and below 1e-6.
fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let size = number.abs();
    if (1e-6..1e21).contains(&size) || size == 0.0 {
        return number.to_string();
    }
    let text = format!("{number:e}");
    text.split_once('e').map_or(text.clone(), |(digits, exponent)| {
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        format!("{digits}e{sign}{exponent}")
    })
}

/// `<` and `>`; equal if neither. NaN is greater than all.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_text(), b.as_text()) {
        return a.encode_utf16().cmp(b.encode_utf16());
    }
    let is_nan = |value: &Value| matches!(value, Value::Float(number) if number.is_nan());
    if is_nan(a) || is_nan(b) {
        return is_nan(a).cmp(&is_nan(b));
    }
    number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal)
}

/// `===`, also of NaN with itself. Lists and objects are never the same.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    !matches!(a, Value::List(_) | Value::Object(_)) && a == b
}

/// `!!value`
pub(super) fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Missing | Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Int(number) => *number != 0,
        Value::Float(number) => !number.is_nan(),
        Value::Text(text) => !text.is_empty(),
        Value::Rope(rope) => !rope.is_empty(),
        Value::List(_) | Value::Object(_) => true,
    }
}

/// `JSON.stringify(values)`, of which a key is made; nothing is `null`.
pub(crate) fn key_text(parts: &[&Value]) -> Value {
    Value::from(serde_json::to_string(parts).unwrap_or_default())
}

/// The key of a group by several values: their JSON, or where JSON has no word for one of them, a
/// form that names the type of each.
pub(crate) fn group_key_text(parts: &[Value]) -> Value {
    let is_plain = |value: &Value| match value {
        Value::Missing => false,
        Value::Float(number) => number.is_finite(),
        _ => true,
    };
    if parts.iter().all(is_plain) {
        return key_text(&parts.iter().collect::<Vec<_>>());
    }
    let tagged: Vec<_> = parts.iter().map(tagged).collect();
    Value::from(format!("~{}", serde_json::json!(["array", tagged])))
}

fn tagged(value: &Value) -> serde_json::Value {
    match value {
        Value::Missing => serde_json::json!(["undefined"]),
        Value::Null => serde_json::json!(["null"]),
        Value::Bool(_) => serde_json::json!(["boolean", value]),
        Value::Float(number) if !number.is_finite() => {
            serde_json::json!(["number", float_text(*number)])
        }
        Value::Int(_) | Value::Float(_) => serde_json::json!(["number", value]),
        Value::Text(_) | Value::Rope(_) => serde_json::json!(["string", value]),
        Value::List(list) => {
            serde_json::json!(["array", list.iter().map(tagged).collect::<Vec<_>>()])
        }
        Value::Object(_) => serde_json::json!(["object", value]),
    }
}
