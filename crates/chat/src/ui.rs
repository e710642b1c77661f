//! Messages as TanStack AI's front ends hold them.
//!
//! There a message has parts much like here, but the answers of tools are parts of the message that
//! called them, and there are only systems, people and assistants. What has no field there stands
//! in `metadata` ([`ours`]), so that there and back is the same messages again, if answers follow
//! the message that called their tools.
//!
//! Lost on the way here: states of calls and approvals, parts of kinds that are not known here,
//! times, and fields that nobody here knows. A structured output becomes its text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    CallEnd, Id, Message, Part, Role, Text, Thinking, ToolCall, ToolResult,
    agui::{Content, Media, ours},
    convert::{piece_id, provider_result},
};

/// A message of a front end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UiMessage {
    /// The message.
    pub id: Id,
    /// Who it is by.
    pub role: UiRole,
    /// What it says, in order.
    pub parts: Vec<UiPart>,
    /// When it was made, as RFC 3339 writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The name of who it is by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Extra information, by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Who a message of a front end is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UiRole {
    /// Whoever runs the application.
    System,
    /// A person.
    User,
    /// The model.
    Assistant,
}

/// A part of a message of a front end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UiPart {
    /// A text.
    Text(UiText),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A film.
    Video(Media),
    /// A document.
    Document(Media),
    /// Thoughts of the model.
    Thinking(UiThinking),
    /// A tool that the model wants to be called.
    ToolCall(UiToolCall),
    /// The answer to a call.
    ToolResult(UiToolResult),
    /// A part of another kind.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UiText {
    /// What it says.
    pub content: String,
    /// Extra information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Thoughts of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UiThinking {
    /// The thoughts.
    pub content: String,
    /// The step they belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// What the provider wants to see again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Whether the provider keeps the thoughts to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<bool>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A tool that a model wants to be called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UiToolCall {
    /// The call.
    pub id: Id,
    /// The tool.
    pub name: Id,
    /// Its arguments, as JSON.
    pub arguments: String,
    /// The same, read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// How far it is, such as `input-complete`.
    pub state: String,
    /// Whether a person must say yes, and has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Value>,
    /// What a tool of the client answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Extra information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The answer to a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UiToolResult {
    /// The message that the answer is elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// The call.
    pub tool_call_id: Id,
    /// The answer.
    pub content: Content,
    /// How far it is: `streaming`, `complete` or `error`.
    pub state: String,
    /// Why there is no good answer: `denied` or `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Why the tool failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Extra information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The messages, as a front end holds them.
#[must_use]
pub fn to_ui<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<UiMessage> {
    let mut writer = Writer::default();
    for message in messages {
        writer.take(message);
    }
    writer.out
}

/// The messages of a front end, as they are here.
///
/// Whatever follows the answers of tools in a message is another turn of the model, and so another
/// message.
#[must_use]
pub fn from_ui<'a>(messages: impl IntoIterator<Item = &'a UiMessage>) -> Vec<Message> {
    let mut out = Vec::new();
    for message in messages {
        read(message, &mut out);
    }
    out
}

#[derive(Default)]
struct Writer {
    out: Vec<UiMessage>,
    /// Which message and which part of it a call is.
    calls: BTreeMap<Id, (usize, usize)>,
}

impl Writer {
    fn take(&mut self, message: &Message) {
        if message.role == Role::Tool {
            return message.results().for_each(|result| self.answer(message, result));
        }
        let index = self.out.len();
        let mut parts = Vec::with_capacity(message.parts.len());
        for part in &message.parts {
            if let Part::ToolCall(call) = part {
                self.calls.insert(call.id.clone(), (index, parts.len()));
            }
            parts.push(write(message, part));
        }
        let mut metadata = message.metadata.clone();
        let role = match message.role {
            Role::System => UiRole::System,
            Role::Developer => {
                ours::set(&mut metadata, ours::ROLE, json!(Role::Developer));
                UiRole::System
            }
            Role::User => UiRole::User,
            Role::Assistant | Role::Tool => UiRole::Assistant,
        };
        self.out.push(UiMessage {
            id: message.id.clone(),
            role,
            parts,
            created_at: None,
            name: message.name.clone(),
            metadata: some(metadata),
            others: Map::new(),
        });
    }

