//! A tool call: what was asked for, who does it, and what came of it.

use live::{Field, Row};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CancelledBy;

/// A tool call. Written by the agent until somebody else's claim has won, then by that executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row(name = "toolCall")]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The call: `{message}:{n}`.
    pub id: String,
    /// Its generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_id: Option<String>,
    /// The message that asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// What the model calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[row(json)]
    pub args: Value,
    /// The arguments as the model wrote them, if that is not how we write `args`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_args: Option<String>,
    /// How far it is.
    pub status: CallStatus,
    /// What it means to run it twice.
    pub effect: Effect,
    /// Whether the model got a job reference instead of waiting.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_background: bool,
    /// Which attempt this is, from 1; 0 while nobody has begun.
    pub attempt: u32,
    /// How many attempts before this one died.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub failures: u32,
    /// How many died with a process in which other agents worked: these are no failures.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub deaths: u32,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// Until when the executor is believed to be alive, if it is not the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<String>,
    /// The answer: a text, or the JSON that the tool wrote.
    #[row(json)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The answer, if it is of several parts, such as pictures.
    #[row(json)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_parts: Option<Value>,
    /// Why it failed, or what the model is told instead of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Who cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<CancelledBy>,
    /// Set if the answer came after its generation had been cancelled: nobody has read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_late: bool,
    /// When it was asked for.
    pub created_at: String,
    /// When its status last changed.
    pub updated_at: String,
    /// When the attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
}

/// How far a call is. Completed, failed and cancelled are for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Field)]
#[serde(rename_all = "lowercase")]
pub enum CallStatus {
    /// Somebody should run it.
    Pending,
    /// Somebody runs it.
    Executing,
    /// The tool answered.
    Completed,
    /// The tool failed, or could not be called.
    Failed,
    /// Nobody waits for it any more.
    Cancelled,
    /// It may have run, and must not run twice: a person decides.
    Parked,
}

/// What it means to run a call twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Field)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Nothing: the tool only reads.
    Pure,
    /// Nothing, as long as it gets the same key.
    Idempotent,
    /// It must not happen.
    Once,
}

impl CallStatus {
    /// Whether nothing can become of it any more.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl From<chat::Effect> for Effect {
    fn from(effect: chat::Effect) -> Self {
        match effect {
            chat::Effect::Pure => Self::Pure,
            chat::Effect::Idempotent => Self::Idempotent,
            chat::Effect::Once => Self::Once,
        }
    }
}
