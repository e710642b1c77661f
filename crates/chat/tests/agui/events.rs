//! Every event, message and input: read, written, and what is wrong with it.

use chat::agui::{Capabilities, Content, ContentPart, Event, EventKind, Message, RunInput, Source};
use serde_json::{Value, json};

use super::dice::Dice;

/// Every event with all of its fields, one in a line; those in parentheses may be left out.
const TABLE: &str = r#"
RUN_STARTED threadId runId (protocolVersion) (parentRunId) (input)
RUN_FINISHED threadId runId (result) (outcome) (usage)
RUN_ERROR message (code) (usage)
STEP_STARTED stepName
STEP_FINISHED stepName
TEXT_MESSAGE_START messageId (role) (name)
TEXT_MESSAGE_CONTENT messageId delta
TEXT_MESSAGE_END messageId
TEXT_MESSAGE_CHUNK (messageId) (role) (delta) (name)
TOOL_CALL_START toolCallId toolCallName (parentMessageId)
TOOL_CALL_ARGS toolCallId delta
TOOL_CALL_END toolCallId
TOOL_CALL_CHUNK (toolCallId) (toolCallName) (parentMessageId) (delta)
TOOL_CALL_RESULT messageId toolCallId content (role)
STATE_SNAPSHOT snapshot
STATE_DELTA delta
MESSAGES_SNAPSHOT messages
ACTIVITY_SNAPSHOT messageId activityType content (replace)
ACTIVITY_DELTA messageId activityType patch
REASONING_START messageId
REASONING_MESSAGE_START messageId role
REASONING_MESSAGE_CONTENT messageId delta
REASONING_MESSAGE_END messageId
REASONING_MESSAGE_CHUNK (messageId) (delta)
REASONING_END messageId
REASONING_ENCRYPTED_VALUE subtype entityId encryptedValue
SUBAGENT_STARTED subagentRunId name (description) (parentSubagentRunId) (parentToolCallId)
SUBAGENT_FINISHED subagentRunId (result) (outcome)
SUBAGENT_ERROR subagentRunId message (code)
RAW event (source)
CUSTOM name value
"#;

/// The events of the table, and which fields may be left out.
fn table() -> Vec<(Value, Vec<String>)> {
    let read_row = |row: &str| {
        let (name, fields) = row.split_once(' ').unwrap();
        let mut event = json!({"type": name});
        let mut optional = Vec::new();
        for field in fields.split(' ') {
            let bare = field.trim_matches(['(', ')']);
            event[bare] = sample(name, bare);
            optional.extend((bare != field).then(|| bare.to_owned()));
        }
        (event, optional)
    };
    TABLE.trim().lines().map(read_row).collect()
}

/// What a field of an event may say.
fn sample(event: &str, field: &str) -> Value {
    match (event, field) {
        (_, "input") => input(),
        (_, "messages") => messages(),
        (_, "usage") => json!([{"provider": "p", "model": "m", "inputTokens": 1,
            "outputTokens": 2, "totalTokens": 3, "reasoningTokens": 4, "cachedInputTokens": 5,
            "cacheWriteInputTokens": 6, "more": 1}]),
        ("RUN_FINISHED", "outcome") => json!({"type": "interrupt", "interrupts": [
            {"id": "i", "reason": "tool_call", "message": "May I?", "toolCallId": "c",
                "responseSchema": {"type": "object"}, "expiresAt": "2026-01-01T00:00:00Z",
                "metadata": {"k": null}, "subagentRunId": "s", "more": 1}]}),
        ("SUBAGENT_FINISHED", "outcome") => json!({"type": "suspended", "interruptIds": ["i"]}),
        ("TOOL_CALL_RESULT", "content") => parts(),
        ("ACTIVITY_SNAPSHOT", "content") => json!({"a": null}),
        ("STATE_DELTA", "delta") => json!([{"op": "remove", "path": "/a"}]),
        ("TOOL_CALL_RESULT", "role") => json!("tool"),
        ("REASONING_MESSAGE_START", "role") => json!("reasoning"),
        (_, "role") => json!("user"),
        (_, "subtype") => json!("tool-call"),
        (_, "patch") => json!([]),
        (_, "replace") => json!(false),
        (_, "result") => json!([1]),
        (_, "snapshot" | "event" | "value") => Value::Null,
        (_, other) => json!(other),
    }
}

