//! Values made up for a JSON Schema.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value, json};

use super::caps::{FILL_DEPTH_MAX, FILL_LEN_MAX, FILL_VALUES_MAX};

/// A value that fits a JSON Schema: the same one each time. Patterns and conditions are beyond it.
#[must_use]
pub fn fill(schema: &Value) -> Value {
    fill_knowing(schema, &Known::default())
}

/// What is known, by name.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_name: BTreeMap<String, Vec<Value>>,
}

impl Known {
    /// Remembers the fields of an object that is written as JSON.
    pub(super) fn learn(&mut self, json: &str) {
        if let Ok(Value::Object(fields)) = serde_json::from_str(json) {
            for (name, value) in fields {
                let values = self.by_name.entry(name).or_default();
                // A call and its answer often tell the same.
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
    }

    /// Remembers places, unless better is known.
    pub(super) fn learn_places(&mut self, places: Vec<String>) {
        let places: Vec<_> = places.into_iter().map(Value::String).collect();
        for name in ["city", "location", "place"] {
            if !places.is_empty() {
                self.by_name.entry(name.to_owned()).or_insert_with(|| places.clone());
            }
        }
    }

    /// The value of this name, in the entry of this number.
    fn get(&self, name: &str, entry: usize) -> Option<&Value> {
        let values = self.by_name.get(name)?;
        values.get(entry).or_else(|| values.last())
    }

    /// How many entries a list of such fields has.
    fn entries(&self, schema: &Value) -> usize {
        let names = schema.get("properties").and_then(Value::as_object);
        let lens = names.into_iter().flatten().filter_map(|(name, _)| self.by_name.get(name));
        lens.map(Vec::len).max().unwrap_or(0)
    }
}

pub(super) fn fill_knowing(schema: &Value, known: &Known) -> Value {
    Filler { root: schema, known, values_left: FILL_VALUES_MAX, entry: 0 }.value(schema, "", 0)
}

struct Filler<'a> {
    root: &'a Value,
    known: &'a Known,
    values_left: usize,
    /// Which entry of a list is being filled.
    entry: usize,
}

impl<'a> Filler<'a> {
    fn value(&mut self, schema: &'a Value, name: &str, depth: usize) -> Value {
        self.values_left = self.values_left.saturating_sub(1);
        let Value::Object(rules) = schema else { return Value::Null };
        if depth > FILL_DEPTH_MAX {
            return Value::Null;
        }
        if let Some(fixed) = rules.get("const") {
            return fixed.clone();
        }
        let told = self.known.get(name, self.entry);
        if let Some(told) = told.filter(|told| is_of_type(told, rules)) {
            return told.clone();
        }
        for key in ["default", "enum", "examples"] {
            match rules.get(key) {
                Some(Value::Array(list)) if key != "default" => {
                    if let Some(first) = list.first() {
                        return first.clone();
                    }
                }
                Some(value) if key == "default" => return value.clone(),
                _ => {}
            }
        }
        if let Some(target) = rules.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|at| self.root.pointer(at));
            return target.map_or(Value::Null, |target| self.value(target, name, depth + 1));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(choices)) = rules.get(key) {
                return self.choice(choices, name, depth);
            }
        }
        if let Some(Value::Array(all)) = rules.get("allOf") {
            return self.all(all, rules, name, depth);
        }
        self.plain(rules, name, depth)
    }

    /// The first choice that is not `null`, unless it is deep already.
    fn choice(&mut self, choices: &'a [Value], name: &str, depth: usize) -> Value {
        let is_null = |choice: &Value| choice.get("type") == Some(&json!("null"));
        let may_be_null = choices.iter().any(is_null);
        if may_be_null && (depth >= FILL_DEPTH_MAX / 2 || self.values_left == 0) {
            return Value::Null;
        }
        let choice = choices.iter().find(|choice| !is_null(choice)).or_else(|| choices.first());
        choice.map_or(Value::Null, |choice| self.value(choice, name, depth + 1))
    }

    /// Objects are joined; of other values the first counts.
    fn all(
        &mut self,
        all: &'a [Value],
        rules: &'a Map<String, Value>,
        name: &str,
        depth: usize,
    ) -> Value {
        let own = rules.contains_key("type") || rules.contains_key("properties");
        let own = own.then(|| self.plain(rules, name, depth));
        let parts = all.iter().map(|part| self.value(part, name, depth + 1));
        let values: Vec<_> = own.into_iter().chain(parts).collect();
        let is_object = values.iter().all(Value::is_object);
        if !is_object {
            return values.into_iter().next().unwrap_or_default();
        }
        let fields = values.into_iter().filter_map(|value| match value {
            Value::Object(fields) => Some(fields),
            _ => None,
        });
        Value::Object(fields.flatten().collect())
    }

    fn plain(&mut self, rules: &'a Map<String, Value>, name: &str, depth: usize) -> Value {
        match kind(rules) {
            "object" => self.object(rules, depth),
            "array" => self.array(rules, name, depth),
            "string" => Value::String(text(rules, name)),
            "integer" => number(rules, true),
            "number" => number(rules, false),
            "boolean" => Value::Bool(true),
            _ => Value::Null,
        }
    }

    fn object(&mut self, rules: &'a Map<String, Value>, depth: usize) -> Value {
        let required = rules.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|each| each == name));
        let mut fields = Map::new();
        for (name, schema) in
            rules.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let may_be_left_out = depth >= FILL_DEPTH_MAX / 2 || self.values_left == 0;
            if is_required(name) || !may_be_left_out {
                fields.insert(name.clone(), self.value(schema, name, depth + 1));
            }
        }
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                fields.insert(name.to_owned(), json!(name));
            }
        }
        Value::Object(fields)
    }

    fn array(&mut self, rules: &'a Map<String, Value>, name: &str, depth: usize) -> Value {
        if let Some(Value::Array(prefix)) = rules.get("prefixItems") {
            return prefix.iter().map(|item| self.value(item, name, depth + 1)).collect();
        }
        let len = |key: &str| rules.get(key).and_then(Value::as_u64);
        let least = len("minItems").unwrap_or(0).min(FILL_LEN_MAX);
        let Some(item) = rules.get("items").filter(|item| item.is_object()) else {
            return (0..least).map(|index| json!(index)).collect();
        };
        let target = item.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|at| self.root.pointer(at.strip_prefix('#')?));
        let known = self.known.entries(target.unwrap_or(item)) as u64;
        let may_be_left_out = depth >= FILL_DEPTH_MAX / 2 || self.values_left == 0;
        let wanted = if may_be_left_out { 0 } else { known.max(1) };
        let wanted = wanted.max(least).min(len("maxItems").unwrap_or(u64::MAX)).min(FILL_LEN_MAX);
        let outer = self.entry;
        let items = (0..wanted).map(|index| {
            self.entry = usize::try_from(index).unwrap_or(0);
            self.value(item, name, depth + 1)
        });
        let items = items.collect();
        self.entry = outer;
        items
    }
}

