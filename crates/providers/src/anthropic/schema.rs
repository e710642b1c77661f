//! JSON Schemas as Anthropic takes them.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value, json};

use crate::{
    caps::{ANTHROPIC_NAME_LEN_MAX, SCHEMA_DEPTH_MAX},
    inexpressible::{FREE_KEYS, Inexpressible, Pointer, SILENT, each, each_named, with_hints},
};

/// Formats of strings that an answer can be held to.
const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];
/// Keys that are taken over as they are.
const PLAIN: [&str; 6] = ["type", "title", "description", "enum", "const", "required"];

/// The schema of the arguments of a tool. Anthropic takes nearly any, as long as it is an object.
pub(super) fn of_tool(schema: &Value) -> Result<Cow<'_, Value>, Inexpressible> {
    let root = Pointer::Root;
    let Value::Object(fields) = schema else {
        return Err(root.refuse("no object", "arguments are an object with named fields"));
    };
    for key in ["anyOf", "oneOf", "allOf"] {
        if fields.contains_key(key) {
            let remedy = "put the alternatives into a field of an object";
            return Err(Pointer::In(&root, key).refuse("alternatives at the root", remedy));
        }
    }
    if let Some(Value::Object(properties)) = fields.get("properties") {
        let at = Pointer::In(&root, "properties");
        if let Some(name) = properties.keys().find(|name| !is_field_name(name)) {
            let remedy = "use letters, digits, _, . and -, at most 64 of them";
            return Err(Pointer::In(&at, name).refuse("a name that is not taken", remedy));
        }
    }
    match fields.get("type").map(Value::as_str) {
        Some(Some("object")) => Ok(Cow::Borrowed(schema)),
        None if fields.is_empty() || fields.contains_key("properties") => {
            let mut fields = fields.clone();
            fields.insert("type".to_owned(), json!("object"));
            Ok(Cow::Owned(Value::Object(fields)))
        }
        _ => {
            let remedy = "arguments are an object with named fields";
            Err(Pointer::In(&root, "type").refuse("a type other than object", remedy))
        }
    }
}

/// The schema that an answer must fit. What Anthropic cannot hold an answer to is left as a hint
/// in the description; whoever reads the answer still checks it.
pub(super) fn of_output(schema: &Value) -> Result<Value, Inexpressible> {
    Refs { root: schema, seen: BTreeMap::new() }.walk(schema, Pointer::Root, 0)?;
    adapted(schema, Pointer::Root, 0)
}

fn is_field_name(name: &str) -> bool {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=ANTHROPIC_NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_taken)
}

fn adapted(schema: &Value, at: Pointer<'_>, depth: usize) -> Result<Value, Inexpressible> {
    if depth > SCHEMA_DEPTH_MAX {
        return Err(at.refuse("more nesting than is taken", "make it flatter"));
    }
    let Value::Object(fields) = schema else {
        return Err(at.refuse("a schema that says nothing", "say what type the value has"));
    };
    if let Some(reference) = fields.get("$ref") {
        return Ok(json!({ "$ref": reference }));
    }
    let mut walk = Walk { out: Map::new(), hints: Vec::new(), depth: depth + 1 };
    for (key, value) in fields {
        walk.keyword(key, value, at)?;
    }
    walk.close(fields, at)?;
    Ok(Value::Object(with_hints(walk.out, &walk.hints)))
}

/// One schema on its way.
struct Walk<'a> {
    out: Map<String, Value>,
    /// What cannot be said but in words.
    hints: Vec<(&'a str, &'a Value)>,
    depth: usize,
}

