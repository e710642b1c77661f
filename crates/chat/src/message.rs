//! Messages: who said what, part by part, in the order it was said.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Id,
    agui::{Content, ContentPart, Media},
};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The message.
    pub id: Id,
    /// Who it is by.
    pub role: Role,
    /// What it says, in order.
    pub parts: Vec<Part>,
    /// The name of who it is by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Extra information, by key.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Who a message is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Whoever runs the application.
    System,
    /// The developer of the application.
    Developer,
    /// A person.
    User,
    /// The model.
    Assistant,
    /// Tools, which answer.
    Tool,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Part {
    /// A text.
    Text(Text),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A film.
    Video(Media),
    /// A document.
    Document(Media),
    /// Thoughts of the model.
    Thinking(Thinking),
    /// A tool that the model wants to be called.
    ToolCall(ToolCall),
    /// The answer to a call.
    ToolResult(ToolResult),
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// What it says.
    pub text: String,
    /// What its provider wants to see again with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// Thoughts of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// The thoughts; empty if the provider keeps them to itself.
    pub text: String,
    /// What its provider wants to see again; without it the thoughts are not sent back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Whether the provider keeps the thoughts to itself: the signature is all there is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// A tool that a model wants to be called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The call; unique in its conversation.
    pub id: Id,
    /// The tool.
    pub name: Id,
    /// Its arguments: JSON, as the model wrote it.
    pub arguments: String,
    /// What its provider wants to see again with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Set if the provider runs the tool: what its wire says of the answer, `null` until it came.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub provider_result: Option<Value>,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The call.
    pub call_id: Id,
    /// The answer.
    pub content: Content,
    /// How the call ended.
    #[serde(default, skip_serializing_if = "CallEnd::is_done")]
    pub end: CallEnd,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallEnd {
    /// The tool answered.
    #[default]
    Done,
    /// The tool failed, or could not be called.
    Failed,
    /// A person said no.
    Denied,
    /// Nobody waits for it any more.
    Cancelled,
}

impl Message {
    /// A message of one text.
    #[must_use]
    pub fn text(id: impl Into<Id>, role: Role, text: impl Into<String>) -> Self {
        Self::new(id, role, vec![Part::from(text.into())])
    }

    /// A message of these parts.
    #[must_use]
    pub fn new(id: impl Into<Id>, role: Role, parts: Vec<Part>) -> Self {
        Self { id: id.into(), role, parts, name: None, metadata: Map::new() }
    }

    /// All its text, without thoughts.
    #[must_use]
    pub fn text_content(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The tools it wants to be called by us.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) if call.provider_result.is_none() => Some(call),
            _ => None,
        })
    }

    /// The answers in it.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

impl From<Arc<Self>> for Message {
    fn from(message: Arc<Self>) -> Self {
        Arc::unwrap_or_clone(message)
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(Text { text, signature: None })
    }
}

impl From<ContentPart> for Part {
    fn from(part: ContentPart) -> Self {
        match part {
            ContentPart::Text(text) => text.text.into(),
            ContentPart::Image(media) => Self::Image(media),
            ContentPart::Audio(media) => Self::Audio(media),
            ContentPart::Video(media) => Self::Video(media),
            ContentPart::Document(media) => Self::Document(media),
        }
    }
}

impl CallEnd {
    /// Whether the tool answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }
}

/// A value that is there, even if it is `null`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
