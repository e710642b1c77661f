//! What expressions come to, said a second time and as simply as can be.

use query::Value;

/// Calls a function of values. `and`, `or`, `coalesce` and `caseWhen` are among them: nothing has
/// effects, so nothing need be lazy.
pub(crate) fn call(name: &str, args: &[Value]) -> Value {
    match (name, args) {
        ("and", _) => all(args),
        ("or", _) => not(&all(&args.iter().map(not).collect::<Vec<_>>())),
        ("not", [a]) => not(a),
        ("isNull", [a]) => a.is_nothing().into(),
        ("isUndefined", [a]) => matches!(a, Value::Missing).into(),
        ("coalesce", _) => {
            args.iter().find(|arg| !arg.is_nothing()).cloned().unwrap_or(Value::Null)
        }
        ("caseWhen", [when, then, otherwise]) => {
            if is_true(when) {
                then.clone()
            } else {
                otherwise.clone()
            }
        }
        ("concat", _) => args.iter().map(text).collect::<String>().into(),
        ("eq", [a, b]) => equal(a, b),
        ("ne", [a, b]) => not(&equal(a, b)),
        ("gt" | "gte" | "lt" | "lte", [a, b]) => compare(name, a, b),
        ("in", [a, Value::List(list)]) => {
            let found: Vec<_> = list.iter().map(|own| not(&equal(a, own))).collect();
            if a.is_nothing() { Value::Null } else { not(&all(&found)) }
        }
        ("add", [a, b]) => numbers(a, b, |a, b| a + b),
        ("subtract", [a, b]) => numbers(a, b, |a, b| a - b),
        ("multiply", [a, b]) => numbers(a, b, |a, b| a * b),
        ("length", [Value::List(list)]) => list.len().into(),
        ("length", [a]) => texts(a, a, |text, _| text.chars().count().into()),
        ("upper", [a]) => texts(a, a, |text, _| text.to_uppercase().into()),
        ("lower", [a]) => texts(a, a, |text, _| text.to_lowercase().into()),
        ("contains", [a, b]) => texts(a, b, |text, part| text.contains(part).into()),
        ("startsWith", [a, b]) => texts(a, b, |text, part| text.starts_with(part).into()),
        ("like", [a, b]) => texts(a, b, |text, pattern| like(text, pattern).into()),
        _ => panic!("the evaluator does not know {name} of {}", args.len()),
    }
}

pub(crate) fn is_true(value: &Value) -> bool {
    matches!(value, Value::Bool(true))
}

/// A value as text, as in `concat`.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Missing | Value::Null => String::new(),
        Value::List(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Object(_) => "[object Object]".into(),
        _ => value.as_text().map_or_else(|| value.to_string(), Into::into),
    }
}

pub(crate) fn equal(a: &Value, b: &Value) -> Value {
    if a.is_nothing() || b.is_nothing() { Value::Null } else { (a == b).into() }
}

/// False if one is false, else unknown if one is not true.
fn all(args: &[Value]) -> Value {
    if args.iter().any(|arg| matches!(arg, Value::Bool(false))) {
        return false.into();
    }
    if args.iter().all(is_true) { true.into() } else { Value::Null }
}

fn not(value: &Value) -> Value {
    value.as_bool().map_or(Value::Null, |truth| (!truth).into())
}

fn compare(name: &str, a: &Value, b: &Value) -> Value {
    if a.is_nothing() || b.is_nothing() || a.kind() != b.kind() {
        return Value::Null;
    }
    Value::Bool(match name {
        "gt" => a > b,
        "gte" => a >= b,
        "lt" => a < b,
        _ => a <= b,
    })
}

fn numbers(a: &Value, b: &Value, work: fn(f64, f64) -> f64) -> Value {
    match (a.as_number(), b.as_number()) {
        (Some(a), Some(b)) => Value::number(work(a, b)),
        _ => Value::Null,
    }
}

fn texts(a: &Value, b: &Value, work: fn(&str, &str) -> Value) -> Value {
    match (a.as_text(), b.as_text()) {
        (Some(a), Some(b)) => work(&a, &b),
        _ => Value::Null,
    }
}

fn like(text: &str, pattern: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return text.is_empty() };
    let rest = &pattern[first.len_utf8()..];
    match (first, text.chars().next()) {
        ('%', None) => like(text, rest),
        ('%', Some(skipped)) => like(text, rest) || like(&text[skipped.len_utf8()..], pattern),
        (_, None) => false,
        (_, Some(own)) => (first == '_' || first == own) && like(&text[own.len_utf8()..], rest),
    }
}