impl<'a> Walk<'a> {
    fn keyword(
        &mut self,
        key: &'a str,
        value: &'a Value,
        at: Pointer<'_>,
    ) -> Result<(), Inexpressible> {
        let here = Pointer::In(&at, key);
        let depth = self.depth;
        let adapt = |schema: &Value, at: Pointer<'_>| adapted(schema, at, depth);
        let taken = match (key, value) {
            ("$defs" | "definitions" | "properties", Value::Object(schemas)) => {
                Some((key, each_named(schemas, here, adapt)?))
            }
            ("anyOf" | "oneOf", Value::Array(schemas)) => {
                Some(("anyOf", each(schemas, here, adapt)?))
            }
            ("allOf", Value::Array(schemas)) => Some((key, each(schemas, here, adapt)?)),
            ("items", items) => Some((key, adapted(items, here, self.depth)?)),
            ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
                Some((key, value.clone()))
            }
            ("minItems", Value::Number(least)) if matches!(least.as_u64(), Some(0 | 1)) => {
                Some((key, value.clone()))
            }
            ("prefixItems", _) => {
                let remedy = "use an object with named fields";
                return Err(here.refuse("a tuple", remedy));
            }
            ("additionalProperties", Value::Object(_)) | ("patternProperties", _) => {
                return Err(here.refuse("a map with free keys", FREE_KEYS));
            }
            ("additionalProperties", _) => None,
            (key, _) if SILENT.contains(&key) => None,
            (key, value) if PLAIN.contains(&key) => Some((key, value.clone())),
            (key, value) => {
                self.hints.push((key, value));
                None
            }
        };
        if let Some((key, value)) = taken {
            self.out.insert(key.to_owned(), value);
        }
        Ok(())
    }

    /// Objects have just the fields that are named, and every value has a type.
    fn close(&mut self, fields: &Map<String, Value>, at: Pointer<'_>) -> Result<(), Inexpressible> {
        let types = fields.get("type").map_or_else(Vec::new, type_names);
        let has = |key| fields.contains_key(key);
        if types.contains(&"object") || has("properties") {
            let is_open = fields.get("additionalProperties") == Some(&Value::Bool(true));
            if is_open && !has("properties") {
                let at = Pointer::In(&at, "additionalProperties");
                return Err(at.refuse("a map with free keys", FREE_KEYS));
            }
            self.out.entry("type").or_insert_with(|| json!("object"));
            self.out.entry("properties").or_insert_with(|| json!({}));
            self.out.insert("additionalProperties".to_owned(), json!(false));
            return Ok(());
        }
        if types.contains(&"array") && !has("items") {
            return Err(at.refuse("a list of anything", "say what type its items have"));
        }
        let says_something = ["type", "anyOf", "oneOf", "allOf", "enum", "const"].iter();
        if !says_something.copied().any(has) {
            return Err(at.refuse("a schema that says nothing", "say what type the value has"));
        }
        Ok(())
    }
}