/// Fields that any event may have.
const COMMON: [(&str, &str); 4] = [
    ("timestamp", "1760000000000"),
    ("rawEvent", r#"{"id":null}"#),
    ("metadata", r#"{"headwater":{"end":"failed"},"n":null}"#),
    ("subagentRunId", "\"s\""),
];

fn parts() -> Value {
    json!([
        {"type": "text", "text": "t", "id": "1", "metadata": {"title": "x"}, "more": 1},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "audio", "source": {"type": "url", "value": "u"}, "metadata": 1},
        {"type": "video", "source": {"type": "url", "value": "u", "mimeType": "video/mp4"}},
        {"type": "document", "id": "2", "more": [], "source":
            {"type": "file", "value": "f", "provider": "openai", "mimeType": "application/pdf"}},
    ])
}

fn messages() -> Value {
    json!([
        {"role": "developer", "id": "1", "content": "c", "name": "n"},
        {"role": "system", "id": "2", "content": "c", "encryptedValue": "e", "metadata": {}},
        {"role": "assistant", "id": "3", "content": "c", "subagentRunId": "s", "toolCalls": [
            {"id": "c", "type": "function", "encryptedValue": "e", "metadata": {"a": 1}, "more": 2,
                "function": {"name": "f", "arguments": "{}", "more": 3}}]},
        {"role": "assistant", "id": "4"},
        {"role": "user", "id": "5", "content": parts(), "more": {"x": null}},
        {"role": "user", "id": "6", "content": "c"},
        {"role": "tool", "id": "7", "toolCallId": "c", "content": "c", "error": "e"},
        {"role": "activity", "id": "8", "activityType": "a", "content": {"x": null}},
        {"role": "reasoning", "id": "9", "content": "c", "encryptedValue": "e"},
    ])
}

fn input() -> Value {
    json!({"threadId": "t", "runId": "r", "protocolVersion": "1.0", "parentRunId": "p",
        "state": {"a": null}, "messages": messages(),
        "tools": [{"name": "n", "description": "d", "parameters": {"type": "object"},
            "metadata": {"x": 1}, "more": 1}],
        "context": [{"description": "d", "value": "v", "more": 1}],
        "forwardedProps": {"x": 1},
        "resume": [{"interruptId": "i", "status": "resolved", "payload": {"approved": true},
            "metadata": {"x": 1}, "more": 1}],
        "data": {"of": "TanStack"}})
}

fn read(json: &Value) -> Result<Event, serde_json::Error> {
    serde_json::from_str(&json.to_string())
}

/// Read and written again, it is what it was.
fn check(json: &Value) {
    let event = read(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    assert!(!matches!(event.kind, EventKind::Unknown(_)), "{json} is known");
    assert_eq!(event.name(), json["type"]);
    assert_eq!(serde_json::to_value(&event).unwrap(), *json);
}

#[test]
fn every_event_is_read_and_written_unchanged() {
    let kinds: std::collections::BTreeSet<_> =
        table().iter().map(|(json, _)| json["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds.len(), 31, "AG-UI 1.0 has 31 events");
    for outcome in [
        json!({"type": "success"}),
        json!({"type": "success", "pendingToolCallIds": ["c"]}),
        json!({"type": "cancelled"}),
    ] {
        check(&json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome}));
    }
    for (mut json, optional) in table() {
        check(&json);
        for (name, value) in COMMON {
            json[name] = serde_json::from_str(value).unwrap();
        }
        json["unheardOf"] = json!({"deep": [null]});
        check(&json);
        for name in optional {
            json.as_object_mut().unwrap().remove(&name);
        }
        check(&json);
    }
}

#[test]
fn null_is_absent_but_where_it_says_something() {
    for (mut json, optional) in table() {
        let mut without = json.clone();
        for name in optional {
            json[name.as_str()] = Value::Null;
            without.as_object_mut().unwrap().remove(&name);
        }
        json["rawEvent"] = Value::Null;
        json["metadata"] = Value::Null;
        json["timestamp"] = Value::Null;
        assert_eq!(serde_json::to_value(read(&json).unwrap()).unwrap(), without);
    }
    let input = json!({"threadId": "t", "runId": "r", "messages": null, "tools": null,
        "context": null, "state": null, "forwardedProps": null, "resume": null});
    let input: RunInput = serde_json::from_value(input).unwrap();
    let bare = json!({"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": []});
    assert_eq!(serde_json::to_value(&input).unwrap(), bare);
    let said = json!({"role": "assistant", "id": "a", "content": null, "toolCalls": null});
    let said: Message = serde_json::from_value(said).unwrap();
    assert_eq!(serde_json::to_value(&said).unwrap(), json!({"role": "assistant", "id": "a"}));
}

#[test]
fn an_event_without_a_field_it_needs_is_refused_by_name() {
    for (json, optional) in table() {
        let fields = json.as_object().unwrap();
        for name in fields.keys().filter(|name| *name != "type" && !optional.contains(name)) {
            if name == "role" {
                continue; // the thoughts of older versions
            }
            let mut broken = fields.clone();
            broken.remove(name);
            let error = read(&Value::Object(broken)).unwrap_err().to_string();
            let event = json["type"].as_str().unwrap();
            assert_eq!(error, format!("{event}: it has no {name:?}"));
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let refuse = |json: Value, why: &str| {
        let error = read(&json).unwrap_err().to_string();
        assert!(error.contains(why), "{error:?} should say {why:?}");
    };
    refuse(json!({"messageId": "m"}), "it has no type, so it is no AG-UI event");
    refuse(
        json!({"type": "TEXT_MESSAGE_END", "messageId": 1}),
        "TEXT_MESSAGE_END: its field \"messageId\": invalid type: integer",
    );
    refuse(
        json!({"type": "TEXT_MESSAGE_END", "messageId": null}),
        "its field \"messageId\": invalid type: null",
    );
    refuse(
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "tool"}),
        "TEXT_MESSAGE_START: its field \"role\": unknown variant `tool`",
    );
    refuse(
        json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": 1}),
        "its field \"content\": invalid type: integer `1`, expected a text or a list of parts",
    );
    refuse(
        json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "",
            "role": "user"}),
        "its field \"role\" is not \"tool\"",
    );
    refuse(json!({"type": "STATE_DELTA", "delta": {}}), "its field \"delta\" is no list");
    refuse(
        json!({"type": "ACTIVITY_DELTA", "messageId": "m", "activityType": "a", "patch": 1}),
        "its field \"patch\" is no list",
    );
    refuse(
        json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r",
            "outcome": {"type": "interrupt", "interrupts": []}}),
        "its field \"outcome\" is an interrupt without interrupts",
    );
    refuse(
        json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r",
            "outcome": {"type": "unheard-of"}}),
        "RUN_FINISHED: its field \"outcome\": unknown variant",
    );
    refuse(
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"role": "nobody", "id": "1"}]}),
        "MESSAGES_SNAPSHOT: its field \"messages\": unknown variant `nobody`",
    );
    refuse(
        json!({"type": "SUBAGENT_ERROR", "message": "m"}),
        "SUBAGENT_ERROR: it has no \"subagentRunId\"",
    );
    refuse(
        json!({"type": "CUSTOM", "name": "n", "value": 1, "metadata": []}),
        "CUSTOM: its field \"metadata\"",
    );
    let input = serde_json::from_value::<RunInput>(json!({"threadId": "t"})).unwrap_err();
    assert_eq!(input.to_string(), "missing field `runId`");
}

