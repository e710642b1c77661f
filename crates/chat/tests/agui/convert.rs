//! Messages of other shapes: there and back, and what others write.

use chat::{
    CallEnd, Message, Part, Role, Transcript,
    agui::{self, Event, MessagesSnapshot},
    convert::{from_agui, to_agui},
    ui::{UiMessage, from_ui, to_ui},
};
use serde_json::{Value, json};

use super::{dice::Dice, talk::conversation};

#[test]
fn to_ag_ui_and_back_is_the_same() {
    for seed in 0..300 {
        let messages = conversation(&mut Dice::new(seed));
        let there = to_agui(&messages);
        let json = serde_json::to_string(&there).unwrap();
        let read: Vec<agui::Message> = serde_json::from_str(&json).unwrap();
        assert_eq!(read, there, "seed {seed}");
        assert_eq!(from_agui(&read), messages, "seed {seed}: {json}");
        let mut transcript = Transcript::new();
        transcript.push(&Event::from(MessagesSnapshot { messages: read })).unwrap();
        assert_eq!(transcript.into_messages(), messages, "seed {seed}");
    }
}

#[test]
fn to_a_front_end_and_back_is_the_same() {
    for seed in 0..300 {
        let messages = conversation(&mut Dice::new(seed));
        let json = serde_json::to_string(&to_ui(&messages)).unwrap();
        let read: Vec<UiMessage> = serde_json::from_str(&json).unwrap();
        assert_eq!(read, to_ui(&messages), "seed {seed}");
        assert_eq!(from_ui(&read), messages, "seed {seed}: {json}");
    }
}

fn agui(json: Value) -> Vec<Message> {
    let messages: Vec<agui::Message> = serde_json::from_value(json).unwrap();
    from_agui(&messages)
}

/// The messages, each as its id and what its parts are.
fn outline(messages: &[Message]) -> Vec<(String, String)> {
    let kind = |part: &Part| match part {
        Part::Text(_) => "text",
        Part::Thinking(_) => "thinking",
        Part::ToolCall(_) => "call",
        Part::ToolResult(_) => "result",
        _ => "media",
    };
    let parts = |message: &Message| message.parts.iter().map(kind).collect::<Vec<_>>().join(" ");
    messages.iter().map(|message| (message.id.to_string(), parts(message))).collect()
}

fn check(messages: &[Message], expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(id, parts)| ((*id).to_owned(), (*parts).to_owned())).collect();
    assert_eq!(outline(messages), expected);
}

#[test]
fn thoughts_of_others_belong_to_what_is_said_next() {
    let call = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]);
    let messages = agui(json!([
        {"role": "user", "id": "u", "content": "Hi"},
        {"role": "reasoning", "id": "r1", "content": "Hm", "encryptedValue": "e"},
        {"role": "reasoning", "id": "redacted_thinking-1", "content": ""},
        {"role": "assistant", "id": "a", "content": "", "toolCalls": call},
        {"role": "tool", "id": "t", "toolCallId": "c", "content": "", "error": "no weather"},
        {"role": "activity", "id": "x", "activityType": "PLAN", "content": {}},
        {"role": "reasoning", "id": "r2", "content": "Well", "subagentRunId": "s"},
        {"role": "assistant", "id": "b", "content": "So"},
        {"role": "reasoning", "id": "r3", "content": "Alone"},
    ]));
    let expected = [
        ("u", "text"),
        ("a", "thinking thinking call"),
        ("t", "result"),
        ("r2", "thinking"),
        ("b", "text"),
        ("r3", "thinking"),
    ];
    check(&messages, &expected);
    assert!(matches!(&messages[1].parts[1], Part::Thinking(thinking) if thinking.redacted));
    let result = messages[2].results().next().unwrap();
    assert_eq!(result.end, CallEnd::Failed);
    assert_eq!(result.content, agui::Content::Text("no weather".into()));
}

#[test]
fn a_message_of_a_front_end_is_as_many_turns_as_it_has() {
    let ui: Vec<UiMessage> = serde_json::from_value(json!([
        {"id": "u", "role": "user", "parts": [{"type": "text", "content": "Hi"}]},
        {"id": "a", "role": "assistant", "createdAt": "2026-01-01T00:00:00.000Z", "parts": [
            {"type": "thinking", "content": "Hm", "signature": "s"},
            {"type": "tool-call", "id": "c1", "name": "f", "arguments": "{}", "state": "complete"},
            {"type": "tool-call", "id": "c2", "name": "g", "arguments": "{}", "state": "complete",
                "metadata": {"thoughtSignature": "t"}},
            {"type": "tool-result", "toolCallId": "c1", "content": "1", "state": "complete"},
            {"type": "tool-result", "toolCallId": "c2", "content": "", "state": "error",
                "error": "2"},
            {"type": "text", "content": "So"},
            {"type": "tool-call", "id": "c3", "name": "h", "arguments": "", "state": "complete",
                "output": {"x": 1}},
            {"type": "tool-call", "id": "c4", "name": "h", "arguments": "", "state": "complete",
                "output": "y"},
            {"type": "ui-resource", "toolCallId": "c3"},
            {"type": "structured-output", "status": "complete", "raw": "{}"},
        ]},
    ]))
    .unwrap();
    let messages = from_ui(&ui);
    let expected = [
        ("u", "text"),
        ("a", "thinking call call"),
        ("a:3", "result"),
        ("a:4", "result"),
        ("a:5", "text call call"),
        ("tool-c3", "result"),
        ("tool-c4", "result"),
        ("a:9", "text"),
    ];
    check(&messages, &expected);
    let signatures: Vec<_> = messages[1].calls().map(|call| call.signature.as_deref()).collect();
    assert_eq!(signatures, [None, Some("t")]);
    assert_eq!(messages[3].results().next().unwrap().end, CallEnd::Failed);
    let unchanged = serde_json::to_value(&ui[1].parts[8]).unwrap();
    assert_eq!(unchanged, json!({"type": "ui-resource", "toolCallId": "c3"}));
}

#[test]
fn what_is_lost_on_the_way_is_what_the_documentation_says() {
    let mut message = Message::text("s", Role::System, "a");
    message.parts.push("b".to_owned().into());
    assert_eq!(from_agui(&to_agui([&message])), [Message::text("s", Role::System, "ab")]);
    let empty = Message::text("m", Role::Assistant, "");
    assert_eq!(from_agui(&to_agui([&empty])), [Message::new("m", Role::Assistant, vec![])]);
}
