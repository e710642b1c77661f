//! The conversation in a request: whether the provider would take it, and whose turn it is.

use serde_json::Value;

use crate::{Scenario, Wire, refusal::Refusal};

/// Whether the conversation ends with answers to calls, so that the model goes on from them.
///
/// # Errors
/// If a call has no answer, or an answer no call, where the provider minds.
pub(crate) fn is_answered(wire: Wire, body: &Value) -> Result<bool, Refusal> {
    let turns = list(
        &body[match wire {
            Wire::Responses => "input",
            Wire::Gemini => "contents",
            Wire::Chat | Wire::Anthropic | Wire::Ollama => "messages",
        }],
    );
    // Calls of one answer are items of their own on the first; the second looks at none of this.
    let minds_order = !matches!(wire, Wire::Responses | Wire::Ollama);
    let mut open: Vec<&str> = Vec::new();
    let mut ends_with_answer = false;
    for turn in turns {
        let answers = answers(wire, turn);
        ends_with_answer = !answers.is_empty();
        for id in answers {
            let found = open.iter().position(|call| *call == id);
            open.swap_remove(found.ok_or_else(|| bad(id, "answers no call"))?);
        }
        if let Some(id) = open.first().filter(|_| minds_order && !ends_with_answer) {
            return Err(bad(id, "has no answer right after it"));
        }
        open.extend(calls(wire, turn));
    }
    match open.first() {
        Some(id) => Err(bad(id, "has no answer")),
        None => Ok(ends_with_answer),
    }
}

/// Whether thoughts came back as they must: sealed as they were.
pub(crate) fn check_seals(scenario: Scenario, wire: Wire, body: &Value) -> Result<(), Refusal> {
    let seals: &[&str] = match (scenario, wire) {
        (Scenario::InterleavedThinking, Wire::Responses | Wire::Anthropic) => {
            &["Zmlyc3Q=", "c2Vjb25k"]
        }
        // Only the seal of a call is missed.
        (Scenario::InterleavedThinking, Wire::Gemini) => &["c2Vjb25k"],
        _ => &[],
    };
    let body = body.to_string();
    match seals.iter().find(|seal| !body.contains(**seal)) {
        Some(seal) => Err(bad(seal, "is missing: thoughts before a call must come back")),
        None => Ok(()),
    }
}

fn bad(what: &str, why: &str) -> Refusal {
    Refusal::BadRequest(format!("{what} {why}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The ids of the calls of a turn; the names where the wire has no ids.
fn calls(wire: Wire, turn: &Value) -> Vec<&str> {
    match wire {
        Wire::Chat => list(&turn["tool_calls"]).iter().map(|call| text(call, "id")).collect(),
        Wire::Responses if turn["type"] == "function_call" => vec![text(turn, "call_id")],
        Wire::Responses => Vec::new(),
        Wire::Anthropic => typed(turn, "tool_use").map(|call| text(call, "id")).collect(),
        Wire::Gemini => named(turn, "functionCall"),
        Wire::Ollama => {
            list(&turn["tool_calls"]).iter().map(|call| text(&call["function"], "name")).collect()
        }
    }
}

/// The same of the calls that a turn answers.
fn answers(wire: Wire, turn: &Value) -> Vec<&str> {
    match wire {
        Wire::Chat if turn["role"] == "tool" => vec![text(turn, "tool_call_id")],
        Wire::Responses if turn["type"] == "function_call_output" => vec![text(turn, "call_id")],
        Wire::Anthropic => {
            typed(turn, "tool_result").map(|answer| text(answer, "tool_use_id")).collect()
        }
        Wire::Gemini => named(turn, "functionResponse"),
        Wire::Ollama if turn["role"] == "tool" => vec![text(turn, "tool_name")],
        Wire::Chat | Wire::Responses | Wire::Ollama => Vec::new(),
    }
}

fn typed<'a>(turn: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    list(&turn["content"]).iter().filter(move |block| block["type"] == kind)
}

fn named<'a>(turn: &'a Value, kind: &str) -> Vec<&'a str> {
    let parts = list(&turn["parts"]).iter().filter(|part| !part[kind].is_null());
    parts.map(|part| text(&part[kind], "name")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(wire: Wire, field: &str, turns: &Value, expect: Result<bool, &str>) {
        let told = is_answered(wire, &json!({field: turns}));
        let told = told.map_err(|refusal| match refusal {
            Refusal::BadRequest(why) => why,
            refusal => format!("{refusal:?}"),
        });
        assert_eq!(told, expect.map_err(str::to_owned));
    }

    #[test]
    fn every_call_wants_its_answer() {
        let call = json!({"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]});
        let answer = |id| json!({"role": "tool", "tool_call_id": id});
        let user = json!({"role": "user", "content": "?"});
        let chat = |turns: &Value, expect| check(Wire::Chat, "messages", turns, expect);
        chat(&json!([user]), Ok(false));
        chat(&json!([user, call, answer("b"), answer("a")]), Ok(true));
        chat(&json!([user, call, answer("a")]), Err("b has no answer"));
        chat(&json!([user, call, answer("a"), user]), Err("b has no answer right after it"));
        chat(&json!([user, answer("a")]), Err("a answers no call"));
    }

    #[test]
    fn blocks_and_parts_are_looked_into() {
        let uses = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]});
        let result =
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]});
        check(Wire::Anthropic, "messages", &json!([uses, result]), Ok(true));
        check(Wire::Anthropic, "messages", &json!([uses]), Err("a has no answer"));
        let call = json!({"role": "model", "parts": [{"functionCall": {"name": "now"}}]});
        let response = json!({"role": "user", "parts": [{"functionResponse": {"name": "now"}}]});
        check(Wire::Gemini, "contents", &json!([call, response]), Ok(true));
        check(Wire::Gemini, "contents", &json!([response]), Err("now answers no call"));
        let call = json!({"type": "function_call", "call_id": "a"});
        let output = json!({"type": "function_call_output", "call_id": "a"});
        check(Wire::Responses, "input", &json!([call, output]), Ok(true));
        check(Wire::Responses, "input", &json!("?"), Ok(false));
    }

    #[test]
    fn thoughts_before_a_call_must_come_back() {
        let check = |wire, body| check_seals(Scenario::InterleavedThinking, wire, &body).is_ok();
        assert!(check(Wire::Anthropic, json!(["Zmlyc3Q=", "c2Vjb25k"])));
        assert!(!check(Wire::Anthropic, json!(["Zmlyc3Q="])));
        assert!(check(Wire::Gemini, json!(["c2Vjb25k"])));
        assert!(!check(Wire::Gemini, json!([])));
        assert!(check(Wire::Ollama, json!([])));
    }
}
