//! JSON Schemas in the words that OpenAI can hold a model to.
//!
//! A strict schema lets through what the original does, or more; it never forbids what the original
//! allows, but for fields that no object names. Answers are checked against the original
//! afterwards. A schema that cannot be put this way is sent as it is, and not strictly.

use serde_json::{Map, Value};

use crate::caps::{STRICT_DEPTH_MAX, STRICT_PROPERTIES_MAX};

/// Why a schema is not strict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at {at:?}: {why}")]
pub struct NotStrict {
    /// Where in the schema, as a JSON pointer.
    pub at: String,
    /// What has no strict words.
    pub why: String,
}

/// A schema in OpenAI's strict words.
///
/// # Errors
/// [`NotStrict`] says what has none.
pub fn strict(schema: &Value) -> Result<Value, NotStrict> {
    let mut adapter = Adapter { at: Vec::new(), properties: 0 };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(adapter.refuse("the whole must be an object"));
    }
    adapter.schema(schema)
}

/// Text that are kept as they are.
const KEPT: &[&str] = &[
    "title",
    "description",
    "type",
    "enum",
    "const",
    "pattern",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
];

/// Text that only narrow or explain: without them the schema lets through more.
const DROPPED: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "minLength",
    "maxLength",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "contentEncoding",
    "contentMediaType",
];

/// Formats that OpenAI knows.
const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

struct Adapter {
    /// Where we are.
    at: Vec<String>,
    properties: usize,
}

impl Adapter {
    fn refuse(&self, why: &str) -> NotStrict {
        let at = self.at.iter().map(|step| format!("/{step}")).collect();
        NotStrict { at, why: why.to_owned() }
    }

    fn inside(&mut self, step: &str, schema: &Value) -> Result<Value, NotStrict> {
        self.at.push(step.to_owned());
        let adapted = self.schema(schema)?;
        self.at.pop();
        Ok(adapted)
    }

    fn schema(&mut self, schema: &Value) -> Result<Value, NotStrict> {
        let Value::Object(words) = schema else {
            return Err(self.refuse("anything goes here; say what"));
        };
        if self.at.len() > STRICT_DEPTH_MAX {
            return Err(self.refuse("it is nested too deeply"));
        }
        if let Some(target) = words.get("$ref") {
            return self.reference(target, words);
        }
        let mut adapted = Map::new();
        for (word, value) in words {
            match word.as_str() {
                kept if KEPT.contains(&kept) => {
                    adapted.insert(word.clone(), value.clone());
                }
                dropped if DROPPED.contains(&dropped) => {}
                "format" => {
                    let is_known = value.as_str().is_some_and(|format| FORMATS.contains(&format));
                    adapted.extend(is_known.then(|| (word.clone(), value.clone())));
                }
                "items" => {
                    adapted.insert(word.clone(), self.inside("items", value)?);
                }
                // One of several is also any of them.
                "anyOf" | "oneOf" => {
                    if self.at.is_empty() {
                        return Err(self.refuse("the whole must not be one of several"));
                    }
                    let several = self.several(word, value)?;
                    adapted.insert("anyOf".into(), several);
                }
                "$defs" | "definitions" => {
                    adapted.insert(word.clone(), self.named(word, value)?);
                }
                "properties" | "required" | "additionalProperties" => {}
                other => return Err(self.refuse(&format!("{other:?} has no strict words"))),
            }
        }
        if allows(words, "object") {
            self.object(words, &mut adapted)?;
        }
        if allows(words, "array") && !words.contains_key("items") {
            return Err(self.refuse("the items may be anything; say what"));
        }
        let says_what = ["type", "enum", "const", "anyOf"].iter().any(|w| adapted.contains_key(*w));
        match says_what {
            true => Ok(adapted.into()),
            false => Err(self.refuse("anything goes here; say what")),
        }
    }

    fn reference(
        &mut self,
        target: &Value,
        words: &Map<String, Value>,
    ) -> Result<Value, NotStrict> {
        // A reference stands alone. What only explains may go.
        let explains = |word: &str| {
            matches!(word, "$ref" | "title" | "description") || DROPPED.contains(&word)
        };
        if let Some(word) = words.keys().find(|word| !explains(word)) {
            return Err(self.refuse(&format!("{word:?} stands beside a reference")));
        }
        Ok(Map::from_iter([("$ref".to_owned(), target.clone())]).into())
    }

    fn several(&mut self, word: &str, value: &Value) -> Result<Value, NotStrict> {
        let Value::Array(choices) = value else {
            return Err(self.refuse(&format!("{word:?} is no list")));
        };
        let mut adapted = Vec::with_capacity(choices.len());
        for (index, choice) in choices.iter().enumerate() {
            adapted.push(self.inside(&format!("{word}/{index}"), choice)?);
        }
        Ok(adapted.into())
    }

    fn named(&mut self, word: &str, value: &Value) -> Result<Value, NotStrict> {
        let Value::Object(schemas) = value else {
            return Err(self.refuse(&format!("{word:?} is no object")));
        };
        let mut adapted = Map::new();
        for (name, schema) in schemas {
            let schema = self.inside(&format!("{word}/{name}"), schema)?;
            adapted.insert(name.clone(), schema);
        }
        Ok(adapted.into())
    }

