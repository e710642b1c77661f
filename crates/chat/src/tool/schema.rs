//! A JSON Schema, compiled once, that says in words what does not fit it.

use std::{collections::BTreeSet, fmt};

use jsonschema::{ValidationError, Validator, error::ValidationErrorKind};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

use crate::caps::{COMPLAINT_BYTES_MAX, COMPLAINTS_MAX, SCHEMA_DEPTH_MAX};

/// A JSON Schema, compiled.
pub struct Schema {
    value: Value,
    validator: Validator,
}

/// What is no JSON Schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct BadSchema {
    /// What is wrong with it.
    pub why: String,
}

impl Schema {
    /// Compiles a schema. It may refer to itself, but to nothing outside.
    ///
    /// # Errors
    /// If it is no schema.
    pub fn new(value: Value) -> Result<Self, BadSchema> {
        if let Err(why) = References::check(&value) {
            return Err(BadSchema { why });
        }
        let options = jsonschema::options().offline();
        match options.build(&value) {
            Ok(validator) => Ok(Self { value, validator }),
            Err(error) => Err(BadSchema { why: complaint(&error) }),
        }
    }

    /// The schema of a type, with all that it refers to inside.
    #[must_use]
    pub fn value_of<T: JsonSchema>() -> Value {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
        });
        settings.into_generator().into_root_schema_for::<T>().to_value()
    }

    /// The schema itself.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// What does not fit, in one sentence of at most [`COMPLAINTS_MAX`] complaints.
    ///
    /// # Errors
    /// If something does not fit.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let mut errors = self.validator.iter_errors(value);
        let complaints: Vec<_> =
            errors.by_ref().take(COMPLAINTS_MAX).map(|e| complaint(&e)).collect();
        if complaints.is_empty() {
            return Ok(());
        }
        let more = if errors.next().is_some() { "; and more" } else { "" };
        Err(complaints.join("; ") + more)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.value).finish()
    }
}

/// One complaint, with the place it is about.
fn complaint(error: &ValidationError<'_>) -> String {
    let what = match error.kind() {
        ValidationErrorKind::Required { property } => format!("{property} is required"),
        _ => error.to_string(),
    };
    let place = error.instance_path().as_str();
    let complaint = if place.is_empty() { what } else { format!("{place}: {what}") };
    shortened(complaint)
}

/// A complaint may quote what it is about, which may be long.
pub(crate) fn shortened(mut complaint: String) -> String {
    if complaint.len() > COMPLAINT_BYTES_MAX {
        complaint.truncate(complaint.floor_char_boundary(COMPLAINT_BYTES_MAX));
        complaint.push('…');
    }
    complaint
}

/// Looks for what the validator would never come back from: a reference that leads to itself
/// without going deeper into the value.
struct References<'a> {
    root: &'a Value,
    /// Targets that lead to an end.
    sound: BTreeSet<&'a str>,
    /// Targets whose insides are yet to be looked at.
    unseen: Vec<&'a Value>,
}

impl<'a> References<'a> {
    fn check(root: &'a Value) -> Result<(), String> {
        let mut references = Self { root, sound: BTreeSet::new(), unseen: vec![root] };
        while let Some(schema) = references.unseen.pop() {
            references.walk(schema, 0)?;
        }
        Ok(())
    }