/// The type that a schema wants; of several, the first that is not `null`.
fn kind(rules: &Map<String, Value>) -> &str {
    match rules.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds.find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if rules.contains_key("properties") => "object",
        _ if rules.contains_key("items") => "array",
        _ => "string",
    }
}

fn is_of_type(value: &Value, rules: &Map<String, Value>) -> bool {
    if !rules.contains_key("type") {
        return false;
    }
    match kind(rules) {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => false,
    }
}

fn text(rules: &Map<String, Value>, name: &str) -> String {
    let text = match rules.get("format").and_then(Value::as_str) {
        Some("date") => return "2026-01-31".to_owned(),
        Some("date-time") => return "2026-01-31T12:00:00Z".to_owned(),
        Some("time") => return "12:00:00Z".to_owned(),
        Some("email") => return "ada@example.com".to_owned(),
        Some("uri" | "url") => return "https://example.com/".to_owned(),
        Some("uuid") => return "00000000-0000-4000-8000-000000000000".to_owned(),
        Some("ipv4") => return "192.0.2.1".to_owned(),
        _ if name.is_empty() => "text".to_owned(),
        _ => format!("a {}", name.replace('_', " ")),
    };
    let len = |key: &str| rules.get(key).and_then(Value::as_u64);
    let most = usize::try_from(len("maxLength").unwrap_or(FILL_LEN_MAX)).unwrap_or(usize::MAX);
    let least = usize::try_from(len("minLength").unwrap_or(0).min(FILL_LEN_MAX)).unwrap_or(0);
    let mut text: String = text.chars().take(most).collect();
    while text.chars().count() < least {
        text.push('.');
    }
    text
}

fn number(rules: &Map<String, Value>, is_whole: bool) -> Value {
    let bound = |key: &str| rules.get(key).and_then(Value::as_f64);
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + 1.0));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - 1.0));
    let mut number = 1.0_f64;
    if let Some(most) = most {
        number = number.min(most);
    }
    if let Some(least) = least {
        number = number.max(least);
    }
    if is_whole {
        number = number.ceil();
    }
    if let Some(step) = step {
        number = (number / step).ceil() * step;
    }
    #[allow(clippy::cast_possible_truncation, reason = "too large a number saturates")]
    if is_whole {
        json!(number as i64)
    } else {
        Number::from_f64(number).map_or(json!(1), Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &Value) {
        let value = fill(schema);
        let compiled = chat::Schema::new(schema.clone()).unwrap();
        assert_eq!(compiled.check(&value), Ok(()), "{value} for {schema}");
    }

    #[test]
    fn what_is_made_up_fits() {
        for schema in [
            json!({"type": "string"}),
            json!({"type": "string", "minLength": 20}),
            json!({"type": "string", "maxLength": 2}),
            json!({"type": "string", "format": "date-time"}),
            json!({"type": "integer", "minimum": 3, "maximum": 7}),
            json!({"type": "integer", "maximum": -3}),
            json!({"type": "number", "exclusiveMinimum": 0.5, "multipleOf": 0.5}),
            json!({"type": ["null", "boolean"]}),
            json!({"enum": ["a", "b"]}),
            json!({"const": {"a": 1}}),
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 3}),
            json!({"type": "array", "items": {"type": "integer"}, "maxItems": 0}),
            json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}),
            json!({"anyOf": [{"type": "null"}, {"type": "integer"}]}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "required": ["a"],
                "additionalProperties": false,
                "$defs": {"b": {"type": "object", "properties": {"c": {"type": "boolean"}}}}}),
            json!({"allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
            ]}),
            json!({"type": "object", "properties": {
                "left": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
                "children": {"type": "array", "items": {"$ref": "#"}},
            }, "required": ["left", "children"]}),
        ] {
            check(&schema);
        }
    }

    #[test]
    fn what_is_known_is_told() {
        let mut known = Known::default();
        known.learn(r#"{"city": "Oslo", "degrees": 7}"#);
        known.learn(r#"{"city": "Lima", "degrees": 20}"#);
        known.learn("no JSON");
        let schema = json!({"type": "array", "items": {"type": "object", "properties": {
            "city": {"type": "string"},
            "degrees": {"type": "integer"},
        }}});
        let expected = json!([{"city": "Oslo", "degrees": 7}, {"city": "Lima", "degrees": 20}]);
        assert_eq!(fill_knowing(&schema, &known), expected);
    }
}
