//! Messages here and messages of AG-UI.
//!
//! A message here is one turn of one speaker, with its parts in order. AG-UI has a message for each
//! text with the calls after it, one for each block of thoughts and one for each answer of a tool.
//! What belongs together says so in its metadata ([`ours::MESSAGE_ID`]), so that there and back is
//! the same messages again.
//!
//! Lost on the way there: pictures, sounds, films and documents by a model, a system or a
//! developer; signatures of what people say; where one text of a system ends and the next begins;
//! parts that cannot be in a message of their role. Lost on the way back: activities; ids and
//! metadata of texts among several parts; metadata of calls; fields that nobody here knows; a text
//! of a model that says nothing.

use serde_json::{Map, Value, json};

use crate::{
    CallEnd, Id, Message, Part, Role, Text, Thinking, ToolCall, ToolResult,
    agui::{
        self, Assistant, Content, ContentPart, Extras, FunctionCall, Note, Reasoning, TextPart,
        ToolAnswer, User, ours,
    },
};

/// The messages, as AG-UI writes them.
#[must_use]
pub fn to_agui<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<agui::Message> {
    let mut out = Vec::new();
    for message in messages {
        match message.role {
            Role::System => out.push(agui::Message::System(note(message))),
            Role::Developer => out.push(agui::Message::Developer(note(message))),
            Role::User => out.push(agui::Message::User(User {
                id: message.id.clone(),
                content: content(&message.parts),
                extras: extras(message),
            })),
            Role::Assistant => assistant(message, &mut out),
            Role::Tool => {}
        }
        answers(message, &mut out);
    }
    out
}

/// The messages of AG-UI, as they are here.
///
/// Thoughts of others, which do not say where they belong, belong to what their model says next.
#[must_use]
pub fn from_agui<'a>(messages: impl IntoIterator<Item = &'a agui::Message>) -> Vec<Message> {
    let mut reader = Reader::default();
    for message in messages {
        reader.take(message);
    }
    reader.out
}

/// How a call ended, as metadata of ours or of TanStack say it.
pub(crate) fn call_end(metadata: Option<&Map<String, Value>>) -> Option<CallEnd> {
    let metadata = metadata?;
    if let Some(end) = ours::find(metadata, ours::END) {
        return serde_json::from_value(end.clone()).ok();
    }
    let tanstack = metadata.get("tanstack")?;
    match tanstack.get("toolResultOutcome").and_then(Value::as_str) {
        Some("denied") => return Some(CallEnd::Denied),
        Some("cancelled") => return Some(CallEnd::Cancelled),
        _ => {}
    }
    (tanstack.get("state")? == "output-error").then_some(CallEnd::Failed)
}

/// Whether a block of thoughts of this id is kept by its provider, as ours or TanStack say it.
pub(crate) fn is_redacted(id: &str, metadata: Option<&Map<String, Value>>) -> bool {
    let said = metadata.and_then(|metadata| ours::find(metadata, ours::REDACTED));
    said.map_or_else(|| id.starts_with("redacted_thinking-"), |said| *said == Value::Bool(true))
}

/// What a provider says of a call that it ran, as ours or TanStack say it.
pub(crate) fn provider_result(metadata: Option<&Map<String, Value>>) -> Option<Value> {
    let metadata = metadata?;
    let executed = metadata.get("providerExecuted") == Some(&Value::Bool(true));
    ours::find(metadata, ours::PROVIDER_RESULT).cloned().or(executed.then_some(Value::Null))
}

/// What people or tools said, in AG-UI's words.
fn content(parts: &[Part]) -> Content {
    if let [Part::Text(text)] = parts {
        return Content::Text(text.text.clone());
    }
    let parts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => {
            let text = text.text.clone();
            Some(ContentPart::Text(TextPart { text, ..TextPart::default() }))
        }
        Part::Image(media) => Some(ContentPart::Image(media.clone())),
        Part::Audio(media) => Some(ContentPart::Audio(media.clone())),
        Part::Video(media) => Some(ContentPart::Video(media.clone())),
        Part::Document(media) => Some(ContentPart::Document(media.clone())),
        Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    Content::Parts(parts.collect())
}

fn parts(content: &Content) -> Vec<Part> {
    match content {
        Content::Text(text) => vec![text.clone().into()],
        Content::Parts(parts) => parts.iter().cloned().map(Part::from).collect(),
    }
}

fn note(message: &Message) -> Note {
    Note { id: message.id.clone(), content: message.text_content(), extras: extras(message) }
}

fn extras(message: &Message) -> Extras {
    let mut metadata = message.metadata.clone();
    let subagent_run_id = ours::take(&mut metadata, ours::SUBAGENT_RUN_ID);
    Extras {
        name: message.name.clone(),
        metadata: (!metadata.is_empty()).then_some(metadata),
        subagent_run_id: subagent_run_id.as_ref().and_then(Value::as_str).map(Id::from),
        ..Extras::default()
    }
}

