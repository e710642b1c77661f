//! What the tests of several files share: streams of every kind, and how to split them.

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::Position;

use crate::{Tick, Ticks};

pub(crate) fn at(ordinal: u64) -> Position {
    Position::new(ordinal)
}

/// A change message, valid or not.
pub(crate) fn change(
    type_name: &str,
    key: &str,
    operation: &str,
    value: Option<&str>,
    txid: Option<&str>,
) -> String {
    let value = value.map_or(String::new(), |value| format!(r#""value":{value},"#));
    let txid = txid.map_or(String::new(), |txid| format!(r#","txid":"{txid}""#));
    let headers = format!(r#""headers":{{"operation":"{operation}"{txid}}}"#);
    format!(r#"{{"type":"{type_name}","key":"{key}",{value}{headers}}}"#)
}

/// The ticks of a stream whose reader was up to date before each of the pauses, and at its end.
pub(crate) fn split(messages: &[String], pauses: &[usize]) -> Vec<Tick> {
    let (mut ticks, mut done) = (Ticks::new(), Vec::new());
    for (index, message) in messages.iter().enumerate() {
        if pauses.contains(&index) {
            done.extend(ticks.up_to_date());
        }
        done.extend(ticks.push(at(index as u64), message.as_bytes()));
    }
    done.extend(ticks.up_to_date());
    done
}

pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"é]{1,2}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Few types, keys and txids, so that they meet; and everything that should not be there.
pub(crate) fn any_messages() -> impl Strategy<Value = Vec<String>> {
    let txid = prop::sample::select(vec![None, Some("t1"), Some("t2")]);
    let operation = prop::sample::select(vec!["insert", "update", "upsert", "delete", "delete"]);
    let write = ("[ab]", "[x-z]", operation, any_json(), txid).prop_map(
        |(type_name, key, operation, value, txid)| {
            change(&type_name, &key, operation, Some(&value.to_string()), txid)
        },
    );
    let odd = prop::sample::select(vec![
        json!({"headers": {"control": "reset"}}).to_string(),
        json!({"headers": {"control": "reset", "txid": "t1"}}).to_string(),
        json!({"headers": {"control": "snapshot-start", "offset": "1_2"}}).to_string(),
        json!({"headers": {"control": "later", "txid": "t2"}}).to_string(),
        json!({"type": "a", "key": "x", "headers": {"operation": "insert"}}).to_string(),
        json!({"type": "a", "key": "x", "headers": {"operation": "later", "txid": "t1"}})
            .to_string(),
        "garbage".to_owned(),
    ]);
    prop::collection::vec(prop_oneof![9 => write, 1 => odd], 0..60)
}
