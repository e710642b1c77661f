//! A conversation as Anthropic takes it: turns of the user and of the assistant, one after the
//! other, results before anything else that a user says.

use std::{borrow::Cow, collections::BTreeSet};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use chat::{
    Message, ModelError, ModelErrorKind, Part, Request, Thinking, ToolCall, ToolResult,
    agui::{self, ContentPart, Media},
};
use serde_json::Value;

use super::{
    PROVIDER,
    body::{Content, Role, Source, Turn},
};
use crate::{
    call_id::{call_id, call_name},
    caps::ANTHROPIC_CALL_ID_LEN_MAX,
    pieces::arguments,
};

/// A conversation on its way into turns.
#[derive(Debug, Default)]
pub(super) struct Conversation<'a> {
    pub(super) system: Vec<Content<'a>>,
    pub(super) turns: Vec<Turn<'a>>,
    /// Calls that Anthropic ran and that have a result somewhere.
    answered: BTreeSet<&'a str>,
    /// Calls that Anthropic ran, as far as they are told in the last turn.
    told: BTreeSet<&'a str>,
}

impl<'a> Conversation<'a> {
    pub(super) fn of(request: &'a Request) -> Result<Self, ModelError> {
        let mut conversation = Self::default();
        conversation.system.extend(request.system.iter().filter_map(|text| text_of(text)));
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        conversation.answered.extend(parts.filter_map(answered_id));
        for (index, message) in request.messages.iter().enumerate() {
            let is_last = index + 1 == request.messages.len();
            conversation.message(index, message, is_last)?;
        }
        conversation.trim_end();
        if conversation.turns.is_empty() {
            let message = "messages holds nothing to answer; add a user's message with a text";
            return Err(unsupported(message));
        }
        Ok(conversation)
    }

    fn message(
        &mut self,
        index: usize,
        message: &'a Message,
        is_last: bool,
    ) -> Result<(), ModelError> {
        for (part_index, part) in message.parts.iter().enumerate() {
            let place = Place { message: index, part: part_index };
            match message.role {
                // What is told in the middle belongs there: were it moved to the front, an answer
                // that it asks to mend would be the last turn, and be gone on with.
                chat::Role::Developer if !self.turns.is_empty() => {
                    let content = user_content(part, place)?;
                    self.say(Role::User, content);
                }
                chat::Role::System | chat::Role::Developer => match part {
                    Part::Text(text) => self.system.extend(text_of(&text.text)),
                    _ => return Err(place.refuse("is no text, but instructions are", "use a text")),
                },
                chat::Role::User | chat::Role::Tool => {
                    let content = user_content(part, place)?;
                    self.say(Role::User, content);
                }
                chat::Role::Assistant => self.assistant(part, place, is_last)?,
            }
        }
        Ok(())
    }

    fn assistant(&mut self, part: &'a Part, place: Place, is_last: bool) -> Result<(), ModelError> {
        let content = match part {
            Part::Text(text) => text_of(&text.text),
            Part::Thinking(thinking) => thinking_of(thinking),
            Part::ToolCall(ToolCall { provider_result: Some(result), .. }) => {
                let Part::ToolCall(call) = part else { return Ok(()) };
                self.provider_call(call, result, is_last);
                None
            }
            Part::ToolCall(call) => Some(Content::ToolUse {
                id: call_id(&call.id, ANTHROPIC_CALL_ID_LEN_MAX),
                name: call_name(&call.name),
                input: arguments(&call.arguments),
            }),
            // Some keep a result in the message of its call.
            Part::ToolResult(_) => {
                let content = user_content(part, place)?;
                self.say(Role::User, content);
                None
            }
            _ => {
                let remedy = "let a user's message hold it";
                return Err(place.refuse("is something an assistant cannot say here", remedy));
            }
        };
        self.say(Role::Assistant, content);
        Ok(())
    }

    /// A tool that Anthropic ran. A call that was never answered is told only if it is the last
    /// thing: then Anthropic goes on with it.
    fn provider_call(&mut self, call: &'a ToolCall, result: &'a Value, is_last: bool) {
        // What another provider ran means nothing here.
        let is_ours = |kind: &str| kind.ends_with("_tool_result");
        if !result.is_null() && !result["type"].as_str().is_some_and(is_ours) {
            return;
        }
        let id = result["tool_use_id"].as_str().unwrap_or(&call.id);
        let is_told = self.told.contains(id);
        let will_be_answered = !result.is_null() || self.answered.contains(id) || is_last;
        if !is_told && will_be_answered {
            let input = arguments(&call.arguments);
            let content = match &call.signature {
                Some(server_name) => {
                    Content::McpToolUse { id, name: &call.name, server_name, input }
                }
                None => Content::ServerToolUse { id, name: &call.name, input },
            };
            self.say(Role::Assistant, Some(content));
            self.told.insert(id);
        }
        if !result.is_null() {
            self.say(Role::Assistant, Some(Content::Raw(result)));
        }
    }