    /// Looks at a schema and all that is inside it.
    fn walk(&mut self, schema: &'a Value, depth: usize) -> Result<(), String> {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(format!("it is nested deeper than {SCHEMA_DEPTH_MAX} levels"));
        }
        match schema {
            Value::Object(fields) => {
                if depth > 0 && fields.get("$id").is_some_and(Value::is_string) {
                    return Err("a schema inside it has an `$id` of its own".to_owned());
                }
                self.follow(schema, &mut Vec::new())?;
                for (key, inner) in fields {
                    match (key.as_str(), inner) {
                        ("const" | "enum" | "default" | "examples", _) => {}
                        (key, Value::Object(by_name)) if NAMED.contains(&key) => {
                            by_name.values().try_for_each(|each| self.walk(each, depth + 1))?;
                        }
                        _ => self.walk(inner, depth + 1)?,
                    }
                }
                Ok(())
            }
            Value::Array(list) => list.iter().try_for_each(|each| self.walk(each, depth + 1)),
            _ => Ok(()),
        }
    }

    /// Follows what applies to the same value: references and combinations.
    fn follow(&mut self, schema: &'a Value, path: &mut Vec<&'a str>) -> Result<(), String> {
        let Value::Object(fields) = schema else { return Ok(()) };
        for (key, inner) in fields {
            match (key.as_str(), inner) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                    self.follow_reference(target, path)?;
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    list.iter().try_for_each(|each| self.follow(each, path))?;
                }
                ("dependentSchemas" | "dependencies", Value::Object(by_name)) => {
                    by_name.values().try_for_each(|each| self.follow(each, path))?;
                }
                ("not" | "if" | "then" | "else", inner) => self.follow(inner, path)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn follow_reference(&mut self, target: &'a str, path: &mut Vec<&'a str>) -> Result<(), String> {
        if self.sound.contains(target) {
            return Ok(());
        }
        if path.contains(&target) {
            return Err(format!("the reference {target:?} leads to itself"));
        }
        if path.len() > SCHEMA_DEPTH_MAX {
            return Err(format!("more than {SCHEMA_DEPTH_MAX} references follow each other"));
        }
        let Some(next) = target.strip_prefix('#').and_then(|at| self.root.pointer(at)) else {
            let why = "leads to nothing inside the schema; write it as a path, such as";
            return Err(format!("the reference {target:?} {why} \"#/$defs/name\""));
        };
        path.push(target);
        self.follow(next, path)?;
        path.pop();
        self.sound.insert(target);
        self.unseen.push(next);
        Ok(())
    }
}

/// Keywords whose value holds schemas by name.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: Value, expected: &str) {
        let error = Schema::new(schema).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        check(json!(3), "");
        check(json!({"type": "strin"}), "strin");
        check(json!({"minimum": "three"}), "three");
        check(json!({"pattern": "("}), "");
        check(json!({"$ref": "https://example.org/elsewhere.json"}), "elsewhere");
        check(json!({"$ref": "#/$defs/missing"}), "missing");
    }

    #[test]
    fn a_reference_that_leads_to_itself_is_refused() {
        check(json!({"$ref": "#"}), "leads to itself");
        check(
            json!({"$ref": "#/$defs/a", "$defs": {
                "a": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/b"}]},
                "b": {"not": {"$ref": "#/$defs/a"}},
            }}),
            "leads to itself",
        );
        check(
            json!({"$ref": "#/default", "default": {
                "items": {"$ref": "#/default/x"},
                "x": {"$ref": "#/default/x"},
            }}),
            "leads to itself",
        );
        check(json!({"$anchor": "a", "$ref": "#a"}), "write it as a path");
        check(json!({"$id": "https://a.org/", "$ref": "https://a.org/"}), "write it as a path");
    }

    #[test]
    fn many_ways_to_one_place_are_gone_once() {
        let mut defs = serde_json::Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
            defs.insert(level.to_string(), json!({"anyOf": [next, next]}));
        }
        defs.insert("60".into(), json!({"type": "string"}));
        let schema = json!({"$ref": "#/$defs/0", "$defs": defs});
        assert_eq!(References::check(&schema), Ok(()));
    }

    #[test]
    fn data_inside_a_schema_is_no_schema() {
        let schema = json!({"properties": {"default": {"const": {"$ref": "#nowhere"}}}});
        assert!(Schema::new(schema).is_ok());
    }

    #[test]
    fn a_value_may_hold_others_of_its_own_kind() {
        let tree = json!({"type": "object", "properties": {
            "children": {"type": "array", "items": {"$ref": "#"}},
        }});
        let schema = Schema::new(tree).unwrap();
        assert_eq!(schema.check(&json!({"children": [{"children": []}]})), Ok(()));
        let why = schema.check(&json!({"children": [{"children": 3}]})).unwrap_err();
        assert_eq!(why, r#"/children/0/children: 3 is not of type "array""#);
    }

    #[test]
    fn complaints_are_few_and_short() {
        let schema = Schema::new(json!({"items": {"type": "integer"}})).unwrap();
        let why = schema.check(&json!(vec!["x".repeat(10_000); 100])).unwrap_err();
        assert!(why.len() < COMPLAINTS_MAX * (COMPLAINT_BYTES_MAX + 16), "{}", why.len());
        assert!(why.ends_with("; and more"), "{why}");
    }
}
