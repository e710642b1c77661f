//! What a run is asked, and how it ends.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::Id;

use super::message::Message;

/// What a run is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    /// The conversation.
    pub thread_id: Id,
    /// The run.
    pub run_id: Id,
    /// The version of the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// The run that this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<Id>,
    /// The state of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// The conversation so far.
    #[serde(default, deserialize_with = "or_empty")]
    pub messages: Vec<Message>,
    /// Tools of the client.
    #[serde(default, deserialize_with = "or_empty")]
    pub tools: Vec<ToolInfo>,
    /// What else the model should know.
    #[serde(default, deserialize_with = "or_empty")]
    pub context: Vec<ContextItem>,
    /// Whatever the client sends along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_props: Option<Value>,
    /// Answers to interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Vec<ResumeEntry>>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// What a model is told of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Extra information, by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Something that a model should know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContextItem {
    /// What it is.
    pub description: String,
    /// What it says.
    pub value: String,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The answer to an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeEntry {
    /// The interrupt.
    pub interrupt_id: Id,
    /// Whether it was answered.
    pub status: ResumeStatus,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Extra information, by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Whether an interrupt was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResumeStatus {
    /// It was.
    Resolved,
    /// It will never be.
    Cancelled,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Outcome {
    /// It came to its end.
    Success {
        /// Calls that nobody has answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pending_tool_call_ids: Option<Vec<Id>>,
    },
    /// It waits for somebody.
    Interrupt {
        /// For what; at least one.
        interrupts: Vec<Interrupt>,
    },
    /// Somebody stopped it.
    Cancelled,
}

/// How a subagent ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum SubagentOutcome {
    /// It came to its end.
    Success,
    /// It waits for somebody.
    Suspended {
        /// For what.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupt_ids: Option<Vec<Id>>,
    },
}

/// Something that a run waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    /// The interrupt.
    pub id: Id,
    /// Why.
    pub reason: String,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The tool call it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<Id>,
    /// The JSON Schema of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Map<String, Value>>,
    /// Until when an answer counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
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

/// What a model call cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Whose model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Which model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Tokens thought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// Tokens read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
    /// Tokens written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_input_tokens: Option<u64>,
    /// Fields that nobody here knows.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Outcome {
    /// Whether it waits for somebody, but for nothing.
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self, Self::Interrupt { interrupts } if interrupts.is_empty())
    }
}

/// A list; none if it is `null`, as the versions before 1.0 may write it.
fn or_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Usage {
    /// Adds what something else has cost.
    pub fn add(&mut self, other: &Self) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.total_tokens, other.total_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        add(&mut self.cached_input_tokens, other.cached_input_tokens);
        add(&mut self.cache_write_input_tokens, other.cache_write_input_tokens);
    }
}

impl Interrupt {
    /// Yes: the call may be made.
    #[must_use]
    pub fn approve(&self) -> ResumeEntry {
        self.resolve(json!({ "approved": true }))
    }

    /// Yes, but with these arguments.
    #[must_use]
    pub fn approve_with(&self, arguments: impl Into<Value>) -> ResumeEntry {
        self.resolve(json!({ "approved": true, "editedArgs": arguments.into() }))
    }

    /// No; the model is told why.
    #[must_use]
    pub fn deny(&self, why: impl Into<String>) -> ResumeEntry {
        self.resolve(json!({ "approved": false, "payload": why.into() }))
    }

    /// The answer of a tool of the client, or to a question of another kind.
    #[must_use]
    pub fn resolve(&self, payload: impl Into<Value>) -> ResumeEntry {
        self.answer(ResumeStatus::Resolved, Some(payload.into()))
    }

    /// Nobody will answer.
    #[must_use]
    pub fn cancel(&self) -> ResumeEntry {
        self.answer(ResumeStatus::Cancelled, None)
    }

    fn answer(&self, status: ResumeStatus, payload: Option<Value>) -> ResumeEntry {
        let interrupt_id = self.id.clone();
        ResumeEntry { interrupt_id, status, payload, metadata: None, others: Map::new() }
    }
}