#[test]
fn events_that_nobody_knows_pass_through() {
    let json = json!({"type": "FUTURE_THING", "a": null, "b": {"c": [1.5, null]}, "timestamp": 1});
    let event = read(&json).unwrap();
    assert_eq!(event.kind, EventKind::Unknown("FUTURE_THING".into()));
    assert_eq!(serde_json::to_value(&event).unwrap(), json);
}

#[test]
fn versions_before_1_0_are_understood() {
    let json = json!({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "assistant"});
    let EventKind::ReasoningMessageStart(start) = read(&json).unwrap().kind else { panic!() };
    assert_eq!(start.role, "reasoning");
    let parts = json!([
        {"type": "binary", "mimeType": "image/png", "data": "aGk=", "filename": "a.png"},
        {"type": "binary", "mimeType": "audio/mp3", "url": "u", "data": null},
        {"type": "binary", "mimeType": "application/pdf", "id": "f", "kept": 1},
    ]);
    let Content::Parts(parts) = serde_json::from_value(parts).unwrap() else { panic!() };
    assert!(matches!(&parts[0], ContentPart::Image(it) if
        it.source == Source::Data { value: "aGk=".into(), mime_type: "image/png".into() }
        && it.metadata == Some(json!({"filename": "a.png"}))));
    assert!(matches!(&parts[1], ContentPart::Audio(it) if
        it.source == Source::Url { value: "u".into(), mime_type: Some("audio/mp3".into()) }));
    assert!(matches!(&parts[2], ContentPart::Document(it) if
        matches!(&it.source, Source::File { value, .. } if value == "f")
        && it.others["kept"] == 1));
}

