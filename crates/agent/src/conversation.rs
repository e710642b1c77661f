//! The conversation of an agent: rows as messages for a model, and back.
//!
//! Nothing is kept twice: a message row names its calls, and the rows of the calls have arguments
//! and answers. What a model was told is put together again exactly.

use std::collections::BTreeMap;

use chat::{CallEnd, Part, Text, Thinking, ToolResult, agui::Content};
use serde_json::Value;

use crate::{
    content,
    rows::{self, CallStatus, MessagePart},
};

/// The rows of calls, by their ids.
pub(crate) type Calls = BTreeMap<String, rows::ToolCall>;

/// The id of the row of a call.
pub(crate) fn call_row_id(message_id: &str, index: usize) -> String {
    format!("{message_id}:{index}")
}

/// What a message says, for its row. Calls of our tools are named by their rows, in order.
pub(crate) fn parts_of(message: &chat::Message) -> (String, Option<Vec<MessagePart>>) {
    let content = message.text_content();
    if let [Part::Text(Text { signature: None, .. })] = message.parts.as_slice() {
        return (content, None);
    }
    let texts = message.parts.iter().filter(|part| matches!(part, Part::Text(_))).count();
    let mut calls = 0..;
    let parts = message.parts.iter().map(|part| match part {
        Part::Text(Text { text, signature }) => {
            let text = (texts > 1).then(|| text.clone());
            MessagePart::Text { text, signature: signature.clone() }
        }
        Part::Thinking(Thinking { text, signature, redacted }) => MessagePart::Thinking {
            text: text.clone(),
            signature: signature.clone(),
            redacted: *redacted,
        },
        Part::ToolCall(call) if call.provider_result.is_none() => {
            let index = calls.next().unwrap_or_default();
            let id = call_row_id(&message.id, index);
            MessagePart::ToolCall { id, signature: call.signature.clone() }
        }
        other => MessagePart::Other { part: serde_json::to_value(other).unwrap_or_default() },
    });
    let parts: Vec<_> = parts.collect();
    (content, (!parts.is_empty()).then_some(parts))
}

/// The message of a row, as a model is told it, and the answers to its calls that are there.
pub(crate) fn message_of(row: &rows::Message, calls: &Calls) -> Vec<chat::Message> {
    let role = match row.role {
        rows::Role::User => chat::Role::User,
        rows::Role::Assistant => chat::Role::Assistant,
        rows::Role::System => chat::Role::System,
    };
    let text = || vec![chat::Message::text(row.id.as_str(), role, row.content.clone())];
    let Some(parts) = &row.parts else { return text() };
    let is_model = row.role == rows::Role::Assistant;
    let (mut answers, mut index) = (Vec::new(), 0);
    let mut said = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            MessagePart::Text { text, signature } => {
                let text = text.as_ref().unwrap_or(&row.content).clone();
                said.push(Part::Text(Text { text, signature: signature.clone() }));
            }
            MessagePart::Thinking { text, signature, redacted } if is_model => {
                let (text, signature) = (text.clone(), signature.clone());
                said.push(Part::Thinking(Thinking { text, signature, redacted: *redacted }));
            }
            MessagePart::ToolCall { id, signature } if is_model => {
                let Some(call) = calls.get(id) else { continue };
                said.push(Part::ToolCall(call_of(call, signature.clone())));
                answers.extend(answer_of(call).map(|answer| (index, answer)));
                index += 1;
            }
            MessagePart::Other { part } => {
                let part = serde_json::from_value::<Part>(part.clone()).ok();
                said.extend(part.filter(|part| may_say(part, is_model)));
            }
            // Only a model thinks and calls.
            MessagePart::Thinking { .. } | MessagePart::ToolCall { .. } => {}
        }
    }
    if said.is_empty() {
        return text();
    }
    let message = chat::Message::new(row.id.as_str(), role, said);
    let answers = answers.into_iter().map(|(index, answer)| {
        let id = format!("{}:r{index}", row.id);
        chat::Message::new(id, chat::Role::Tool, vec![Part::ToolResult(answer)])
    });
    std::iter::once(message).chain(answers).collect()
}

/// Whether a part may stand in a message by itself: calls and answers have rows of their own.
fn may_say(part: &Part, is_model: bool) -> bool {
    match part {
        Part::ToolResult(_) => false,
        Part::ToolCall(call) => is_model && call.provider_result.is_some(),
        Part::Thinking(_) => is_model,
        _ => true,
    }
}

fn call_of(row: &rows::ToolCall, signature: Option<String>) -> chat::ToolCall {
    chat::ToolCall {
        id: call_id_of(row).into(),
        name: row.name.as_str().into(),
        arguments: row.raw_args.clone().unwrap_or_else(|| row.args.to_string()),
        signature,
        provider_result: None,
    }
}

/// What the model calls it.
pub(crate) fn call_id_of(row: &rows::ToolCall) -> &str {
    row.call_id.as_deref().unwrap_or(&row.id)
}

/// The answer in a row, if there is one.
pub(crate) fn answer_of(row: &rows::ToolCall) -> Option<ToolResult> {
    let end = match row.status {
        CallStatus::Completed => CallEnd::Done,
        CallStatus::Failed => CallEnd::Failed,
        CallStatus::Cancelled => CallEnd::Cancelled,
        CallStatus::Pending | CallStatus::Executing | CallStatus::Parked => return None,
    };
    let content = match end {
        CallEnd::Done => content::from_result(row.result.as_ref(), row.result_parts.as_ref()),
        _ => Content::Text(row.error.clone().unwrap_or_default()),
    };
    Some(ToolResult { call_id: call_id_of(row).into(), content, end })
}

/// Puts an answer into a row.
pub(crate) fn put_answer(row: &mut rows::ToolCall, answer: &ToolResult, now: &str) {
    row.status = match answer.end {
        CallEnd::Done => CallStatus::Completed,
        CallEnd::Failed | CallEnd::Denied => CallStatus::Failed,
        CallEnd::Cancelled => CallStatus::Cancelled,
    };
    match answer.end {
        CallEnd::Done => (row.result, row.result_parts) = content::to_result(&answer.content),
        _ => row.error = Some(text_of(&answer.content)),
    }
    row.lease_until = None;
    row.updated_at = now.to_owned();
    row.completed_at = Some(now.to_owned());
}

fn text_of(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        parts @ Content::Parts(_) => serde_json::to_string(parts).unwrap_or_default(),
    }
}

/// The arguments of a call as data, and as they were written if that cannot be told from the data.
pub(crate) fn args_of(written: &str) -> (Value, Option<String>) {
    let args: Value = serde_json::from_str(written).unwrap_or_default();
    let ours = args.to_string();
    let raw = (ours != written).then(|| written.to_owned());
    (args, raw)
}