/// What a further piece of a message says: whose piece it is.
fn piece(message: &Message) -> Extras {
    let mut metadata = Map::new();
    ours::set(&mut metadata, ours::MESSAGE_ID, json!(message.id));
    let subagent_run_id = extras(message).subagent_run_id;
    Extras { metadata: Some(metadata), subagent_run_id, ..Extras::default() }
}

/// The id of the n-th part of a message.
pub(crate) fn piece_id(message: &Id, part: usize) -> Id {
    Id::from(format!("{message}:{part}"))
}

/// What a model said. The first message of the assistant has the id of the message.
fn assistant(message: &Message, out: &mut Vec<agui::Message>) {
    let begin = out.len();
    let is_anchored = |out: &[agui::Message]| {
        out[begin..].iter().any(|piece| matches!(piece, agui::Message::Assistant(_)))
    };
    let next = |out: &[agui::Message], part: usize| match is_anchored(out) {
        true => (piece_id(&message.id, part), piece(message)),
        false => (message.id.clone(), extras(message)),
    };
    for (index, part) in message.parts.iter().enumerate() {
        match part {
            Part::Text(text) => {
                let (id, mut extras) = next(out, index);
                extras.encrypted_value.clone_from(&text.signature);
                let content = Some(text.text.clone());
                out.push(agui::Message::Assistant(Assistant {
                    id,
                    content,
                    tool_calls: None,
                    extras,
                }));
            }
            Part::Thinking(thinking) => {
                let mut extras = piece(message);
                extras.encrypted_value.clone_from(&thinking.signature);
                if let (true, Some(metadata)) = (thinking.redacted, &mut extras.metadata) {
                    ours::set(metadata, ours::REDACTED, Value::Bool(true));
                }
                let (id, content) = (piece_id(&message.id, index), thinking.text.clone());
                out.push(agui::Message::Reasoning(Reasoning { id, content, extras }));
            }
            Part::ToolCall(call) => {
                if !matches!(out[begin..].last(), Some(agui::Message::Assistant(_))) {
                    let (id, extras) = next(out, index);
                    let said = Assistant { id, extras, ..Assistant::default() };
                    out.push(agui::Message::Assistant(said));
                }
                if let Some(agui::Message::Assistant(said)) = out.last_mut() {
                    said.tool_calls.get_or_insert_default().push(tool_call(call));
                }
            }
            _ => {}
        }
    }
    if !is_anchored(out) {
        let (id, extras) = next(out, 0);
        out.push(agui::Message::Assistant(Assistant { id, extras, ..Assistant::default() }));
    }
}

fn tool_call(call: &ToolCall) -> agui::ToolCall {
    let metadata = call.provider_result.as_ref().map(|result| {
        let mut metadata = Map::new();
        ours::set(&mut metadata, ours::PROVIDER_RESULT, result.clone());
        metadata
    });
    let function = FunctionCall {
        name: call.name.to_string(),
        arguments: call.arguments.clone(),
        others: Map::new(),
    };
    agui::ToolCall {
        id: call.id.clone(),
        kind: "function".into(),
        function,
        encrypted_value: call.signature.clone(),
        metadata,
        others: Map::new(),
    }
}

/// The answers in a message. The first has the id of the message, if that is all it is.
fn answers(message: &Message, out: &mut Vec<agui::Message>) {
    let mut is_first = message.role == Role::Tool;
    for (index, part) in message.parts.iter().enumerate() {
        let Part::ToolResult(result) = part else { continue };
        let (id, mut extras) = match is_first {
            true => (message.id.clone(), extras(message)),
            false => (piece_id(&message.id, index), piece(message)),
        };
        is_first = false;
        let mut error = None;
        if result.end != CallEnd::Done {
            let end = serde_json::to_value(result.end).unwrap_or_default();
            error = end.as_str().map(str::to_owned);
            ours::set(extras.metadata.get_or_insert_default(), ours::END, end);
        }
        out.push(agui::Message::Tool(ToolAnswer {
            id,
            tool_call_id: result.call_id.clone(),
            content: result.content.clone(),
            error,
            extras,
        }));
    }
}

#[derive(Default)]
struct Reader {
    out: Vec<Message>,
    /// Whether the last message is but thoughts that do not say where they belong.
    is_adrift: bool,
}

impl Reader {
    fn take(&mut self, message: &agui::Message) {
        match message {
            agui::Message::System(note) => self.note(Role::System, note),
            agui::Message::Developer(note) => self.note(Role::Developer, note),
            agui::Message::User(user) => {
                self.push(&user.id, Role::User, parts(&user.content), &user.extras);
            }
            agui::Message::Reasoning(thoughts) => self.thoughts(thoughts),
            agui::Message::Assistant(said) => self.assistant(said),
            agui::Message::Tool(answer) => self.answer(answer),
            agui::Message::Activity(_) => {}
        }
    }

