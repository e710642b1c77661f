//! Random conversations, and the events that tell of them.

use chat::{
    CallEnd, Id, Message, Part, Role, Text, Thinking, ToolCall, ToolResult,
    agui::{
        Content, ContentPart, Event, Media, ReasoningEncryptedValue, ReasoningEnd,
        ReasoningMessageContent, ReasoningMessageEnd, ReasoningMessageStart, ReasoningStart,
        SecretOf, Source, TextMessageContent, TextMessageEnd, TextMessageStart, TextPart, TextRole,
        ToolCallArgs, ToolCallEnd, ToolCallResult, ToolCallStart, ours,
    },
};
use serde_json::json;

use super::dice::Dice;

/// A conversation in which every call is answered right after its message, in order.
pub(crate) fn conversation(dice: &mut Dice) -> Vec<Message> {
    let mut messages = Vec::new();
    for turn in 0..=dice.below(4) {
        let id = |what: &str| Id::from(format!("{what}{turn}"));
        match dice.below(4) {
            0 => messages.push(text(dice, id("system"), Role::System)),
            1 => messages.push(text(dice, id("developer"), Role::Developer)),
            2 => {
                let parts = (0..dice.below(4)).map(|_| said(dice)).collect();
                messages.push(Message::new(id("user"), Role::User, parts));
            }
            _ => {}
        }
        let message = answer(dice, id("m"));
        let calls: Vec<_> = message.calls().cloned().collect();
        messages.push(message);
        messages.extend(calls.iter().map(|call| result(dice, call)));
    }
    messages
}

fn text(dice: &mut Dice, id: Id, role: Role) -> Message {
    let mut message = Message::text(id, role, dice.text());
    if dice.chance(30) {
        message.name = Some("Ada".into());
        message.metadata.insert("kept".into(), dice.value(1));
    }
    message
}

fn said(dice: &mut Dice) -> Part {
    match dice.below(4) {
        0 => Part::Image(media(dice)),
        1 => Part::Document(media(dice)),
        _ => dice.text().into(),
    }
}

fn media(dice: &mut Dice) -> Media {
    let source = match dice.below(2) {
        0 => Source::Data { value: "aGk=".into(), mime_type: "image/png".into() },
        _ => Source::File { value: "f".into(), provider: None, mime_type: None },
    };
    let metadata = dice.chance(30).then(|| json!({"detail": "low"}));
    Media { metadata, ..Media::from(source) }
}

/// What a model said. Its texts say something, and so do its thoughts, or are signed.
fn answer(dice: &mut Dice, id: Id) -> Message {
    let mut parts = Vec::new();
    for block in 0..dice.below(6) {
        let signature = dice.chance(30).then(|| "sig".to_owned());
        let text = format!("{}.", dice.text());
        parts.push(match dice.below(4) {
            0 => Part::Text(Text { text, signature }),
            1 if dice.chance(20) => Part::Thinking(Thinking {
                text: String::new(),
                signature: Some("hidden".into()),
                redacted: true,
            }),
            1 => Part::Thinking(Thinking { text, signature, redacted: false }),
            _ => Part::ToolCall(ToolCall {
                id: Id::from(format!("{id}-call{block}")),
                name: "weather".into(),
                arguments: dice.text(),
                signature,
                provider_result: dice.chance(20).then(|| dice.value(1)),
            }),
        });
    }
    Message::new(id, Role::Assistant, parts)
}

fn result(dice: &mut Dice, call: &ToolCall) -> Message {
    let content = match dice.below(3) {
        0 => Content::Parts(vec![
            ContentPart::Text(TextPart { text: dice.text(), ..TextPart::default() }),
            ContentPart::Image(media(dice)),
        ]),
        _ => Content::Text(dice.text()),
    };
    let end = *dice.pick(&[CallEnd::Done, CallEnd::Failed, CallEnd::Denied, CallEnd::Cancelled]);
    let result = ToolResult { call_id: call.id.clone(), content, end };
    Message::new(format!("{}-result", call.id), Role::Tool, vec![Part::ToolResult(result)])
}

