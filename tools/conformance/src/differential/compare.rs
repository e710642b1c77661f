//! Where two conversations about one trace part ways.

use std::{collections::BTreeSet, fmt::Write};

use serde_json::Value;

use super::{
    query::Order,
    side::Conversation,
    trace::{Role, Step, Trace},
};

/// The first difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    /// The index of the command after which it showed.
    pub(super) step: usize,
    pub(super) blame: Blame,
    pub(super) what: String,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blame {
    /// The sides answer a command differently.
    Replies,
    /// They have different rows for this query.
    Rows(String),
    /// The right side has other rows for this query than it finds when asked anew. If the left
    /// side is believed about it, both sides have these.
    Right(String),
    /// Whoever wrote the trace: both sides agree that it makes no sense.
    Trace,
}

const TEXT_SHOWN_MAX: usize = 4_000;

/// Compares what both sides answered to `trace`. About the `doubted` queries the left side is not
/// believed; the right side must still agree with itself.
pub(super) fn first_difference(
    trace: &Trace,
    left: &Conversation,
    right: &Conversation,
    doubted: &BTreeSet<String>,
) -> Option<Difference> {
    let mut visible: Vec<(&str, Order)> = Vec::new();
    for (index, step) in trace.steps.iter().enumerate() {
        let (asked, order) = match &step.role {
            Role::Collection => (step.name(), Some(Order::Any)),
            Role::Query(order) => (step.name(), Some(*order)),
            Role::Again { first, order } => (first.as_str(), Some(*order)),
            Role::Refused | Role::Write => ("", None),
        };
        let is_believed = !doubted.contains(asked);
        visible.extend(order.filter(|_| is_believed).map(|order| (step.name(), order)));
        // The first line starts over; then there are two for each command.
        let reply = pair(left, right, 2 * index + 1);
        let dump = pair(left, right, 2 * index + 2);
        let same = reply.and_then(|pair| compare_replies(step, pair));
        let what = same.and_then(|()| dump.and_then(|pair| compare_dumps(step, &visible, pair)));
        if let Err((blame, what)) = what {
            return Some(Difference { step: index, blame, what });
        }
    }
    None
}

type Found = (Blame, String);
type Pair<'a> = (&'a str, &'a str);

fn pair<'a>(
    left: &'a Conversation,
    right: &'a Conversation,
    line: usize,
) -> Result<Pair<'a>, Found> {
    let reply = |side: &'a Conversation, name| {
        side.replies.get(line).map(String::as_str).ok_or_else(|| {
            let why = side.silence.as_deref().unwrap_or("it said too little");
            in_replies(format!("the {name} side gave no answer: {why}"))
        })
    };
    Ok((reply(left, "left")?, reply(right, "right")?))
}

/// Both must refuse a command for the same reason, or neither; what they say changed is their own.
fn compare_replies(step: &Step, (left, right): Pair<'_>) -> Result<(), Found> {
    let left = parse(left).map_err(in_replies)?;
    let right = parse(right).map_err(in_replies)?;
    for field in ["error", "state"] {
        if left.get(field) != right.get(field) {
            let text = |reply: &Value| reply.get(field).map_or("none".to_owned(), Value::to_string);
            let what = format!("{field}: left {}, right {}", text(&left), text(&right));
            return Err(in_replies(what));
        }
    }
    // A comparison of nothing would pass for ever.
    match (&step.role, left.get("error")) {
        (Role::Collection | Role::Query(_) | Role::Again { .. }, Some(error)) => {
            Err((Blame::Trace, format!("both sides refuse a valid command: {error}")))
        }
        (Role::Refused, None) => {
            Err((Blame::Trace, "both sides accept a query they must refuse".to_owned()))
        }
        _ => Ok(()),
    }
}