    fn object(
        &mut self,
        words: &Map<String, Value>,
        adapted: &mut Map<String, Value>,
    ) -> Result<(), NotStrict> {
        let empty = Value::Object(Map::new());
        let properties = words.get("properties").unwrap_or(&empty);
        match words.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            None if self.at.is_empty() || words.contains_key("properties") => {}
            _ => return Err(self.refuse("it may have fields of any name; name them")),
        }
        let Value::Object(named) = properties else {
            return Err(self.refuse("\"properties\" is no object"));
        };
        self.properties += named.len();
        if self.properties > STRICT_PROPERTIES_MAX {
            return Err(self.refuse("it has too many properties"));
        }
        let required = words.get("required").and_then(Value::as_array);
        for (name, schema) in named {
            let is_required =
                required.is_some_and(|names| names.iter().any(|required| required == name));
            // A strict model always writes the field; where it may be absent, it must be able to
            // write null.
            if !is_required && !is_nullable(schema) {
                let why = "it may be absent but not null; require it, or allow null";
                self.at.push(format!("properties/{name}"));
                return Err(self.refuse(why));
            }
        }
        let all: Vec<Value> = named.keys().map(|name| name.as_str().into()).collect();
        adapted.insert("properties".into(), self.named("properties", properties)?);
        adapted.insert("required".into(), all.into());
        adapted.insert("additionalProperties".into(), false.into());
        Ok(())
    }
}

fn allows(words: &Map<String, Value>, kind: &str) -> bool {
    match words.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => kind == "object" && words.contains_key("properties"),
    }
}

fn is_nullable(schema: &Value) -> bool {
    let Value::Object(words) = schema else { return false };
    let choices = ["anyOf", "oneOf"].iter().find_map(|word| words.get(*word)?.as_array());
    match (words.get("type"), choices) {
        (Some(Value::String(one)), _) => one == "null",
        (Some(Value::Array(several)), _) => several.iter().any(|one| one == "null"),
        (_, Some(choices)) => choices.iter().any(is_nullable),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "rows read better with values")]

    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, expect: Value) {
        let adapted = strict(&schema).unwrap();
        assert_eq!(adapted, expect);
        // What is strict stays as it is.
        assert_eq!(strict(&adapted).unwrap(), adapted);
    }

    #[track_caller]
    fn refused(schema: Value, at: &str, why: &str) {
        let refused = strict(&schema).unwrap_err();
        assert_eq!(refused.at, at, "{refused}");
        assert!(refused.why.contains(why), "{refused}");
    }

    #[test]
    fn objects_name_and_require_everything() {
        check(
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "Weather",
                "type": "object",
                "properties": {
                    "at": { "type": "string", "format": "date-time" },
                    "city": { "type": "string", "description": "Where", "minLength": 1 },
                    "days": { "type": ["integer", "null"], "format": "uint32", "minimum": 0 },
                },
                "required": ["city", "at"],
            }),
            json!({
                "title": "Weather",
                "type": "object",
                "properties": {
                    "at": { "type": "string", "format": "date-time" },
                    "city": { "type": "string", "description": "Where" },
                    "days": { "type": ["integer", "null"], "minimum": 0 },
                },
                "required": ["at", "city", "days"],
                "additionalProperties": false,
            }),
        );
        check(
            json!({ "type": "object" }),
            json!({
                "type": "object", "properties": {}, "required": [], "additionalProperties": false
            }),
        );
    }

    #[test]
    fn one_of_is_any_of_and_references_stand_alone() {
        check(
            json!({
                "type": "object",
                "properties": {
                    "shape": {
                        "oneOf": [{ "$ref": "#/$defs/A", "description": "x" }, { "type": "null" }],
                    },
                },
                "$defs": { "A": { "type": "array", "items": { "const": "a" } } },
            }),
            json!({
                "type": "object",
                "properties": {
                    "shape": { "anyOf": [{ "$ref": "#/$defs/A" }, { "type": "null" }] },
                },
                "required": ["shape"],
                "additionalProperties": false,
                "$defs": { "A": { "type": "array", "items": { "const": "a" } } },
            }),
        );
    }

    #[test]
    fn what_has_no_strict_words_is_said() {
        let object = |a: Value| {
            let properties = json!({ "a": a });
            json!({ "type": "object", "properties": properties, "required": ["a"] })
        };
        refused(json!({ "type": "string" }), "", "must be an object");
        refused(json!(true), "", "must be an object");
        refused(
            json!({ "type": "object", "properties": { "a": { "type": "string" } } }),
            "/properties/a",
            "absent",
        );
        refused(object(json!({ "type": "object" })), "/properties/a", "any name");
        let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        refused(object(map), "/properties/a", "any name");
        refused(object(json!({ "type": "array" })), "/properties/a", "items");
        refused(
            object(json!({ "type": "array", "items": true })),
            "/properties/a/items",
            "anything",
        );
        refused(object(json!({})), "/properties/a", "anything");
        refused(object(json!({ "allOf": [] })), "/properties/a", "allOf");
        refused(object(json!({ "$ref": "#", "minimum": 1 })), "/properties/a", "minimum");
        let mut deep = json!({ "type": "string" });
        for _ in 0..100 {
            deep = object(deep);
        }
        let refused = strict(&deep).unwrap_err();
        assert!(refused.why.contains("deeply"), "{refused}");
    }
}
