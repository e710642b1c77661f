//! Events become the messages that they tell of.

use chat::{
    CallEnd, Message, Part, Role, Transcript, Verifier,
    agui::{Event, RunStarted},
};
use serde_json::{Value, json};

use super::{
    dice::Dice,
    sequences::sequence,
    talk::{conversation, tell},
};

fn read(event: &Value) -> Event {
    serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{event}: {error}"))
}

/// The messages that these events tell of.
fn fold(events: &[Value]) -> Vec<Message> {
    let mut transcript = Transcript::new();
    events.iter().for_each(|event| transcript.push(&read(event)).unwrap());
    transcript.into_messages()
}

/// Puts two lists into one and keeps the order of each.
fn weave(dice: &mut Dice, left: Vec<Event>, right: Vec<Event>) -> Vec<Event> {
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    let mut out = Vec::new();
    while left.peek().is_some() || right.peek().is_some() {
        let first = left.peek().is_some() && (right.peek().is_none() || dice.chance(50));
        out.extend(if first { left.next() } else { right.next() });
    }
    out
}

/// The events of a conversation, with the answers of a turn in any order.
fn events(dice: &mut Dice, messages: &[Message]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut at = 0;
    while at < messages.len() {
        events.extend(tell(dice, &messages[at]));
        at += 1;
        let answers = messages[at..].iter().take_while(|message| message.role == Role::Tool);
        let mut answers: Vec<_> = answers.flat_map(|message| tell(dice, message)).collect();
        at += answers.len();
        while !answers.is_empty() {
            events.push(answers.swap_remove(dice.below(answers.len())));
        }
    }
    events
}

/// Only what can be told by streaming: texts of people, and all that models say.
fn streamed(dice: &mut Dice) -> Vec<Message> {
    let mut messages = conversation(dice);
    messages.retain(|message| !message.parts.is_empty());
    for message in messages.iter_mut().filter(|message| message.role != Role::Assistant) {
        if message.role != Role::Tool {
            message.parts = vec![format!("{}!", message.text_content()).into()];
        }
    }
    messages
}

#[test]
fn what_is_told_is_what_was_said() {
    for seed in 0..300 {
        let dice = &mut Dice::new(seed);
        let messages = streamed(dice);
        let (mut transcript, mut verifier) = (Transcript::new(), Verifier::new());
        let started = RunStarted {
            thread_id: "t".into(),
            run_id: "r".into(),
            protocol_version: None,
            parent_run_id: None,
            input: None,
        };
        verifier.push(&started.into()).unwrap();
        for event in events(dice, &messages) {
            verifier.push(&event).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            transcript.push(&event).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        assert_eq!(transcript.messages().cloned().collect::<Vec<_>>(), messages, "seed {seed}");
        assert_eq!(transcript.into_messages(), messages, "seed {seed}");
    }
}

#[test]
fn what_is_told_at_the_same_time_does_not_mix() {
    for seed in 0..100 {
        let dice = &mut Dice::new(seed);
        let text = |dice: &mut Dice| format!("{}.", dice.text());
        let one = Message::text("one", Role::User, text(dice));
        let two = Message::text("two", Role::Assistant, text(dice));
        let (left, right) = (tell(dice, &one), tell(dice, &two));
        let mut transcript = Transcript::new();
        for event in weave(dice, left, right) {
            transcript.push(&event).unwrap();
        }
        let messages = transcript.into_messages();
        assert_eq!(messages.len(), 2, "seed {seed}");
        assert!(messages.contains(&one) && messages.contains(&two), "seed {seed}");
    }
}

#[test]
fn a_refused_event_changes_nothing() {
    for seed in 0..300 {
        let mut transcript = Transcript::new();
        for event in sequence(seed) {
            let before = format!("{:?}", transcript.messages().collect::<Vec<_>>());
            if transcript.push(&read(&event)).is_err() {
                let after = format!("{:?}", transcript.messages().collect::<Vec<_>>());
                assert_eq!(after, before, "seed {seed}: {event}");
            }
        }
    }
}

#[test]
fn what_was_said_before_can_be_answered_and_continued() {
    for seed in 0..100 {
        let dice = &mut Dice::new(seed);
        let messages = streamed(dice);
        let cut = dice.below(messages.len() + 1);
        let before = messages[..cut].to_vec();
        let mut transcript = Transcript::with(before).unwrap();
        for message in &messages[cut..] {
            for event in tell(dice, message) {
                transcript.push(&event).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        }
        assert_eq!(transcript.into_messages(), messages, "seed {seed}");
    }
}

#[test]
fn chunks_tell_the_same_as_what_they_stand_for() {
    let chunks = fold(&[
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "u", "role": "user", "delta": "Hi"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "!"}),
        json!({"type": "REASONING_MESSAGE_CHUNK", "messageId": "r", "delta": "Hm"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "So"}),
        json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "f",
            "parentMessageId": "m", "delta": "{"}),
        json!({"type": "TOOL_CALL_CHUNK", "delta": "}"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": "1"}),
    ]);
    let said = json!([
        {"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hi!"}]},
        {"id": "m", "role": "assistant", "parts": [
            {"type": "thinking", "text": "Hm"}, {"type": "text", "text": "So"},
            {"type": "tool-call", "id": "c", "name": "f", "arguments": "{}"}]},
        {"id": "t", "role": "tool", "parts": [
            {"type": "tool-result", "callId": "c", "content": "1"}]},
    ]);
    assert_eq!(serde_json::to_value(&chunks).unwrap(), said);
}

