//! A conversation as Gemini takes it: turns of the user and of the model. The answers to calls are
//! a turn of their own, right after the turn that calls.

use std::{borrow::Cow, collections::BTreeMap};

use chat::{
    CallEnd, Message, ModelError, ModelErrorKind, Request, Thinking, ToolCall, ToolResult,
    agui::{self, ContentPart, Media, Source},
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{
    CODE_EXECUTION, PROVIDER,
    body::{self, Blob, Data, FileData, FunctionCall, FunctionResponse, Outcome, Part, Role, Turn},
    encode::is_name,
    generation::Generation,
};
use crate::{call_id::call_name, caps::GEMINI_NAME_LEN_MAX, pieces::arguments};

/// What stands for a signature that there is none of: the call came from elsewhere.
const NOT_SIGNED_HERE: &str = "skip_thought_signature_validator";

/// A conversation on its way into turns.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    pub(super) system: Vec<Part<'a>>,
    pub(super) turns: Vec<Turn<'a>>,
    generation: Generation,
    /// The tools that were called, by the id of the call.
    called: BTreeMap<&'a str, &'a str>,
    /// What a tool answered that does not fit into its answer; it is told right after.
    beside: Vec<Part<'a>>,
}

impl<'a> Conversation<'a> {
    pub(super) fn of(request: &'a Request, generation: Generation) -> Result<Self, ModelError> {
        let mut conversation = Self {
            system: request.system.iter().filter_map(|text| text_of(text)).collect(),
            turns: Vec::new(),
            generation,
            called: BTreeMap::new(),
            beside: Vec::new(),
        };
        for (index, message) in request.messages.iter().enumerate() {
            for (part_index, part) in message.parts.iter().enumerate() {
                let place = Place { message: index, part: part_index };
                conversation.part(message, part, place)?;
            }
        }
        conversation.say_what_is_beside();
        conversation.stand_in_for_signatures();
        if conversation.turns.is_empty() {
            let message = "messages holds nothing to answer; add a user's message with a text";
            return Err(unsupported(message));
        }
        Ok(conversation)
    }

    fn part(
        &mut self,
        message: &Message,
        part: &'a chat::Part,
        place: Place,
    ) -> Result<(), ModelError> {
        match (message.role, part) {
            (_, chat::Part::ToolResult(result)) => return self.result(result, place),
            // What is told in the middle belongs there: Gemini answers only what a user says last.
            (chat::Role::Developer, part) if !self.turns.is_empty() => {
                let part = user_part(part, place)?;
                self.say(Role::User, part);
            }
            (chat::Role::System | chat::Role::Developer, chat::Part::Text(text)) => {
                self.system.extend(text_of(&text.text));
            }
            (chat::Role::System | chat::Role::Developer, _) => {
                return Err(place.refuse("is no text, but instructions are", "use a text"));
            }
            (chat::Role::Assistant, part) => {
                let parts = self.model_parts(part, place)?;
                self.say(Role::Model, parts);
            }
            (chat::Role::User | chat::Role::Tool, part) => {
                let part = user_part(part, place)?;
                self.say(Role::User, part);
            }
        }
        Ok(())
    }