fn compare_dumps(
    step: &Step,
    visible: &[(&str, Order)],
    (left, right): Pair<'_>,
) -> Result<(), Found> {
    let is_again = matches!(step.role, Role::Again { .. });
    if left == right && !is_again {
        return Ok(());
    }
    let left = parse(left).map_err(in_replies)?;
    let right = parse(right).map_err(in_replies)?;
    for (name, order) in visible {
        let sides = [("left", &left["rows"][name]), ("right", &right["rows"][name])];
        compare_rows(name, *order, sides)
            .map_err(|what| (Blame::Rows((*name).to_owned()), what))?;
    }
    let Role::Again { first, order } = &step.role else { return Ok(()) };
    let rows = &right["rows"];
    compare_rows(first, *order, [("kept", &rows[first]), ("asked anew", &rows[step.name()])])
        .map_err(|what| (Blame::Right(first.clone()), what))
}

/// Whether the left side is wrong about `first` in its last dump, and the right side is not: asked
/// anew, both find what only the right side has kept up to date.
pub(super) fn left_is_wrong(trace: &Trace, left: &Conversation, right: &Conversation) -> bool {
    let Some(Step { command, role: Role::Again { first, order } }) = trace.steps.last() else {
        return false;
    };
    let dump = |side: &Conversation| side.replies.last().and_then(|line| parse(line).ok());
    let (Some(left), Some(right)) = (dump(left), dump(right)) else { return false };
    let again = command["name"].as_str().unwrap_or_default();
    let fresh = ("fresh", &left["rows"][again]);
    let agrees = |rows: &Value| compare_rows(first, *order, [("", rows), fresh]).is_ok();
    !agrees(&left["rows"][first]) && agrees(&right["rows"][first]) && agrees(&right["rows"][again])
}

type Named<'a> = (&'a str, &'a Value);

fn compare_rows(name: &str, order: Order, [left, right]: [Named<'_>; 2]) -> Result<(), String> {
    let rows = |(side, rows): Named<'_>| match rows.as_array() {
        Some(rows) => Ok(rows.iter().map(canonical).collect::<Vec<_>>()),
        None => Err(format!("{name}: no rows ({side})")),
    };
    let (mut left_rows, mut right_rows) = (rows(left)?, rows(right)?);
    if order == Order::Any {
        left_rows.sort_unstable();
        right_rows.sort_unstable();
    }
    if left_rows == right_rows {
        return Ok(());
    }
    let show = |side: &str, rows: &[String]| {
        let mut text = format!("  {side} {}", rows.join("\n    "));
        text.truncate(text.floor_char_boundary(TEXT_SHOWN_MAX));
        text
    };
    let (left_text, right_text) = (show(left.0, &left_rows), show(right.0, &right_rows));
    Err(format!("{name} ({order:?} order):\n{left_text}\n{right_text}"))
}

/// A text that is the same for equal values: fields in order, numbers as numbers.
fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            // There is one zero.
            let written = write!(text, "{}", if number == 0.0 { 0.0 } else { number });
            written.expect("a string takes any text");
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, field) in fields {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_canonical(field, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

fn in_replies(what: String) -> Found {
    (Blame::Replies, what)
}

fn parse(line: &str) -> Result<Value, String> {
    serde_json::from_str(line).map_err(|error| format!("no JSON ({error}): {line}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(order: Order, left: &Value, right: &Value, is_equal: bool) {
        let compared = compare_rows("q", order, [("left", left), ("right", right)]);
        assert_eq!(compared.is_ok(), is_equal, "{order:?} {left} {right}");
    }

    #[test]
    fn rows_are_compared_by_value() {
        let zero: Value = serde_json::from_str("[-0.0, 1.0, 1e2]").unwrap();
        check(Order::Exact, &zero, &json!([0, 1, 100]), true);
        check(Order::Exact, &json!([{ "a": 1, "b": 2 }]), &json!([{ "b": 2.0, "a": 1 }]), true);
        check(Order::Exact, &json!([{ "a": 1 }]), &json!([{ "a": "1" }]), false);
        check(Order::Exact, &json!([{ "a": null }]), &json!([{}]), false);
        check(Order::Exact, &json!([1, 2]), &json!([2, 1]), false);
        check(Order::Any, &json!([1, 2, 2]), &json!([2, 1, 2]), true);
        check(Order::Any, &json!([1, 2, 2]), &json!([1, 1, 2]), false);
        check(Order::Any, &json!([]), &Value::Null, false);
    }
}
