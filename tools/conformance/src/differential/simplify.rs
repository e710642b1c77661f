//! Queries that are a little simpler than a given one, for the last steps of shrinking.
//!
//! Only such parts are touched whose answer stays one that both sides must agree on: conditions,
//! plain projections, and the depth of nesting.

use serde_json::{Value, json};

/// Every query that is this one with one thing less.
pub(super) fn simpler(ir: &Value) -> Vec<Value> {
    let mut found = without_nesting(ir);
    for index in 0..items(ir, "where") {
        let place = |condition| replaced(ir, &format!("/where/{index}"), condition);
        found.extend(simpler_conditions(&ir["where"][index]).into_iter().map(place));
    }
    let is_plain = ["orderBy", "distinct", "groupBy"].iter().all(|clause| ir.get(clause).is_none());
    for (name, value) in ir["select"].as_object().into_iter().flatten() {
        if is_plain && value.get("agg").is_none() {
            let place = |value| replaced(ir, &format!("/select/{name}"), value);
            found.extend(simpler_values(value).into_iter().map(place));
        }
    }
    found
}

/// With a collection in place of a sub-query, or with a simpler sub-query.
fn without_nesting(ir: &Value) -> Vec<Value> {
    let joins = (0..items(ir, "join")).map(|index| format!("/join/{index}"));
    let mut found = Vec::new();
    for path in ["/from".to_owned()].into_iter().chain(joins) {
        let Some(query) = ir.pointer(&path).and_then(|source| source.get("query")) else {
            continue;
        };
        if let Some(collection) = query["from"].get("col") {
            let mut flat = ir.clone();
            let source = flat.pointer_mut(&path).and_then(Value::as_object_mut);
            if let Some(source) = source {
                source.remove("query");
                source.insert("col".to_owned(), collection.clone());
            }
            found.push(flat);
        }
        let inner = without_clauses(query).into_iter().chain(simpler(query));
        found.extend(inner.map(|query| replaced(ir, &format!("{path}/query"), query)));
    }
    found
}

/// Without one of the clauses that a query can do without.
fn without_clauses(query: &Value) -> Vec<Value> {
    let clauses = ["where", "having", "limit", "offset", "distinct"];
    let present = clauses.iter().filter(|clause| query.get(**clause).is_some());
    let remove = |clause: &&str| {
        let mut query = query.clone();
        query.as_object_mut().map(|query| query.remove(*clause));
        query
    };
    present.map(remove).collect()
}

fn simpler_conditions(condition: &Value) -> Vec<Value> {
    let is_logic =
        condition["fn"].as_str().is_some_and(|name| ["and", "or", "not"].contains(&name));
    if !is_logic {
        return with_simpler_args(condition, simpler_values);
    }
    let mut found = condition["args"].as_array().cloned().unwrap_or_default();
    found.extend(with_simpler_args(condition, simpler_conditions));
    found
}

fn simpler_values(value: &Value) -> Vec<Value> {
    if value.get("fn").is_none() {
        return Vec::new();
    }
    let mut found = value["args"].as_array().cloned().unwrap_or_default();
    found.extend(with_simpler_args(value, simpler_values));
    found
}

fn with_simpler_args(call: &Value, simpler: fn(&Value) -> Vec<Value>) -> Vec<Value> {
    let mut found = Vec::new();
    for index in 0..items(call, "args") {
        let place = |argument| replaced(call, &format!("/args/{index}"), argument);
        found.extend(simpler(&call["args"][index]).into_iter().map(place));
    }
    found
}

fn items(json: &Value, list: &str) -> usize {
    json.get(list).and_then(Value::as_array).map_or(0, Vec::len)
}

/// `json` with another value in this place.
fn replaced(json: &Value, path: &str, value: Value) -> Value {
    let mut json = json.clone();
    *json.pointer_mut(path).unwrap_or(&mut json!(null)) = value;
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ir: &Value, expected: &[Value]) {
        assert_eq!(simpler(ir), expected);
    }

    #[test]
    fn conditions_lose_their_parts() {
        let [x, y] = ["x", "y"].map(|name| json!({ "ref": ["m", name] }));
        let upper = json!({ "fn": "upper", "args": [x] });
        let equal = json!({ "fn": "eq", "args": [upper, y] });
        let from = json!({ "col": "a", "as": "m" });
        let not = json!({ "fn": "not", "args": [equal] });
        let less = json!({ "fn": "eq", "args": [x, y] });
        check(
            &json!({ "from": from, "where": [not] }),
            &[
                json!({ "from": from, "where": [equal] }),
                json!({ "from": from, "where": [{ "fn": "not", "args": [less] }] }),
            ],
        );
    }

    #[test]
    fn nesting_is_undone() {
        let inner = json!({ "from": { "col": "a", "as": "m" }, "limit": 3 });
        let looser = json!({ "from": { "col": "a", "as": "m" } });
        check(
            &json!({ "from": { "query": inner, "as": "n" } }),
            &[
                json!({ "from": { "col": "a", "as": "n" } }),
                json!({ "from": { "query": looser, "as": "n" } }),
            ],
        );
    }
}
