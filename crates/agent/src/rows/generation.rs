//! What is done about what was said: generations, their steps, and the text as it grows.

use live::{Field, Row};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One answer of an agent, with all its turns. Written by the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row(name = "generation")]
#[serde(rename_all = "camelCase")]
pub struct Generation {
    /// The generation: `{agent}-{readUpTo}`.
    pub id: String,
    /// Whose it is.
    pub agent_name: String,
    /// How far it is.
    pub status: GenerationStatus,
    /// The model, as `provider/model`.
    pub model: String,
    /// It answers messages after this position; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_after: Option<u64>,
    /// It answers messages up to this position.
    pub read_up_to: u64,
    /// The conversation that its model was told begins with the message at this position; with the
    /// first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_from: Option<u64>,
    /// Who cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<CancelledBy>,
    /// Why it failed, or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it began.
    pub created_at: String,
    /// When its status last changed.
    pub updated_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
}

/// How far a generation is. The last three are for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Field)]
#[serde(rename_all = "lowercase")]
pub enum GenerationStatus {
    /// It is asked for.
    Pending,
    /// It is under way.
    Generating,
    /// It has said all.
    Completed,
    /// It could not go on.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl GenerationStatus {
    /// Whether nothing can become of it any more.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Who or what cancelled something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Field)]
#[serde(rename_all = "lowercase")]
pub enum CancelledBy {
    /// Somebody said stop.
    User,
    /// It took too long.
    Timeout,
    /// Something that it needed had failed.
    Error,
}

/// One call of the model. Written by the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row(name = "step")]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The step: `{generation}:{turn}`, which is also the id of the message it makes.
    pub id: String,
    /// Its generation.
    pub generation_id: String,
    /// Which turn of the generation it is, from 1.
    pub turn: u32,
    /// How far it is.
    pub status: StepStatus,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How many attempts before this one failed or died.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub failures: u32,
    /// How many died with a process in which other agents worked, and which they need not have
    /// ended: these are no failures.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub deaths: u32,
    /// The first chunk of this attempt.
    pub first_chunk: u64,
    /// How many chunks this attempt has left when it ended, also once they are dropped; absent if
    /// it has not ended, or an earlier version wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// The model that answered, as its provider calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why the model stopped.
    #[row(json)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Value>,
    /// What it cost.
    #[row(json)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When this attempt began.
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
}

impl Step {
    /// Whether a step may become another: an end is for ever, and attempts do not go back.
    #[must_use]
    pub const fn admits(old: &Self, new: &Self) -> bool {
        matches!(old.status, StepStatus::Started) && new.attempt >= old.attempt
    }
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Field)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// The model is being asked.
    Started,
    /// The model has answered; its message is in the same transaction.
    Completed,
    /// The model failed.
    Failed,
    /// Nobody waits for it any more.
    Cancelled,
}

/// A piece of a text that grows. Written by the agent, and never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row(name = "chunk")]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    /// The chunk: `{generation}:c{index}`.
    pub id: String,
    /// Its generation.
    pub generation_id: String,
    /// The message that it becomes part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Its place in the generation, from 0, without gaps; attempts go on counting.
    pub index: u64,
    /// What it is a piece of.
    #[serde(rename = "type")]
    pub kind: ChunkType,
    /// The piece: text, thoughts, the name of a tool, or arguments.
    pub content: String,
    /// The call, for pieces of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Set on the last chunk of a generation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
}

impl Chunk {
    /// The id of the chunk at this place of a generation.
    #[must_use]
    pub fn id_of(generation: &str, index: u64) -> String {
        format!("{generation}:c{index}")
    }

    /// The place of the chunk of this id, if it is one of the generation.
    #[must_use]
    pub fn index_of(generation: &str, id: &str) -> Option<u64> {
        id.strip_prefix(generation)?.strip_prefix(":c")?.parse().ok()
    }
}

/// What a chunk is a piece of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Field)]
#[serde(rename_all = "kebab-case")]
pub enum ChunkType {
    /// A text.
    Text,
    /// Thoughts.
    Thinking,
    /// A call begins; the content is the name of its tool.
    ToolCallStart,
    /// Arguments of a call.
    ToolCallArgs,
    /// A call is whole.
    ToolCallEnd,
    /// The generation has ended; the content is its status.
    End,
}