#[test]
fn capabilities_keep_what_they_do_not_know() {
    let json = json!({
        "identity": {"name": "n", "type": "t", "description": "d", "version": "v", "provider": "p",
            "documentationUrl": "u", "metadata": {"x": null}, "more": 1},
        "transport": {"streaming": true, "websocket": false, "httpBinary": false,
            "pushNotifications": false, "resumable": true},
        "tools": {"supported": true, "items": [{"name": "n", "description": "d"}],
            "parallelCalls": true, "clientProvided": true},
        "output": {"structuredOutput": true, "supportedMimeTypes": ["text/plain"]},
        "state": {"snapshots": true, "deltas": false, "memory": false, "persistentState": true},
        "multiAgent": {"supported": true, "delegation": true, "handoffs": false,
            "subagents": [{"name": "n", "description": "d", "more": 1}]},
        "reasoning": {"supported": true, "streaming": true, "encrypted": true},
        "multimodal": {"input": {"image": true, "audio": false, "video": false, "pdf": true,
            "file": false}, "output": {"image": false, "audio": false}},
        "execution": {"codeExecution": false, "sandboxed": false, "maxIterations": 5,
            "maxExecutionTime": 1000},
        "humanInTheLoop": {"supported": true, "approvals": true, "interventions": false,
            "feedback": false, "interrupts": true, "approveWithEdits": true},
        "custom": {"x": null}, "unheardOf": {"y": 1}});
    let capabilities: Capabilities = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(capabilities.others.len(), 1, "all but one category are known");
    assert_eq!(serde_json::to_value(&capabilities).unwrap(), json);
    let empty: Capabilities = serde_json::from_value(json!({"tools": null})).unwrap();
    assert_eq!(serde_json::to_value(&empty).unwrap(), json!({}));
}

/// Fields of any event set to anything: what is read is written so that it reads the same.
#[test]
fn whatever_is_read_is_written_to_be_read_again() {
    for seed in 0..400 {
        let dice = &mut Dice::new(seed);
        let table = table();
        let (mut json, _) = dice.pick(&table).clone();
        let names: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        for _ in 0..dice.below(3) {
            json[dice.pick(&names).as_str()] = dice.value(2);
        }
        json.as_object_mut().unwrap().extend(dice.map(2));
        let Ok(event) = read(&json) else { continue };
        let written = serde_json::to_string(&event).unwrap();
        let again: Event = serde_json::from_str(&written).unwrap();
        assert_eq!(again, event, "seed {seed}: {json}");
        assert_eq!(serde_json::to_string(&again).unwrap(), written, "seed {seed}");
    }
}

#[test]
fn an_event_is_no_larger_than_it_must_be() {
    assert!(size_of::<Event>() <= 352, "{}", size_of::<Event>());
}