#[test]
fn events_of_others_are_read_as_their_own_client_reads_them() {
    let messages = fold(&[
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "f"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c2", "toolCallName": "f",
            "parentMessageId": "new"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c2"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "new"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "new", "delta": "a",
            "metadata": {"kept": 1, "tanstack": {"model": "x"}}}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "new"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "new"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "new", "delta": "b"}),
        json!({"type": "TEXT_MESSAGE_START", "messageId": "empty"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "empty"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "t2", "toolCallId": "c2", "content": "",
            "metadata": {"tanstack": {"state": "output-error"}}}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "t1", "toolCallId": "c1", "content": "",
            "metadata": {"tanstack": {"toolResultOutcome": "denied"}}}),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "x", "activityType": "P", "content": {}}),
        json!({"type": "STATE_SNAPSHOT", "snapshot": null}),
    ]);
    let ids: Vec<_> = messages.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, ["c1", "t1", "new", "t2", "empty"]);
    assert_eq!(messages[1].results().next().unwrap().end, CallEnd::Denied);
    assert_eq!(messages[2].text_content(), "ab");
    assert_eq!(messages[2].metadata.get("kept"), Some(&json!(1)));
    assert_eq!(messages[2].metadata.len(), 1);
    assert_eq!(messages[3].results().next().unwrap().end, CallEnd::Failed);
    assert!(messages[4].parts.is_empty());
}

#[test]
fn a_run_that_repeats_its_input_adds_only_what_is_new() {
    let input = json!({"threadId": "t", "runId": "r", "messages": [
        {"role": "user", "id": "u", "content": "Hi"},
        {"role": "assistant", "id": "a", "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"role": "tool", "id": "t", "toolCallId": "c", "content": "1"},
        {"role": "user", "id": "v", "content": "And?"}], "tools": [], "context": []});
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": input});
    let messages = fold(&[started.clone(), started]);
    let ids: Vec<_> = messages.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, ["u", "a", "t", "v"]);
}

#[test]
fn thoughts_of_older_versions_are_thoughts() {
    let messages = fold(&[
        json!({"type": "THINKING_START"}),
        json!({"type": "THINKING_TEXT_MESSAGE_START"}),
        json!({"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "Hm"}),
        json!({"type": "THINKING_TEXT_MESSAGE_END"}),
        json!({"type": "THINKING_END"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "So"}),
    ]);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].id, "m");
    assert!(matches!(&messages[0].parts[..], [Part::Thinking(_), Part::Text(_)]));
}

fn result(content: &str) -> Value {
    json!({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": content})
}

#[test]
fn errors_say_what_is_missing() {
    let refuse = |before: &[Value], event: Value, why: &str| {
        let mut transcript = Transcript::new();
        before.iter().for_each(|event| transcript.push(&read(event)).unwrap());
        assert_eq!(transcript.push(&read(&event)).unwrap_err().to_string(), why);
    };
    refuse(
        &[],
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"}),
        "TEXT_MESSAGE_CONTENT: there is no text message \"m\"; start it first",
    );
    refuse(
        &[],
        json!({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": ""}),
        "TOOL_CALL_RESULT: there is no call \"c\"; start it first",
    );
    let call = json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"});
    refuse(
        &[call, result("1"), result("1")],
        result("2"),
        "TOOL_CALL_RESULT: the call \"c\" has another answer already",
    );
    refuse(
        &[json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"})],
        json!({"type": "TEXT_MESSAGE_START", "messageId": "c", "role": "user"}),
        "TEXT_MESSAGE_START: the message \"c\" is by Assistant; give the new one an id of its own",
    );
}