    fn say(&mut self, role: Role, content: Option<Content<'a>>) {
        let Some(content) = content else { return };
        if self.turns.last().is_none_or(|turn| turn.role != role) {
            self.turns.push(Turn { role, content: Vec::new() });
            self.told.clear();
        }
        let Some(turn) = self.turns.last_mut() else { return };
        // Results must stand before anything else that a user says.
        let is_result = |content: &Content<'_>| matches!(content, Content::ToolResult { .. });
        let index = match is_result(&content) {
            true => turn.content.iter().take_while(|content| is_result(content)).count(),
            false => turn.content.len(),
        };
        turn.content.insert(index, content);
    }

    /// An answer that is to be gone on with must not end in space.
    fn trim_end(&mut self) {
        if let Some(Turn { role: Role::Assistant, content }) = self.turns.last_mut()
            && let Some(Content::Text { text }) = content.last_mut()
            && let Cow::Borrowed(words) = text
        {
            *words = words.trim_end();
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

fn answered_id(part: &Part) -> Option<&str> {
    match part {
        Part::ToolCall(call) => call.provider_result.as_ref()?.get("tool_use_id")?.as_str(),
        _ => None,
    }
}

/// A text; Anthropic takes none without a word in it.
fn text_of(text: &str) -> Option<Content<'_>> {
    (!text.trim().is_empty()).then_some(Content::Text { text: Cow::Borrowed(text) })
}

/// Thoughts; Anthropic takes none that it has not signed.
fn thinking_of(thinking: &Thinking) -> Option<Content<'_>> {
    let signature = thinking.signature.as_deref()?;
    Some(match thinking.redacted {
        true => Content::RedactedThinking { data: signature },
        false => Content::Thinking { thinking: &thinking.text, signature },
    })
}

fn user_content(part: &Part, place: Place) -> Result<Option<Content<'_>>, ModelError> {
    Ok(match part {
        Part::Text(text) => text_of(&text.text),
        Part::Image(media) => Some(image(media, place)?),
        Part::Document(media) => Some(document(media, place)?),
        Part::ToolResult(result) => Some(result_of(result, place)?),
        Part::Audio(_) => return Err(place.refuse("is a sound", NO_WORDS)),
        Part::Video(_) => return Err(place.refuse("is a film", NO_WORDS)),
        _ => return Err(place.refuse("is something a user cannot say", "leave it out")),
    })
}

const NO_WORDS: &str = "Anthropic takes texts, images and documents; send what is said in it";

fn result_of(result: &ToolResult, place: Place) -> Result<Content<'_>, ModelError> {
    let content = match &result.content {
        agui::Content::Text(text) => text_of(text).into_iter().collect(),
        agui::Content::Parts(parts) => {
            let each = parts.iter().map(|part| match part {
                ContentPart::Text(text) => Ok(text_of(&text.text)),
                ContentPart::Image(media) => image(media, place).map(Some),
                ContentPart::Document(media) => document(media, place).map(Some),
                _ => Err(place.refuse("holds a sound or a film", NO_WORDS)),
            });
            each.filter_map(Result::transpose).collect::<Result<_, _>>()?
        }
    };
    Ok(Content::ToolResult {
        tool_use_id: call_id(&result.call_id, ANTHROPIC_CALL_ID_LEN_MAX),
        content,
        is_error: !result.end.is_done(),
    })
}

fn image(media: &Media, place: Place) -> Result<Content<'_>, ModelError> {
    const KINDS: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    let source = match &media.source {
        agui::Source::Data { value, mime_type } if KINDS.contains(&mime_type.as_str()) => {
            Source::Base64 { media_type: mime_type, data: value }
        }
        agui::Source::Data { mime_type, .. } => {
            let what = format!("is an image of type {mime_type:?}");
            return Err(place.refuse(&what, "Anthropic takes jpeg, png, gif and webp"));
        }
        elsewhere => elsewhere_of(elsewhere, place)?,
    };
    Ok(Content::Image { source })
}

fn document(media: &Media, place: Place) -> Result<Content<'_>, ModelError> {
    let source = match &media.source {
        agui::Source::Data { value, mime_type } if mime_type == "application/pdf" => {
            Source::Base64 { media_type: mime_type, data: value }
        }
        agui::Source::Data { value, mime_type } if mime_type.starts_with("text/") => {
            let bytes = BASE64_STANDARD.decode(value).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            let data = text.ok_or_else(|| place.refuse("is no text in base 64", "encode it so"))?;
            Source::Text { media_type: "text/plain", data }
        }
        agui::Source::Data { mime_type, .. } => {
            let what = format!("is a document of type {mime_type:?}");
            return Err(place.refuse(&what, "Anthropic takes PDF and plain text"));
        }
        elsewhere => elsewhere_of(elsewhere, place)?,
    };
    Ok(Content::Document { source })
}

fn elsewhere_of(source: &agui::Source, place: Place) -> Result<Source<'_>, ModelError> {
    match source {
        agui::Source::Url { value, .. } => Ok(Source::Url { url: value }),
        agui::Source::File { value, provider, .. }
            if provider.as_deref().is_none_or(|provider| provider == PROVIDER) =>
        {
            Ok(Source::File { file_id: value })
        }
        _ => Err(place.refuse("is a file of another provider", "send its bytes or its address")),
    }
}