    /// An answer stands in the message that called the tool.
    fn answer(&mut self, message: &Message, result: &ToolResult) {
        let call = self.calls.get(&result.call_id).copied();
        if let Some((index, part)) = call
            && let Some(UiPart::ToolCall(call)) = self.out[index].parts.get_mut(part)
        {
            call.state = if result.end.is_done() { "complete" } else { "error" }.into();
        }
        let part = UiPart::ToolResult(write_result(message, result));
        match call {
            Some((index, _)) => self.out[index].parts.push(part),
            None => self.out.push(UiMessage {
                id: message.id.clone(),
                role: UiRole::Assistant,
                parts: vec![part],
                created_at: None,
                name: None,
                metadata: None,
                others: Map::new(),
            }),
        }
    }
}

fn some(metadata: Map<String, Value>) -> Option<Map<String, Value>> {
    (!metadata.is_empty()).then_some(metadata)
}

fn write(message: &Message, part: &Part) -> UiPart {
    match part {
        Part::Text(text) => {
            let mut metadata = Map::new();
            if let Some(signature) = &text.signature {
                ours::set(&mut metadata, ours::SIGNATURE, json!(signature));
            }
            let content = text.text.clone();
            UiPart::Text(UiText { content, metadata: some(metadata), others: Map::new() })
        }
        Part::Image(media) => UiPart::Image(media.clone()),
        Part::Audio(media) => UiPart::Audio(media.clone()),
        Part::Video(media) => UiPart::Video(media.clone()),
        Part::Document(media) => UiPart::Document(media.clone()),
        Part::Thinking(thinking) => UiPart::Thinking(UiThinking {
            content: thinking.text.clone(),
            signature: thinking.signature.clone(),
            redacted: thinking.redacted.then_some(true),
            ..UiThinking::default()
        }),
        Part::ToolCall(call) => UiPart::ToolCall(write_call(call)),
        Part::ToolResult(result) => UiPart::ToolResult(write_result(message, result)),
    }
}

fn write_call(call: &ToolCall) -> UiToolCall {
    let mut metadata = Map::new();
    if let Some(signature) = &call.signature {
        ours::set(&mut metadata, ours::SIGNATURE, json!(signature));
    }
    let mut state = "input-complete";
    if let Some(result) = &call.provider_result {
        ours::set(&mut metadata, ours::PROVIDER_RESULT, result.clone());
        metadata.insert("providerExecuted".into(), Value::Bool(true));
        state = if result.is_null() { state } else { "complete" };
    }
    UiToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        input: serde_json::from_str(&call.arguments).ok().filter(|input: &Value| !input.is_null()),
        state: state.into(),
        metadata: some(metadata),
        ..UiToolCall::default()
    }
}

fn write_result(message: &Message, result: &ToolResult) -> UiToolResult {
    let mut metadata = Map::new();
    if message.role == Role::Tool {
        metadata = message.metadata.clone();
    }
    let (outcome, error) = match (result.end, &result.content) {
        (CallEnd::Done, _) => (None, None),
        (CallEnd::Denied, _) => (Some("denied".into()), None),
        (CallEnd::Cancelled, _) => (Some("cancelled".into()), None),
        (CallEnd::Failed, Content::Text(why)) => (None, Some(why.clone())),
        (CallEnd::Failed, Content::Parts(_)) => (None, None),
    };
    UiToolResult {
        id: (message.role == Role::Tool).then(|| message.id.clone()),
        tool_call_id: result.call_id.clone(),
        content: result.content.clone(),
        state: if result.end.is_done() { "complete" } else { "error" }.into(),
        outcome,
        error,
        metadata: some(metadata),
        others: Map::new(),
    }
}

/// Reads a message of a front end, turn by turn.
fn read(ui: &UiMessage, out: &mut Vec<Message>) {
    let mut metadata = ui.metadata.clone().unwrap_or_default();
    let is_developer = ours::take(&mut metadata, ours::ROLE) == Some(json!(Role::Developer));
    let role = match ui.role {
        UiRole::System if is_developer => Role::Developer,
        UiRole::System => Role::System,
        UiRole::User => Role::User,
        UiRole::Assistant => Role::Assistant,
    };
    let mut turn = Message::new(ui.id.clone(), role, Vec::new());
    turn.name.clone_from(&ui.name);
    turn.metadata = metadata;
    let (mut answers, mut client_answers) = (Vec::new(), Vec::new());
    let only_answers = |part: &UiPart| matches!(part, UiPart::ToolResult(_));
    let mut is_told = !ui.parts.is_empty() && ui.parts.iter().all(only_answers);
    for (index, part) in ui.parts.iter().enumerate() {
        if let (UiPart::ToolResult(result), Role::Assistant) = (part, role) {
            answer(ui, index, result, &mut answers);
            continue;
        }
        let Some(part) = read_part(part) else { continue };
        let is_call = matches!(part, Part::ToolCall(_));
        if !answers.is_empty() || !is_call && !client_answers.is_empty() {
            let next = Message::new(piece_id(&ui.id, index), role, Vec::new());
            out.push(std::mem::replace(&mut turn, next));
            out.append(&mut answers);
            out.append(&mut client_answers);
        }
        is_told = false;
        turn.parts.push(part);
        client_answers.extend(client_answer(ui, index));
    }
    if !(is_told && turn.parts.is_empty()) {
        out.push(turn);
    }
    out.append(&mut answers);
    out.append(&mut client_answers);
}