    fn note(&mut self, role: Role, note: &Note) {
        self.push(&note.id, role, vec![note.content.clone().into()], &note.extras);
    }

    /// Another message.
    fn push(&mut self, id: &Id, role: Role, parts: Vec<Part>, extras: &Extras) {
        self.is_adrift = false;
        self.out.push(Message::new(id.clone(), role, parts));
        self.say(extras);
    }

    /// What is said of the last message as a whole.
    fn say(&mut self, extras: &Extras) {
        let Some(last) = self.out.last_mut() else { return };
        let mut metadata = extras.metadata.clone().unwrap_or_default();
        for name in [ours::MESSAGE_ID, ours::END, ours::REDACTED, ours::PROVIDER_RESULT] {
            ours::take(&mut metadata, name);
        }
        if let Some(subagent) = &extras.subagent_run_id {
            ours::set(&mut metadata, ours::SUBAGENT_RUN_ID, json!(subagent));
        }
        last.metadata.append(&mut metadata);
        last.name = extras.name.clone().or(last.name.take());
    }

    /// The last message, if it is this one.
    fn last(&mut self, id: &str, role: Role) -> Option<&mut Message> {
        self.out.last_mut().filter(|last| last.id == id && last.role == role)
    }

    fn thoughts(&mut self, thoughts: &Reasoning) {
        let Reasoning { id, content, extras } = thoughts;
        let part = Part::Thinking(Thinking {
            text: content.clone(),
            signature: extras.encrypted_value.clone(),
            redacted: is_redacted(id, extras.metadata.as_ref()),
        });
        if let Some(message) = message_id(extras) {
            match self.last(&message, Role::Assistant) {
                Some(last) => last.parts.push(part),
                None => self.push(&message, Role::Assistant, vec![part], extras),
            }
        } else if self.is_adrift && self.is_by(extras) {
            self.out.last_mut().into_iter().for_each(|last| last.parts.push(part.clone()));
        } else {
            self.push(id, Role::Assistant, vec![part], extras);
            self.is_adrift = true;
        }
    }

    /// Whether the last message is by the same agent.
    fn is_by(&self, extras: &Extras) -> bool {
        let of = |last: &Message| {
            let said = ours::find(&last.metadata, ours::SUBAGENT_RUN_ID).and_then(Value::as_str);
            said == extras.subagent_run_id.as_deref()
        };
        self.out.last().is_some_and(of)
    }

    fn assistant(&mut self, said: &Assistant) {
        let Assistant { id, content, tool_calls, extras } = said;
        let signature = extras.encrypted_value.clone();
        let text = content.clone().map(|text| Text { text, signature });
        let text = text.filter(|text| !text.text.is_empty() || text.signature.is_some());
        let calls = tool_calls.iter().flatten().map(read_call).map(Part::ToolCall);
        let mut parts: Vec<_> = text.map(Part::Text).into_iter().chain(calls).collect();
        if self.is_adrift && self.is_by(extras) {
            self.is_adrift = false;
            self.out.last_mut().into_iter().for_each(|last| last.id = id.clone());
        }
        let message = message_id(extras).unwrap_or_else(|| id.clone());
        match self.last(&message, Role::Assistant) {
            Some(last) => {
                last.parts.append(&mut parts);
                self.say(extras);
            }
            None => self.push(&message, Role::Assistant, parts, extras),
        }
    }

    fn answer(&mut self, answer: &ToolAnswer) {
        let ToolAnswer { id, tool_call_id, content, error, extras } = answer;
        let failed = error.as_ref().map(|_| CallEnd::Failed);
        let said = call_end(extras.metadata.as_ref());
        let content = match (content, error) {
            (Content::Text(text), Some(error)) if text.is_empty() && said.is_none() => {
                Content::Text(error.clone())
            }
            _ => content.clone(),
        };
        let end = said.or(failed).unwrap_or_default();
        let part = Part::ToolResult(ToolResult { call_id: tool_call_id.clone(), content, end });
        let message = message_id(extras);
        let role = self.out.last().map_or(Role::Tool, |last| last.role);
        match message.as_ref().and_then(|message| self.last(message, role)) {
            Some(last) => last.parts.push(part),
            None => self.push(message.as_ref().unwrap_or(id), Role::Tool, vec![part], extras),
        }
    }
}

fn read_call(call: &agui::ToolCall) -> ToolCall {
    ToolCall {
        id: call.id.clone(),
        name: Id::from(call.function.name.as_str()),
        arguments: call.function.arguments.clone(),
        signature: call.encrypted_value.clone(),
        provider_result: provider_result(call.metadata.as_ref()),
    }
}

fn message_id(extras: &Extras) -> Option<Id> {
    let metadata = extras.metadata.as_ref()?;
    ours::find(metadata, ours::MESSAGE_ID).and_then(Value::as_str).map(Id::from)
}
