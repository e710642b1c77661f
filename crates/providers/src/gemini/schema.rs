//! JSON Schemas as Gemini takes them.

use serde_json::{Map, Value, json};

use crate::{
    caps::SCHEMA_DEPTH_MAX,
    inexpressible::{FREE_KEYS, Inexpressible, Pointer, SILENT, each, each_named, with_hints},
};

/// Keys that are taken over as they are.
const PLAIN: [&str; 11] = [
    "$anchor",
    "type",
    "format",
    "title",
    "description",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "required",
    "propertyOrdering",
];
/// Keys without which a schema would mean something else.
const INEXPRESSIBLE: [(&str, &str, &str); 6] = [
    ("patternProperties", "a map with chosen keys", FREE_KEYS),
    ("not", "a schema that excludes", "say what is allowed instead"),
    ("if", "a schema with conditions", "use anyOf with one schema for each case"),
    ("dependentSchemas", "a schema with conditions", "use anyOf with one schema for each case"),
    ("contains", "a list that must contain something", "say so in the description"),
    ("$dynamicRef", "a reference that depends on the reader", "use $ref into $defs"),
];
/// The schema of the arguments of a tool; none if it takes none.
pub(super) fn of_tool(schema: &Value) -> Result<Option<Value>, Inexpressible> {
    let root = Pointer::Root;
    let Value::Object(fields) = schema else {
        return Err(root.refuse("no object", "arguments are an object with named fields"));
    };
    let is_object = fields.get("type").is_none_or(|name| name == "object");
    if !is_object {
        let remedy = "arguments are an object with named fields";
        return Err(Pointer::In(&root, "type").refuse("a type other than object", remedy));
    }
    let is_empty = |properties: &Value| properties.as_object().is_some_and(Map::is_empty);
    let takes_none = fields.get("properties").is_none_or(is_empty);
    let says_more = ["$ref", "anyOf", "oneOf", "allOf", "additionalProperties"];
    let is_closed = says_more
        .iter()
        .all(|key| fields.get(*key).is_none_or(|value| value == &Value::Bool(false)));
    if takes_none && is_closed {
        return Ok(None);
    }
    of_output(schema).map(|mut schema| {
        if let Value::Object(fields) = &mut schema
            && !fields.contains_key("anyOf")
            && !fields.contains_key("$ref")
        {
            fields.insert("type".to_owned(), json!("object"));
        }
        Some(schema)
    })
}

/// The schema that an answer must fit. What Gemini cannot hold an answer to is left as a hint in
/// the description; whoever reads the answer still checks it.
pub(super) fn of_output(schema: &Value) -> Result<Value, Inexpressible> {
    let root = Pointer::Root;
    check_references(schema, schema, root, 0)?;
    let mut unfolded = Unfolded { root: schema, within: Vec::new(), clear: Vec::new() };
    unfolded.walk(schema, root, 0)?;
    for key in ["$defs", "definitions"] {
        let here = Pointer::In(&root, key);
        for (name, schema) in schema.get(key).and_then(Value::as_object).into_iter().flatten() {
            unfolded.walk(schema, Pointer::In(&here, name), 0)?;
        }
    }
    adapted(schema, root, 0)
}

fn adapted(schema: &Value, at: Pointer<'_>, depth: usize) -> Result<Value, Inexpressible> {
    if depth > SCHEMA_DEPTH_MAX {
        return Err(at.refuse("more nesting than is taken", "make it flatter"));
    }
    let fields = match schema {
        Value::Object(fields) => fields,
        Value::Bool(true) => return Ok(json!({})),
        _ => return Err(at.refuse("a schema that nothing fits", "leave the field out")),
    };
    let mut walk = Walk::new(depth + 1);
    for (key, value) in fields {
        walk.keyword(key, value, at)?;
    }
    walk.allow_null();
    let mut out = with_hints(walk.out, &walk.hints);
    // Nothing may stand beside a reference.
    if out.contains_key("$ref") && out.keys().any(|key| !key.starts_with('$')) {
        let reference = out.remove("$ref").unwrap_or_default();
        out.insert("anyOf".to_owned(), json!([{ "$ref": reference }]));
    }
    Ok(Value::Object(out))
}

