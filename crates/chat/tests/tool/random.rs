//! Whatever a schema says and a model writes, a tool answers in bounded words.

use chat::{
    Tool,
    caps::{COMPLAINT_BYTES_MAX, COMPLAINTS_MAX},
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};
use sys::Chance;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Mostly a schema; references go everywhere.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (prop_oneof!["string", "integer", "number", "null", "array", "object", "strin"])
            .prop_map(|kind| json!({"type": kind})),
        prop_oneof!["#", "#/properties/a", "#/\\$defs/a", "#/\\$defs/b", "#a", "b\\.json"]
            .prop_map(|target| json!({"$ref": target})),
        any::<i64>().prop_map(|least| json!({"minimum": least, "maxLength": least})),
        "\\PC{0,6}".prop_map(|pattern| json!({"pattern": pattern})),
        value().prop_map(|value| json!({"const": value})),
        value(),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"items": items})),
            inner.clone().prop_map(|not| json!({"not": not})),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|all| json!({"allOf": all})),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|any| json!({"anyOf": any})),
            (inner.clone(), inner).prop_map(|(a, rest)| {
                json!({"properties": {"a": a}, "additionalProperties": rest, "required": ["a"]})
            }),
        ]
    })
}

#[test]
fn no_schema_and_no_arguments_break_a_tool() {
    let seed = match std::env::var("HEADWATER_TOOL_SEED") {
        Ok(seed) => seed.parse().expect("HEADWATER_TOOL_SEED is a number"),
        Err(_) => Chance::real().u64(),
    };
    let mut seed_bytes = [0; 32];
    seed_bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes);
    let config = Config { cases: 256, failure_persistence: None, ..Config::default() };
    let drawn = ((schema(), schema(), schema()), value(), "\\PC{0,16}");
    let outcome = TestRunner::new_with_rng(config, rng).run(&drawn, |((a, b, c), value, text)| {
        let input = json!({
            "type": "object", "properties": {"a": a, "b": c}, "$defs": {"a": a, "b": b},
        });
        let Ok(tool) = Tool::builder("a", "").input_schema(input).client() else { return Ok(()) };
        for arguments in [json!({"a": value, "b": value}).to_string(), value.to_string(), text] {
            let said = tool.check(&arguments).err().map(|bad| bad.to_string());
            let len = said.map_or(0, |said| said.len());
            prop_assert!(len < COMPLAINTS_MAX * (COMPLAINT_BYTES_MAX + 8) + 64);
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("HEADWATER_TOOL_SEED={seed}\n{failure}");
    }
}
