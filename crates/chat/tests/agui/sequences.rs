//! Random events over few ids, so that rules are met and broken.

use serde_json::{Value, json};

use super::dice::Dice;

/// A random sequence of events.
pub(crate) fn sequence(seed: u64) -> Vec<Value> {
    let dice = &mut Dice::new(seed);
    let mut events = Vec::new();
    if !dice.chance(3) {
        events.push(json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}));
    }
    let tags = dice.chance(40);
    // What is open, so that most events fit.
    let mut open: Vec<Value> = Vec::new();
    for _ in 0..dice.below(14) {
        let mut event = if !open.is_empty() && dice.chance(55) {
            let at = dice.below(open.len());
            let end = open[at].clone();
            if dice.chance(60) {
                open.remove(at);
                end
            } else {
                middle(&end).unwrap_or(end)
            }
        } else {
            let event = any(dice);
            open.extend(end_of(&event));
            event
        };
        if tags && dice.chance(30) && event.get("subagentRunId").is_none() {
            event["subagentRunId"] = json!(dice.pick(&["s", "u"]));
        }
        events.push(event);
        if dice.chance(8) {
            events.append(&mut open);
            events.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
            if dice.chance(70) {
                events.push(json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r2"}));
            }
        }
    }
    if dice.chance(60) {
        events.append(&mut open);
        events.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
    }
    events
}

fn any(dice: &mut Dice) -> Value {
    let id = *dice.pick(&["a", "b", "c"]);
    match dice.below(26) {
        0..=3 => json!({"type": "TEXT_MESSAGE_START", "messageId": id}),
        4..=6 if dice.chance(50) => {
            json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "f"})
        }
        4..=6 => {
            json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "f",
                "parentMessageId": dice.pick(&["a", "b"])})
        }
        7 => json!({"type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": "c", "content": ""}),
        8 | 9 => json!({"type": "REASONING_START", "messageId": id}),
        10 | 11 => json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}),
        12 => {
            json!({"type": "REASONING_ENCRYPTED_VALUE", 
                "subtype": dice.pick(&["message", "tool-call"]), "entityId": id,
                "encryptedValue": ""})
        }
        13 | 14 => json!({"type": "STEP_STARTED", "stepName": id}),
        15 => {
            json!({"type": "SUBAGENT_STARTED", "name": "n",
                "subagentRunId": dice.pick(&["s", "u"])})
        }
        16 => {
            json!({"type": "SUBAGENT_STARTED", "subagentRunId": dice.pick(&["s", "u"]),
                "name": "n", "parentSubagentRunId": dice.pick(&["s", "u"])})
        }
        17 if dice.chance(50) => {
            json!({"type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": "x", "content": {},
                "replace": dice.chance(50)})
        }
        17 => json!({"type": "ACTIVITY_DELTA", "messageId": id, "activityType": "x", "patch": []}),
        18 => json!({"type": "MESSAGES_SNAPSHOT", "messages": [
            {"role": "assistant", "id": id, "subagentRunId": "s", "toolCalls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]},
            {"role": "reasoning", "id": "b", "content": ""}]}),
        19 => chunk(dice, json!({"type": "TEXT_MESSAGE_CHUNK", "delta": ""}), "messageId"),
        20 => chunk(dice, json!({"type": "REASONING_MESSAGE_CHUNK", "delta": ""}), "messageId"),
        21 => {
            let mut chunk =
                chunk(dice, json!({"type": "TOOL_CALL_CHUNK", "delta": ""}), "toolCallId");
            if dice.chance(70) {
                chunk["toolCallName"] = json!(dice.pick(&["f", "f", "f", "g"]));
            }
            chunk
        }
        22 => json!({"type": "CUSTOM", "name": "n", "value": 1}),
        23 => {
            json!({"type": dice.pick(&["RUN_STARTED", "RUN_FINISHED"]),
                "threadId": "t", "runId": "r"})
        }
        24 if dice.chance(30) => json!({"type": "RUN_ERROR", "message": "m"}),
        24 => json!({"type": "STATE_SNAPSHOT", "snapshot": null}),
        _ => {
            let start = any(dice);
            let end = end_of(&start);
            end.as_ref().and_then(middle).or(end).unwrap_or(start)
        }
    }
}

fn chunk(dice: &mut Dice, mut chunk: Value, id: &str) -> Value {
    if dice.chance(60) {
        chunk[id] = json!(dice.pick(&["a", "b", "c"]));
    }
    chunk
}

fn end_of(start: &Value) -> Option<Value> {
    let mut end = start.clone();
    let name = start["type"].as_str().unwrap();
    let fields: &[&str] = match name {
        "TEXT_MESSAGE_START" | "REASONING_START" | "REASONING_MESSAGE_START" => {
            &["type", "messageId"]
        }
        "TOOL_CALL_START" => &["type", "toolCallId"],
        "STEP_STARTED" => &["type", "stepName"],
        "SUBAGENT_STARTED" => &["type", "subagentRunId"],
        _ => return None,
    };
    end.as_object_mut().unwrap().retain(|name, _| fields.contains(&name.as_str()));
    end["type"] = json!(name.replace("STARTED", "FINISHED").replace("START", "END"));
    Some(end)
}

fn middle(end: &Value) -> Option<Value> {
    let mut middle = end.clone();
    middle["type"] = json!(match end["type"].as_str().unwrap() {
        "TEXT_MESSAGE_END" => "TEXT_MESSAGE_CONTENT",
        "TOOL_CALL_END" => "TOOL_CALL_ARGS",
        "REASONING_MESSAGE_END" => "REASONING_MESSAGE_CONTENT",
        _ => return None,
    });
    middle["delta"] = json!("");
    Some(middle)
}