/// One schema on its way.
struct Walk<'a> {
    out: Map<String, Value>,
    /// What cannot be said but in words.
    hints: Vec<(&'a str, &'a Value)>,
    /// Whether null is among the listed values, which Gemini does not take in a list.
    lists_null: bool,
    depth: usize,
}

impl<'a> Walk<'a> {
    fn new(depth: usize) -> Self {
        Self { out: Map::new(), hints: Vec::new(), lists_null: false, depth }
    }

    fn keyword(
        &mut self,
        key: &'a str,
        value: &'a Value,
        at: Pointer<'_>,
    ) -> Result<(), Inexpressible> {
        let here = Pointer::In(&at, key);
        if let Some((_, what, remedy)) = INEXPRESSIBLE.iter().find(|(name, ..)| *name == key) {
            return Err(here.refuse(*what, remedy));
        }
        let depth = self.depth;
        let adapt = |schema: &Value, at: Pointer<'_>| adapted(schema, at, depth);
        let taken = match (key, value) {
            ("$ref", Value::String(reference)) => {
                Some((key, Value::String(reference.replace("#/definitions/", "#/$defs/"))))
            }
            ("$defs" | "definitions", Value::Object(schemas)) => {
                Some(("$defs", each_named(schemas, here, adapt)?))
            }
            ("properties", Value::Object(schemas)) => {
                Some((key, each_named(schemas, here, adapt)?))
            }
            ("anyOf" | "oneOf", Value::Array(schemas)) => {
                Some(("anyOf", each(schemas, here, adapt)?))
            }
            ("prefixItems", Value::Array(schemas)) => Some((key, each(schemas, here, adapt)?)),
            ("allOf", Value::Array(schemas)) => return self.all_of(schemas, here),
            ("items" | "additionalProperties", Value::Bool(_)) => Some((key, value.clone())),
            ("items" | "additionalProperties", schema) => {
                Some((key, adapted(schema, here, self.depth)?))
            }
            ("enum", Value::Array(values)) => {
                self.list(key, value, values);
                None
            }
            ("const", constant) => {
                self.list(key, value, std::slice::from_ref(constant));
                None
            }
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

    /// Gemini knows lists of texts and of numbers.
    fn list(&mut self, key: &'a str, whole: &'a Value, values: &[Value]) {
        let is_listed = |value: &&Value| value.is_string() || value.is_number();
        let listed: Vec<_> = values.iter().filter(is_listed).cloned().collect();
        let nulls = values.iter().filter(|value| value.is_null()).count();
        if listed.is_empty() || listed.len() + nulls < values.len() {
            self.hints.push((key, whole));
            return;
        }
        self.lists_null |= nulls > 0;
        self.out.insert("enum".to_owned(), Value::Array(listed));
    }

    /// Null is listed as an alternative.
    fn allow_null(&mut self) {
        if !self.lists_null || self.out.contains_key("anyOf") {
            return;
        }
        let mut listed = Map::new();
        let without_null = |kind: Value| match kind {
            Value::Array(mut names) => {
                names.retain(|name| name != "null");
                if names.len() == 1 { names.remove(0) } else { Value::Array(names) }
            }
            kind => kind,
        };
        listed.extend(self.out.remove("type").map(|kind| ("type".to_owned(), without_null(kind))));
        listed.extend(self.out.remove("enum").map(|values| ("enum".to_owned(), values)));
        self.out.insert("anyOf".to_owned(), json!([listed, { "type": "null" }]));
    }

    /// One schema that must fit is as good as itself; several cannot be said.
    fn all_of(&mut self, schemas: &'a [Value], at: Pointer<'_>) -> Result<(), Inexpressible> {
        let [only] = schemas else {
            return Err(at.refuse("several schemas at once", "write one schema with all fields"));
        };
        let Value::Object(only) = adapted(only, Pointer::At(&at, 0), self.depth)? else {
            return Ok(());
        };
        for (key, value) in only {
            self.out.entry(key).or_insert(value);
        }
        Ok(())
    }
}

/// Every reference must lead somewhere in the same schema.
fn check_references(
    root: &Value,
    schema: &Value,
    at: Pointer<'_>,
    depth: usize,
) -> Result<(), Inexpressible> {
    if depth > SCHEMA_DEPTH_MAX {
        return Err(at.refuse("more nesting than is taken", "make it flatter"));
    }
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref")
                && target_of(root, reference).is_none()
            {
                let remedy = "define it in $defs of the same schema";
                let at = Pointer::In(&at, "$ref");
                return Err(at.refuse("a reference that leads nowhere", remedy));
            }
            let mut fields = fields.iter();
            fields.try_for_each(|(key, schema)| {
                check_references(root, schema, Pointer::In(&at, key), depth + 1)
            })
        }
        Value::Array(schemas) => schemas.iter().enumerate().try_for_each(|(index, schema)| {
            check_references(root, schema, Pointer::At(&at, index), depth + 1)
        }),
        _ => Ok(()),
    }
}