/// An answer of a front end as a message; answers of one message stay together.
fn answer(ui: &UiMessage, index: usize, result: &UiToolResult, answers: &mut Vec<Message>) {
    let id = result.id.clone().unwrap_or_else(|| piece_id(&ui.id, index));
    let part = Part::ToolResult(read_result(result));
    match answers.last_mut() {
        Some(last) if last.id == id => last.parts.push(part),
        _ => {
            let mut message = Message::new(id, Role::Tool, vec![part]);
            message.metadata = result.metadata.clone().unwrap_or_default();
            answers.push(message);
        }
    }
}

/// What a tool of the client answered, if no other part says so.
fn client_answer(ui: &UiMessage, index: usize) -> Option<Message> {
    let UiPart::ToolCall(call) = ui.parts.get(index)? else { return None };
    let output = call.output.as_ref()?;
    let is_it =
        |part: &UiPart| matches!(part, UiPart::ToolResult(it) if it.tool_call_id == call.id);
    if ui.parts.iter().any(is_it) {
        return None;
    }
    let content = match output {
        Value::String(text) => Content::Text(text.clone()),
        other => Content::Text(other.to_string()),
    };
    let end = if call.state == "error" { CallEnd::Failed } else { CallEnd::Done };
    let result = ToolResult { call_id: call.id.clone(), content, end };
    let id = Id::from(format!("tool-{}", call.id));
    Some(Message::new(id, Role::Tool, vec![Part::ToolResult(result)]))
}

fn read_part(part: &UiPart) -> Option<Part> {
    Some(match part {
        UiPart::Text(text) => Part::Text(Text {
            text: text.content.clone(),
            signature: text.metadata.as_ref().and_then(signature),
        }),
        UiPart::Image(media) => Part::Image(media.clone()),
        UiPart::Audio(media) => Part::Audio(media.clone()),
        UiPart::Video(media) => Part::Video(media.clone()),
        UiPart::Document(media) => Part::Document(media.clone()),
        UiPart::Thinking(thinking) => Part::Thinking(Thinking {
            text: thinking.content.clone(),
            signature: thinking.signature.clone(),
            redacted: thinking.redacted.unwrap_or_default(),
        }),
        UiPart::ToolCall(call) => {
            let thought = |metadata: &Map<String, Value>| {
                let said = metadata.get("thoughtSignature").and_then(Value::as_str);
                signature(metadata).or_else(|| said.map(str::to_owned))
            };
            Part::ToolCall(ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                signature: call.metadata.as_ref().and_then(thought),
                provider_result: provider_result(call.metadata.as_ref()),
            })
        }
        UiPart::ToolResult(result) => Part::ToolResult(read_result(result)),
        UiPart::Unknown(fields) => {
            let is_output = fields.get("type").is_some_and(|kind| kind == "structured-output");
            let raw = fields.get("raw").filter(|_| is_output)?.as_str()?;
            raw.to_owned().into()
        }
    })
}

fn signature(metadata: &Map<String, Value>) -> Option<String> {
    ours::find(metadata, ours::SIGNATURE).and_then(Value::as_str).map(str::to_owned)
}

fn read_result(result: &UiToolResult) -> ToolResult {
    let end = match (result.outcome.as_deref(), result.state.as_str()) {
        (Some("denied"), _) => CallEnd::Denied,
        (Some("cancelled"), _) => CallEnd::Cancelled,
        (_, "error") => CallEnd::Failed,
        _ => CallEnd::Done,
    };
    let content = match (&result.content, &result.error) {
        (Content::Text(text), Some(why)) if text.is_empty() => Content::Text(why.clone()),
        (content, _) => content.clone(),
    };
    ToolResult { call_id: result.tool_call_id.clone(), content, end }
}
