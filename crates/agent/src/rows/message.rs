//! What is said.

use live::{Field, Row};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sys::Sys;

use super::now;

/// A message of a session. Written once, by whoever says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row(name = "message")]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The message. Those of a generation are `{generation}:{turn}`.
    pub id: String,
    /// Who it is by.
    pub role: Role,
    /// All its text, without thoughts.
    pub content: String,
    /// What it says part by part, if that is more than one plain text.
    #[row(json)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<MessagePart>>,
    /// Who said it: a person's id, or an agent's name.
    pub actor_id: String,
    /// Which agent it is for; none if it is for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_agent: Option<String>,
    /// The generation that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_id: Option<String>,
    /// Names it as a question of one agent to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The question that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    /// When it was said.
    pub created_at: String,
}

impl Message {
    /// What a person says to an agent, now, under an id that is drawn.
    #[must_use]
    pub fn to_agent(agent: &str, person: &str, text: &str, sys: &Sys) -> Self {
        Self {
            id: format!("{:016x}", sys.chance.u64()),
            role: Role::User,
            content: text.to_owned(),
            parts: None,
            actor_id: person.to_owned(),
            target_agent: Some(agent.to_owned()),
            generation_id: None,
            request_id: None,
            in_reply_to: None,
            created_at: now(sys),
        }
    }
}

/// Who a message is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Field)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person, or another agent that asks.
    User,
    /// An agent.
    Assistant,
    /// Whoever runs the application.
    System,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum MessagePart {
    /// A text.
    Text {
        /// What it says; the whole content of the message if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// What its provider wants to see again with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Thoughts of a model.
    Thinking {
        /// The thoughts.
        text: String,
        /// What its provider wants to see again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Whether the provider keeps the thoughts to itself.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redacted: bool,
    },
    /// A call: its arguments and its answer are in its own row.
    ToolCall {
        /// The row of the call.
        id: String,
        /// What its provider wants to see again with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Anything else that a model or a person can say, such as a picture.
    Other {
        /// The part, as `chat::Part` writes it.
        part: Value,
    },
}