fn target_of<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Follows references through all that must be there: Gemini unfolds a schema that contains
/// itself, but only where a field may be missing.
struct Unfolded<'a> {
    root: &'a Value,
    /// References that are being followed.
    within: Vec<&'a str>,
    /// References that were followed to the end.
    clear: Vec<&'a str>,
}

impl<'a> Unfolded<'a> {
    fn walk(
        &mut self,
        schema: &'a Value,
        at: Pointer<'_>,
        depth: usize,
    ) -> Result<(), Inexpressible> {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(at.refuse("more nesting than is taken", "make it flatter"));
        }
        let Value::Object(fields) = schema else { return Ok(()) };
        if let Some(Value::String(reference)) = fields.get("$ref") {
            self.follow(reference, Pointer::In(&at, "$ref"), depth)?;
        }
        let required = fields.get("required").and_then(Value::as_array);
        let here = Pointer::In(&at, "properties");
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if let Some(property) = fields.get("properties").and_then(|fields| fields.get(name)) {
                self.walk(property, Pointer::In(&here, name), depth + 1)?;
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(schema) = fields.get(key) {
                self.walk(schema, Pointer::In(&at, key), depth + 1)?;
            }
        }
        for key in ["anyOf", "oneOf", "allOf", "prefixItems"] {
            let schemas = fields.get(key).and_then(Value::as_array).into_iter().flatten();
            let here = Pointer::In(&at, key);
            for (index, schema) in schemas.enumerate() {
                self.walk(schema, Pointer::At(&here, index), depth + 1)?;
            }
        }
        Ok(())
    }

    fn follow(
        &mut self,
        reference: &'a str,
        at: Pointer<'_>,
        depth: usize,
    ) -> Result<(), Inexpressible> {
        if self.clear.contains(&reference) {
            return Ok(());
        }
        if self.within.contains(&reference) {
            let remedy = "make the field that leads back to it optional";
            return Err(at.refuse("a schema that must contain itself", remedy));
        }
        let Some(target) = target_of(self.root, reference) else { return Ok(()) };
        self.within.push(reference);
        self.walk(target, at, depth + 1)?;
        self.within.pop();
        self.clear.push(reference);
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
            "type": "object",
            "required": ["name"],
            "additionalProperties": { "type": "string" },
            "properties": {
                "name": { "type": "string", "pattern": "^a", "description": "Who." },
                "age": { "type": ["integer", "null"], "minimum": 0, "default": null },
                "kind": { "oneOf": [{ "const": "a" }, { "const": true, "type": "boolean" }] },
                "mood": { "type": ["string", "null"], "enum": ["good", null] },
                "pair": { "type": "array", "prefixItems": [{ "type": "string" }, true] },
                "home": { "$ref": "#/definitions/Home", "description": "Where." },
                "also": { "allOf": [{ "$ref": "#/definitions/Home" }] },
            },
            "definitions": { "Home": { "type": "object" } },
        });
        let expected = json!({
            "type": "object",
            "required": ["name"],
            "additionalProperties": { "type": "string" },
            "properties": {
                "name": { "type": "string", "description": "Who. {pattern: \"^a\"}" },
                "age": {
                    "type": ["integer", "null"],
                    "minimum": 0,
                    "description": "{default: null}",
                },
                "kind": { "anyOf": [
                    { "enum": ["a"] },
                    { "type": "boolean", "description": "{const: true}" },
                ] },
                "mood": { "anyOf": [{ "type": "string", "enum": ["good"] }, { "type": "null" }] },
                "pair": { "type": "array", "prefixItems": [{ "type": "string" }, {}] },
                "home": { "anyOf": [{ "$ref": "#/$defs/Home" }], "description": "Where." },
                "also": { "$ref": "#/$defs/Home" },
            },
            "$defs": { "Home": { "type": "object" } },
        });
        assert_eq!(of_output(&schema).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_said_is_refused_where_it_stands() {
        let object = |field: Value| json!({ "type": "object", "properties": { "a": field } });
        let rows = [
            (json!(false), "", "a schema that nothing fits"),
            (json!({ "not": {} }), "/not", "a schema that excludes"),
            (json!({ "if": {} }), "/if", "a schema with conditions"),
            (json!({ "patternProperties": {} }), "/patternProperties", "a map with chosen keys"),
            (json!({ "allOf": [{}, {}] }), "/allOf", "several schemas at once"),
            (json!({ "$ref": "other.json" }), "/$ref", "a reference that leads nowhere"),
            (json!({ "$ref": "#/$defs/X" }), "/$ref", "a reference that leads nowhere"),
        ];
        for (field, pointer, what) in rows {
            check_refused(&object(field), &format!("/properties/a{pointer}"), what);
        }
        let deep = (0..100).fold(
            json!({ "type": "string" }),
            |schema, _| json!({ "type": "array", "items": schema }),
        );
        assert_eq!(of_output(&deep).unwrap_err().what, "more nesting than is taken");
    }

    #[test]
    fn a_schema_may_contain_itself_where_it_need_not() {
        let tree = |required: Value| {
            json!({
                "$ref": "#/$defs/Tree",
                "$defs": { "Tree": {
                    "type": "object",
                    "required": required,
                    "properties": {
                        "children": { "type": "array", "items": { "$ref": "#/$defs/Tree" } },
                    },
                } },
            })
        };
        assert!(of_output(&tree(json!([]))).is_ok());
        check_refused(
            &tree(json!(["children"])),
            "/$ref/properties/children/items/$ref",
            "a schema that must contain itself",
        );
        let mut hidden = tree(json!(["children"]));
        hidden["$ref"] = Value::Null;
        check_refused(
            &hidden,
            "/$defs/Tree/properties/children/items/$ref/properties/children/items/$ref",
            "a schema that must contain itself",
        );
    }

    #[test]
    fn arguments_are_an_object_or_none() {
        let none = json!({ "type": "object", "properties": {}, "additionalProperties": false });
        assert_eq!(of_tool(&none).unwrap(), None);
        assert_eq!(of_tool(&json!({})).unwrap(), None);
        let some = json!({ "properties": { "a": {} } });
        let expected = json!({ "type": "object", "properties": { "a": {} } });
        assert_eq!(of_tool(&some).unwrap(), Some(expected));
        assert_eq!(of_tool(&json!({ "type": "string" })).unwrap_err().pointer, "/type");
        assert_eq!(of_tool(&json!(true)).unwrap_err().pointer, "");
    }
}