fn type_names(names: &Value) -> Vec<&str> {
    match names {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Follows references: all must lead somewhere in the same schema, none back to where it is.
struct Refs<'a> {
    root: &'a Value,
    /// Whether a reference has been followed to the end.
    seen: BTreeMap<&'a str, bool>,
}

impl<'a> Refs<'a> {
    fn walk(
        &mut self,
        schema: &'a Value,
        at: Pointer<'_>,
        depth: usize,
    ) -> Result<(), Inexpressible> {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(at.refuse("more nesting than is taken", "make it flatter"));
        }
        match schema {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    self.follow(reference, Pointer::In(&at, "$ref"), depth)?;
                }
                // Definitions count where they are used.
                let used = fields.iter().filter(|(key, _)| {
                    !matches!(key.as_str(), "$defs" | "definitions" | "enum" | "const" | "default")
                });
                for (key, schema) in used {
                    self.walk(schema, Pointer::In(&at, key), depth + 1)?;
                }
            }
            Value::Array(schemas) => {
                for (index, schema) in schemas.iter().enumerate() {
                    self.walk(schema, Pointer::At(&at, index), depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn follow(
        &mut self,
        reference: &'a str,
        at: Pointer<'_>,
        depth: usize,
    ) -> Result<(), Inexpressible> {
        match self.seen.get(reference) {
            Some(true) => return Ok(()),
            Some(false) => {
                let remedy = "give it a depth: Anthropic takes no schema that contains itself";
                return Err(at.refuse("a schema that contains itself", remedy));
            }
            None => {}
        }
        let local = reference.strip_prefix('#');
        let Some(target) = local.and_then(|pointer| self.root.pointer(pointer)) else {
            let remedy = "define it in $defs of the same schema";
            return Err(at.refuse("a reference that leads nowhere", remedy));
        };
        self.seen.insert(reference, false);
        self.walk(target, at, depth + 1)?;
        self.seen.insert(reference, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(schema: &Value, pointer: &str, what: &str) {
        let refused = of_output(schema).expect_err("refused");
        assert_eq!((refused.pointer.as_str(), refused.what.as_str()), (pointer, what));
    }

    #[test]
    fn what_cannot_be_held_to_becomes_a_hint() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Person",
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": { "type": "string", "minLength": 1, "description": "Who." },
                "age": { "type": ["integer", "null"], "format": "uint8", "minimum": 0 },
                "born": { "type": "string", "format": "date" },
                "kind": { "oneOf": [{ "const": "a" }, { "enum": ["b", null] }] },
                "tags": { "type": "array", "items": { "$ref": "#/$defs/Tag" }, "minItems": 1 },
            },
            "$defs": { "Tag": { "type": "object", "additionalProperties": false } },
        });
        let expected = json!({
            "title": "Person",
            "type": "object",
            "required": ["name"],
            "additionalProperties": false,
            "properties": {
                "name": { "type": "string", "description": "Who. {minLength: 1}" },
                "age": {
                    "type": ["integer", "null"],
                    "description": "{format: \"uint8\", minimum: 0}",
                },
                "born": { "type": "string", "format": "date" },
                "kind": { "anyOf": [{ "const": "a" }, { "enum": ["b", null] }] },
                "tags": { "type": "array", "items": { "$ref": "#/$defs/Tag" }, "minItems": 1 },
            },
            "$defs": {
                "Tag": { "type": "object", "properties": {}, "additionalProperties": false },
            },
        });
        assert_eq!(of_output(&schema).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_said_is_refused_where_it_stands() {
        let object = |field: Value| json!({ "type": "object", "properties": { "a/b": field } });
        let at = |rest: &str| format!("/properties/a~1b{rest}");
        check_refused(&object(json!(true)), &at(""), "a schema that says nothing");
        check_refused(&object(json!({ "title": "x" })), &at(""), "a schema that says nothing");
        check_refused(&object(json!({ "type": "array" })), &at(""), "a list of anything");
        let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        check_refused(&object(map), &at("/additionalProperties"), "a map with free keys");
        let map = json!({ "type": "object", "additionalProperties": true });
        check_refused(&object(map), &at("/additionalProperties"), "a map with free keys");
        let tuple = json!({ "type": "array", "prefixItems": [{ "type": "string" }] });
        check_refused(&object(tuple), &at("/prefixItems"), "a tuple");
        let nowhere = json!({ "$ref": "https://example.com/schema" });
        check_refused(&object(nowhere), &at("/$ref"), "a reference that leads nowhere");
    }

    #[test]
    fn a_schema_that_contains_itself_is_refused() {
        let tree = json!({
            "$ref": "#/$defs/Tree",
            "$defs": { "Tree": {
                "type": "object",
                "properties": {
                    "children": { "type": "array", "items": { "$ref": "#/$defs/Tree" } },
                },
            } },
        });
        check_refused(
            &tree,
            "/$ref/properties/children/items/$ref",
            "a schema that contains itself",
        );
        let twice = json!({
            "type": "object",
            "properties": { "a": { "$ref": "#/$defs/X" }, "b": { "$ref": "#/$defs/X" } },
            "$defs": { "X": { "type": "string" } },
        });
        assert!(of_output(&twice).is_ok());
        let deep = (0..100).fold(
            json!({ "type": "string" }),
            |schema, _| json!({ "type": "array", "items": schema }),
        );
        assert_eq!(of_output(&deep).unwrap_err().what, "more nesting than is taken");
    }

    #[test]
    fn arguments_are_an_object_with_names_that_are_taken() {
        let plain = json!({ "type": "object", "properties": { "a": true } });
        assert!(matches!(of_tool(&plain), Ok(Cow::Borrowed(_))));
        assert_eq!(of_tool(&json!({})).unwrap().into_owned(), json!({ "type": "object" }));
        let rows = [
            (json!(true), ""),
            (json!({ "type": "string" }), "/type"),
            (json!({ "type": "object", "anyOf": [] }), "/anyOf"),
            (json!({ "type": "object", "properties": { "ä": {} } }), "/properties/ä"),
        ];
        for (schema, pointer) in rows {
            assert_eq!(of_tool(&schema).unwrap_err().pointer, pointer, "of {schema}");
        }
    }
}
