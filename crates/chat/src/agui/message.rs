//! Messages, as they travel.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Id;

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Message {
    /// From the developer of the application.
    Developer(Note),
    /// The system prompt.
    System(Note),
    /// From the model.
    Assistant(Assistant),
    /// From a person.
    User(User),
    /// The answer of a tool.
    Tool(ToolAnswer),
    /// Something shown among the messages.
    Activity(Activity),
    /// Thoughts of the model.
    Reasoning(Reasoning),
}

/// A text that is not streamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// The message.
    pub id: Id,
    /// What it says.
    pub content: String,
    /// What any message may say.
    #[serde(flatten)]
    pub extras: Extras,
}

/// What any message may say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Extras {
    /// The name of who it is by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What a provider wants to see again and nobody else can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_value: Option<String>,
    /// Extra information, by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The subagent it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_run_id: Option<Id>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// What a model said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assistant {
    /// The message.
    pub id: Id,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The tools it wants to be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// What any message may say.
    #[serde(flatten)]
    pub extras: Extras,
}

/// What a person said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// The message.
    pub id: Id,
    /// What she said.
    pub content: Content,
    /// What any message may say.
    #[serde(flatten)]
    pub extras: Extras,
}

/// What a tool answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnswer {
    /// The message.
    pub id: Id,
    /// The call.
    pub tool_call_id: Id,
    /// The answer.
    pub content: Content,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What any message may say.
    #[serde(flatten)]
    pub extras: Extras,
}

/// Something shown among the messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// The message.
    pub id: Id,
    /// What it is.
    pub activity_type: String,
    /// How it is.
    pub content: Map<String, Value>,
    /// What any message may say.
    #[serde(flatten)]
    pub extras: Extras,
}

/// Thoughts of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// The message.
    pub id: Id,
    /// The thoughts.
    pub content: String,
    /// What any message may say.
    #[serde(flatten)]
    pub extras: Extras,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The call.
    pub id: Id,
    /// Always `function`.
    #[serde(rename = "type", default = "function")]
    pub kind: String,
    /// What is called.
    pub function: FunctionCall,
    /// What a provider wants to see again and nobody else can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_value: Option<String>,
    /// Extra information, by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

fn function() -> String {
    "function".into()
}

/// A tool and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The tool.
    pub name: String,
    /// Its arguments, as JSON.
    pub arguments: String,
}

/// A text, or several parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Parts, in order.
    Parts(Vec<ContentPart>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ContentPart {
    /// A text.
    Text(TextPart),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A film.
    Video(Media),
    /// A document.
    Document(Media),
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextPart {
    /// What it says.
    pub text: String,
    /// The part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// Extra information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// Something that is not text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Media {
    /// Where it is.
    pub source: Source,
    /// The part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// Extra information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// Where a part is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Source {
    /// Here, in base 64.
    Data {
        /// The bytes.
        value: String,
        /// What they are.
        mime_type: String,
    },
    /// At an address.
    Url {
        /// The address.
        value: String,
        /// What is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// With a provider.
    File {
        /// What the provider calls it.
        value: String,
        /// The provider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// What it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
}