    fn model_parts(
        &mut self,
        part: &'a chat::Part,
        place: Place,
    ) -> Result<Vec<Part<'a>>, ModelError> {
        Ok(match part {
            chat::Part::Text(text) => {
                let signature = text.signature.as_deref();
                let is_empty = text.text.is_empty() && signature.is_none();
                let part =
                    Part { data: Data::Text { text: &text.text }, thought_signature: signature };
                if is_empty { Vec::new() } else { vec![part] }
            }
            chat::Part::Thinking(thinking) => thinking_of(thinking).into_iter().collect(),
            chat::Part::ToolCall(call) => match &call.provider_result {
                Some(result) => provider_call(call, result),
                None => {
                    self.called.insert(&call.id, &call.name);
                    vec![call_of(call)]
                }
            },
            media => media_part(media, place)?.into_iter().collect(),
        })
    }

    /// The answer to a call. What is no text goes into it if the model can take it, else beside it.
    fn result(&mut self, result: &'a ToolResult, place: Place) -> Result<(), ModelError> {
        let Some(&name) = self.called.get(result.call_id.as_str()) else {
            let what = format!("answers the call {:?}, which is not there", result.call_id);
            return Err(place.refuse(&what, "keep a call and its result together"));
        };
        let mut text = Cow::Borrowed("");
        let mut parts = Vec::new();
        match &result.content {
            agui::Content::Text(whole) => text = Cow::Borrowed(whole),
            agui::Content::Parts(all) => {
                for part in all {
                    match part {
                        ContentPart::Text(part) if text.is_empty() => text = (&part.text).into(),
                        ContentPart::Text(part) => text.to_mut().push_str(&part.text),
                        ContentPart::Image(media)
                        | ContentPart::Audio(media)
                        | ContentPart::Video(media)
                        | ContentPart::Document(media) => parts.push(media_of(media, place)?),
                        _ => return Err(place.refuse("holds something unknown", "leave it out")),
                    }
                }
            }
        }
        let is_here = |part: &Part<'_>| matches!(part.data, Data::Inline { .. });
        let fits = |part: &Part<'_>| self.generation.is_new() && is_here(part);
        let (parts, beside): (Vec<_>, Vec<_>) = parts.into_iter().partition(fits);
        let response = outcome(text, result.end);
        let (id, name) = (&result.call_id, name_of(name));
        let function_response = FunctionResponse { id, name, response, parts };
        let data = Data::Response { function_response };
        self.respond(Part { data, thought_signature: None });
        self.beside.extend(beside);
        Ok(())
    }

    fn respond(&mut self, part: Part<'a>) {
        match self.turns.last_mut() {
            Some(turn) if turn.parts.last().is_some_and(is_response) => turn.parts.push(part),
            _ => self.turns.push(Turn { role: Role::User, parts: vec![part] }),
        }
    }

    fn say(&mut self, role: Role, parts: impl IntoIterator<Item = Part<'a>>) {
        let mut parts = parts.into_iter().peekable();
        if parts.peek().is_none() {
            return;
        }
        self.say_what_is_beside();
        match self.turns.last_mut() {
            Some(turn) if turn.role == role && !turn.parts.last().is_some_and(is_response) => {
                turn.parts.extend(parts);
            }
            _ => self.turns.push(Turn { role, parts: parts.collect() }),
        }
    }

    fn say_what_is_beside(&mut self) {
        if !self.beside.is_empty() {
            let parts = std::mem::take(&mut self.beside);
            self.turns.push(Turn { role: Role::User, parts });
        }
    }

    /// New models refuse a turn whose first call has no signature.
    fn stand_in_for_signatures(&mut self) {
        if !self.generation.is_new() {
            return;
        }
        for turn in &mut self.turns {
            let is_call = |part: &&mut Part<'_>| matches!(part.data, Data::Call { .. });
            if let Some(call) = turn.parts.iter_mut().find(is_call) {
                call.thought_signature.get_or_insert(NOT_SIGNED_HERE);
            }
        }
    }
}

/// Where in a request something is.
#[derive(Clone, Copy, Debug)]
struct Place {
    message: usize,
    part: usize,
}

impl Place {
    fn refuse(self, what: &str, remedy: &str) -> ModelError {
        let Self { message, part } = self;
        unsupported(format!("messages[{message}].parts[{part}] {what}; {remedy}"))
    }
}

pub(super) fn unsupported(message: impl Into<String>) -> ModelError {
    ModelError::new(PROVIDER, ModelErrorKind::Unsupported, message)
}

fn is_response(part: &Part<'_>) -> bool {
    matches!(part.data, Data::Response { .. })
}

fn text_of(text: &str) -> Option<Part<'_>> {
    (!text.is_empty()).then_some(plain(Data::Text { text }))
}

/// Thoughts; those that are not signed mean nothing to Gemini.
fn thinking_of(thinking: &Thinking) -> Option<Part<'_>> {
    let signature = thinking.signature.as_deref().filter(|_| !thinking.redacted)?;
    let data = Data::Thought { text: &thinking.text, thought: true };
    Some(Part { data, thought_signature: Some(signature) })
}

