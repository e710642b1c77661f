//! Messages, as they travel.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Id;

use super::content::Content;

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
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
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
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Message {
    /// The message.
    #[must_use]
    pub const fn id(&self) -> &Id {
        match self {
            Self::Developer(note) | Self::System(note) => &note.id,
            Self::Assistant(said) => &said.id,
            Self::User(said) => &said.id,
            Self::Tool(answer) => &answer.id,
            Self::Activity(activity) => &activity.id,
            Self::Reasoning(thoughts) => &thoughts.id,
        }
    }

    /// What any message may say.
    #[must_use]
    pub const fn extras(&self) -> &Extras {
        match self {
            Self::Developer(note) | Self::System(note) => &note.extras,
            Self::Assistant(said) => &said.extras,
            Self::User(said) => &said.extras,
            Self::Tool(answer) => &answer.extras,
            Self::Activity(activity) => &activity.extras,
            Self::Reasoning(thoughts) => &thoughts.extras,
        }
    }
}