/// The events of a message, as the turn machine tells them; deltas are cut anywhere.
pub(crate) fn tell(dice: &mut Dice, message: &Message) -> Vec<Event> {
    let (mut events, mut latest_text) = (Vec::new(), None);
    for (index, part) in message.parts.iter().enumerate() {
        let own = Id::from(format!("{}:{index}", message.id));
        match part {
            Part::Text(text) => {
                let id = if latest_text.is_some() { own } else { message.id.clone() };
                latest_text = Some(id.clone());
                events.extend(tell_text(dice, message, &id, text));
            }
            Part::Thinking(thinking) => {
                events.extend(tell_thoughts(dice, message, &own, thinking));
            }
            Part::ToolCall(call) => {
                let parent = latest_text.clone().unwrap_or_else(|| message.id.clone());
                events.extend(tell_call(dice, call, parent));
            }
            Part::ToolResult(result) => events.push(tell_result(&message.id, result)),
            _ => {}
        }
    }
    events
}

fn cut(dice: &mut Dice, text: &str) -> Vec<String> {
    let mut deltas = vec![String::new()];
    for character in text.chars() {
        if dice.chance(40) {
            deltas.push(String::new());
        }
        deltas.last_mut().unwrap().push(character);
    }
    deltas
}

fn secret(subtype: SecretOf, id: &Id, signature: Option<&String>) -> Option<Event> {
    let encrypted_value = signature?.clone();
    Some(ReasoningEncryptedValue { subtype, entity_id: id.clone(), encrypted_value }.into())
}

fn tell_text(dice: &mut Dice, message: &Message, id: &Id, text: &Text) -> Vec<Event> {
    let role = match message.role {
        Role::System => TextRole::System,
        Role::Developer => TextRole::Developer,
        Role::User => TextRole::User,
        Role::Assistant | Role::Tool => TextRole::Assistant,
    };
    let name = message.name.clone();
    let start = TextMessageStart { message_id: id.clone(), role: Some(role), name };
    let mut start = Event::from(start);
    if !message.metadata.is_empty() {
        start.common.metadata = Some(message.metadata.clone());
    }
    let mut events = vec![match *id == message.id {
        true => start,
        false => ours::with(start, ours::MESSAGE_ID, json!(message.id)),
    }];
    events.extend(
        cut(dice, &text.text)
            .into_iter()
            .map(|delta| TextMessageContent { message_id: id.clone(), delta }.into()),
    );
    events.extend(secret(SecretOf::Message, id, text.signature.as_ref()));
    events.push(TextMessageEnd { message_id: id.clone() }.into());
    events
}

fn tell_thoughts(dice: &mut Dice, message: &Message, id: &Id, thinking: &Thinking) -> Vec<Event> {
    let message_id = id.clone();
    let mut events = vec![ReasoningStart { message_id: id.clone() }.into()];
    let start = ReasoningMessageStart { message_id, role: "reasoning".into() };
    let start = ours::with(start.into(), ours::MESSAGE_ID, json!(message.id));
    events.push(match thinking.redacted {
        true => ours::with(start, ours::REDACTED, json!(true)),
        false => start,
    });
    events.extend(
        cut(dice, &thinking.text)
            .into_iter()
            .map(|delta| ReasoningMessageContent { message_id: id.clone(), delta }.into()),
    );
    events.push(ReasoningMessageEnd { message_id: id.clone() }.into());
    events.extend(secret(SecretOf::Message, id, thinking.signature.as_ref()));
    events.push(ReasoningEnd { message_id: id.clone() }.into());
    events
}

fn tell_call(dice: &mut Dice, call: &ToolCall, parent: Id) -> Vec<Event> {
    let (id, tool_call_name) = (call.id.clone(), call.name.to_string());
    let parent_message_id = Some(parent);
    let start = ToolCallStart { tool_call_id: id.clone(), tool_call_name, parent_message_id };
    let mut events = vec![start.into()];
    events.extend(
        cut(dice, &call.arguments)
            .into_iter()
            .map(|delta| ToolCallArgs { tool_call_id: id.clone(), delta }.into()),
    );
    events.extend(secret(SecretOf::ToolCall, &id, call.signature.as_ref()));
    let end = Event::from(ToolCallEnd { tool_call_id: id });
    events.push(match &call.provider_result {
        Some(result) => ours::with(end, ours::PROVIDER_RESULT, result.clone()),
        None => end,
    });
    events
}

fn tell_result(id: &Id, result: &ToolResult) -> Event {
    let event = ToolCallResult {
        message_id: id.clone(),
        tool_call_id: result.call_id.clone(),
        content: result.content.clone(),
        role: None,
    };
    match result.end {
        CallEnd::Done => event.into(),
        end => ours::with(event.into(), ours::END, json!(end)),
    }
}