/// The name as it is if Gemini takes it, else one that is like it.
fn name_of(name: &str) -> Cow<'_, str> {
    if is_name(name) {
        return Cow::Borrowed(name);
    }
    let plain = call_name(name);
    match is_name(&plain) {
        true => plain,
        // It begins with a digit or a dash.
        false => format!("_{plain}").chars().take(GEMINI_NAME_LEN_MAX).collect::<String>().into(),
    }
}

fn call_of(call: &ToolCall) -> Part<'_> {
    let args = arguments(&call.arguments);
    let function_call = FunctionCall { id: &call.id, name: name_of(&call.name), args };
    let data = Data::Call { function_call };
    Part { data, thought_signature: call.signature.as_deref() }
}

/// A tool that Gemini ran, and what came of it. A call without arguments stands in an answer
/// before this one.
fn provider_call<'a>(call: &'a ToolCall, result: &'a Value) -> Vec<Part<'a>> {
    // What another provider ran means nothing here.
    if result.get("codeExecutionResult").or_else(|| result.get("toolResponse")).is_none() {
        return Vec::new();
    }
    let args = || arguments(&call.arguments);
    let data = match call.name.as_str() {
        CODE_EXECUTION if call.arguments.is_empty() => None,
        CODE_EXECUTION => Some(Data::Code { executable_code: args() }),
        tool_type => {
            let id = result["toolResponse"]["id"].as_str().unwrap_or(&call.id);
            let tool_call = body::ToolCall { id, tool_type, args: args() };
            Some(Data::ToolCall { tool_call })
        }
    };
    let call = data.map(|data| Part { data, thought_signature: call.signature.as_deref() });
    call.into_iter().chain([plain(Data::Raw(result))]).collect()
}

fn user_part(part: &chat::Part, place: Place) -> Result<Option<Part<'_>>, ModelError> {
    match part {
        chat::Part::Text(text) => Ok(text_of(&text.text)),
        media => media_part(media, place),
    }
}

fn media_part(part: &chat::Part, place: Place) -> Result<Option<Part<'_>>, ModelError> {
    match part {
        chat::Part::Image(media)
        | chat::Part::Audio(media)
        | chat::Part::Video(media)
        | chat::Part::Document(media) => media_of(media, place).map(Some),
        _ => Err(place.refuse("is something that cannot be said here", "leave it out")),
    }
}

fn media_of(media: &Media, place: Place) -> Result<Part<'_>, ModelError> {
    let is_ours = |provider: &str| matches!(provider, PROVIDER | "google");
    let data = match &media.source {
        Source::Data { value, mime_type } => {
            Data::Inline { inline_data: Blob { mime_type, data: value } }
        }
        Source::Url { value, mime_type } => {
            let mime_type = mime_type.as_deref();
            Data::File { file_data: FileData { mime_type, file_uri: value } }
        }
        Source::File { value, provider, mime_type } if provider.as_deref().is_none_or(is_ours) => {
            let mime_type = mime_type.as_deref();
            Data::File { file_data: FileData { mime_type, file_uri: value } }
        }
        Source::File { .. } => {
            let remedy = "send its bytes or its address";
            return Err(place.refuse("is a file of another provider", remedy));
        }
    };
    Ok(plain(data))
}

fn outcome(text: Cow<'_, str>, end: CallEnd) -> Outcome<'_> {
    let said = match text {
        Cow::Borrowed(text) => match serde_json::from_str::<&RawValue>(text) {
            Ok(json) => Cow::Borrowed(json),
            Err(_) => words(text),
        },
        Cow::Owned(text) => words(&text),
    };
    match end {
        CallEnd::Done => Outcome::Output(said),
        CallEnd::Failed | CallEnd::Denied | CallEnd::Cancelled => Outcome::Error(said),
    }
}

fn words<'a>(text: &str) -> Cow<'a, RawValue> {
    Cow::Owned(to_raw_value(text).unwrap_or_else(|_| RawValue::NULL.to_owned()))
}

const fn plain(data: Data<'_>) -> Part<'_> {
    Part { data, thought_signature: None }
}
