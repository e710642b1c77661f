//! The order of events, as AG-UI's own client sees it.

use chat::{Verifier, agui::Event};
use serde_json::{Value, json};

use super::sequences::sequence;

/// What `transformChunks` and `verifyEvents` of `@ag-ui/client` 1.0.0 said to these sequences:
/// which event they refused, or none.
const VERDICTS: &str = include_str!("verdicts.jsonl");

fn read(event: &Value) -> Event {
    serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{event}: {error}"))
}

#[test]
fn our_verdicts_are_those_of_the_official_client() {
    for (line, verdict) in VERDICTS.lines().enumerate() {
        let verdict: Value = serde_json::from_str(verdict).unwrap();
        let mut verifier = Verifier::new();
        let events = verdict["events"].as_array().unwrap();
        let refused = events.iter().position(|event| verifier.push(&read(event)).is_err());
        assert_eq!(json!(refused), verdict["refused"], "line {}: {verdict}", line + 1);
    }
}

#[test]
fn a_refused_event_changes_nothing() {
    for seed in 0..300 {
        let mut verifier = Verifier::new();
        for event in sequence(seed) {
            let before = format!("{verifier:?}");
            if verifier.push(&read(&event)).is_err() {
                assert_eq!(format!("{verifier:?}"), before, "seed {seed}: {event}");
            }
        }
    }
}

/// After a run has begun and these events have passed, the last one is refused with these words.
fn refuse(events: &[Value], why: &str) {
    let mut verifier = Verifier::new();
    verifier.push(&read(&json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}))).unwrap();
    let (last, events) = events.split_last().unwrap();
    events.iter().for_each(|event| verifier.push(&read(event)).unwrap());
    assert_eq!(verifier.push(&read(last)).unwrap_err().to_string(), why);
}

#[test]
fn errors_name_the_rule_and_the_id() {
    let start = json!({"type": "TEXT_MESSAGE_START", "messageId": "m"});
    let call = |id: &str| json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "f"});
    let finished = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"});
    let agent = |event: &str| json!({"type": event, "subagentRunId": "s", "name": "n"});
    refuse(
        &[start.clone(), start.clone()],
        "TEXT_MESSAGE_START: the message \"m\" is open already; end it first",
    );
    refuse(
        &[json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": ""})],
        "TOOL_CALL_ARGS: the tool call \"c\" is not open; start it first",
    );
    refuse(
        &[call("c"), finished.clone()],
        "RUN_FINISHED: the tool call \"c\" is still open; end it first",
    );
    refuse(
        &[start, json!({"type": "TEXT_MESSAGE_END", "messageId": "m", "subagentRunId": "s"})],
        "TEXT_MESSAGE_END: the message \"m\" belongs to the agent itself, \
         not to the subagent \"s\"",
    );
    refuse(
        &[agent("SUBAGENT_STARTED"), agent("SUBAGENT_FINISHED"), agent("SUBAGENT_STARTED")],
        "SUBAGENT_STARTED: the subagent \"s\" has run already; \
         every run of a subagent has an id of its own",
    );
    refuse(&[finished, call("c")], "TOOL_CALL_START: the run is over; only RUN_STARTED may follow");
    refuse(
        &[json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "x"})],
        "TEXT_MESSAGE_CHUNK: it has no \"messageId\", \
         and there is nothing that it could continue",
    );
}

#[test]
fn a_stream_ends_with_its_run() {
    let mut verifier = Verifier::new();
    verifier.clone().finish().unwrap();
    verifier.push(&read(&json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}))).unwrap();
    let error = verifier.clone().finish().unwrap_err();
    let why = "the end of the stream: the run \"r\" is still open; end it first";
    assert_eq!(error.to_string(), why);
    verifier.push(&read(&json!({"type": "RUN_ERROR", "message": "m"}))).unwrap();
    verifier.finish().unwrap();
}

#[test]
fn thoughts_of_older_versions_are_thoughts() {
    let mut verifier = Verifier::new();
    let events = [
        json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}),
        json!({"type": "THINKING_START", "title": "Hm"}),
        json!({"type": "THINKING_TEXT_MESSAGE_START"}),
        json!({"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "so"}),
    ];
    events.iter().for_each(|event| verifier.push(&read(event)).unwrap());
    let finished = read(&json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
    verifier.push(&finished).unwrap_err();
    for name in ["THINKING_TEXT_MESSAGE_END", "THINKING_END"] {
        verifier.push(&read(&json!({"type": name}))).unwrap();
    }
    verifier.push(&finished).unwrap();
}
