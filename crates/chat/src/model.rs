//! A model: what it is asked, what it streams, and how it fails.
//!
//! A model streams *blocks*: texts, thoughts and tool calls, each opened, added to and closed.
//! Blocks may overlap, since some providers interleave tool calls. A model knows nothing of
//! messages, runs or ids but its own; the turn machine gives those.

use std::{fmt, sync::Arc, time::Duration};

use futures_core::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sys::Cancellation;

use crate::{Conversation, Id, Message, Part, ToolCall, ToolSpec, Usage};

/// What a model streams.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// A language model behind some wire. The name of the model is part of it.
pub trait Model: Send + Sync + fmt::Debug {
    /// What it is called.
    fn name(&self) -> &ModelName;

    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// Asks it. The stream ends after the whole answer, or with the first error; an answer that is
    /// cut off ends with [`ModelErrorKind::Truncated`], never as if it were whole. It ends soon
    /// after the cancellation, and so does the connection behind it.
    fn call(&self, request: Arc<Request>, cancellation: Cancellation) -> ModelStream;
}

/// What a model is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelName {
    /// Whose it is, such as `anthropic`.
    pub provider: Id,
    /// What the provider calls it.
    pub model: Id,
}

/// What a model can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// How it answers by a schema.
    pub structured: Structured,
}

/// How a model answers by a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Structured {
    /// In any turn, tools or not.
    Combined,
    /// Only without tools, so in a call of its own at the end.
    Final,
    /// Only if it is told to in words.
    #[default]
    Prompted,
}

/// What a model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// What it should know before anything else.
    pub system: Vec<String>,
    /// The conversation. Every call in it has a result.
    pub messages: Conversation,
    /// The tools it may call.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Which of them it should call.
    pub choice: ToolChoice,
    /// The schema its answer must fit.
    pub output: Option<OutputSpec>,
    /// How it should answer.
    pub settings: Settings,
}

/// Which tools a model should call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Tool(Id),
}

/// The shape of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputSpec {
    /// What it is called.
    pub name: Id,
    /// Its JSON Schema.
    pub schema: Value,
}

/// How a model should answer. What is absent is left to the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// The most tokens of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u32>,
    /// How freely it chooses words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Which share of the likely words it chooses from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Texts that end an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// How much it thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingEffort>,
    /// Whether it may call several tools in one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tools: Option<bool>,
    /// Tools that the provider runs itself, as its wire writes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provider_tools: Vec<Value>,
    /// Fields for the body of the provider's request, as its wire writes them. They win.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// How much a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingEffort {
    /// Not at all.
    Off,
    /// A little.
    Low,
    /// More.
    Medium,
    /// Much.
    High,
    /// At most so many tokens.
    Tokens(u32),
}

/// Which block of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Block(pub u32);

/// What a model streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ModelEvent {
    /// Who answers, as the provider says it; it may be more exact than what was asked for.
    Answering {
        /// The model.
        model: Id,
    },
    /// A block begins.
    Open {
        /// The block; none of the same number may be open.
        block: Block,
        /// What it is.
        kind: BlockKind,
    },
    /// More of a block.
    More {
        /// The block.
        block: Block,
        /// What is added to it.
        delta: String,
    },
    /// What the provider wants to see again with a block. More than one are joined.
    Sign {
        /// The block.
        block: Block,
        /// The signature.
        signature: String,
    },
    /// What came of a tool that the provider ran.
    ProviderResult {
        /// The block of the call.
        block: Block,
        /// What the wire says of it.
        result: Value,
    },
    /// A block is whole.
    Close {
        /// The block.
        block: Block,
    },
    /// What the answer has cost so far. The last one counts.
    Usage(Usage),
    /// Why the answer ends, as far as the provider says so.
    Stop(StopReason),
    /// Something else that the provider says, such as a citation.
    Note {
        /// What it is.
        name: Id,
        /// What it says.
        value: Value,
    },
}

impl ModelEvent {
    /// What a model streams to say this message whole. Fed to a machine, it makes the same message:
    /// so a turn that was written down is not asked for again.
    #[must_use]
    pub fn saying(message: &Message) -> Vec<Self> {
        let mut events = Vec::new();
        for (block, part) in (0..).map(Block).zip(&message.parts) {
            let (kind, text, signature) = match part {
                Part::Text(text) => (BlockKind::Text, &text.text, &text.signature),
                Part::Thinking(thinking) => {
                    let kind = match thinking.redacted {
                        true => BlockKind::RedactedThinking,
                        false => BlockKind::Thinking,
                    };
                    (kind, &thinking.text, &thinking.signature)
                }
                Part::ToolCall(call) => {
                    let (id, name) = (Some(call.id.clone()), call.name.clone());
                    let kind = match &call.provider_result {
                        Some(_) => BlockKind::ProviderCall { id, name },
                        None => BlockKind::Call { id, name },
                    };
                    (kind, &call.arguments, &call.signature)
                }
                // A model says nothing else.
                _ => continue,
            };
            events.push(Self::Open { block, kind });
            events.push(Self::More { block, delta: text.clone() });
            events.extend(signature.clone().map(|signature| Self::Sign { block, signature }));
            if let Part::ToolCall(ToolCall { provider_result: Some(result), .. }) = part {
                events.push(Self::ProviderResult { block, result: result.clone() });
            }
            events.push(Self::Close { block });
        }
        events
    }
}

/// What a block is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BlockKind {
    /// A text.
    Text,
    /// Thoughts.
    Thinking,
    /// Thoughts that the provider keeps to itself.
    RedactedThinking,
    /// A call of one of our tools.
    Call {
        /// The provider's id for it, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Id>,
        /// The tool.
        name: Id,
    },
    /// A call of a tool that the provider runs.
    ProviderCall {
        /// The provider's id for it, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<Id>,
        /// The tool.
        name: Id,
    },
}

/// Why an answer ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StopReason {
    /// It is whole.
    End,
    /// It waits for tools.
    ToolCalls,
    /// It has become too long.
    Length,
    /// The provider does not let it through.
    ContentFilter,
    /// The model does not want to.
    Refusal,
    /// The provider wants to be asked to go on.
    Pause,
    /// Something else, in the provider's words.
    Other(Id),
}

/// A model that could not be asked, or whose answer did not arrive whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{provider}: {message}")]
#[serde(rename_all = "camelCase")]
pub struct ModelError {
    /// Whose model.
    pub provider: Id,
    /// What it means for whoever asked.
    pub kind: ModelErrorKind,
    /// What happened, and what to do.
    pub message: String,
    /// How long the provider wants to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

/// What a failure of a model means for whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// There is no key.
    MissingKey,
    /// The key is refused.
    Unauthorized,
    /// The request cannot be put into the provider's words; nothing was sent.
    Unsupported,
    /// The provider refuses the request.
    BadRequest,
    /// The provider has no such model.
    UnknownModel,
    /// Too many requests, or no money left.
    RateLimited,
    /// The provider cannot be reached, or fails.
    Unavailable,
    /// The provider takes too long.
    TimedOut,
    /// The answer broke off.
    Truncated,
    /// The answer is not what the provider's wire allows.
    Malformed,
    /// The answer is larger than it may be.
    TooLarge,
    /// Nobody waits for the answer any more.
    Cancelled,
}

impl ModelError {
    /// A failure of this provider.
    #[must_use]
    pub fn new(provider: impl Into<Id>, kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { provider: provider.into(), kind, message: message.into(), retry_after: None }
    }

    /// Whether the same request may fare better later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            ModelErrorKind::RateLimited
            | ModelErrorKind::Unavailable
            | ModelErrorKind::TimedOut
            | ModelErrorKind::Truncated => true,
            ModelErrorKind::MissingKey
            | ModelErrorKind::Unauthorized
            | ModelErrorKind::Unsupported
            | ModelErrorKind::BadRequest
            | ModelErrorKind::UnknownModel
            | ModelErrorKind::Malformed
            | ModelErrorKind::TooLarge
            | ModelErrorKind::Cancelled => false,
        }
    }
}

impl ModelErrorKind {
    /// A word for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::MissingKey => "missing-key",
            Self::Unauthorized => "unauthorized",
            Self::Unsupported => "unsupported",
            Self::BadRequest => "bad-request",
            Self::UnknownModel => "unknown-model",
            Self::RateLimited => "rate-limited",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed-out",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::TooLarge => "too-large",
            Self::Cancelled => "cancelled",
        }
    }
}

impl StopReason {
    /// The word that AG-UI clients know it by.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::End | Self::Pause => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::Other(word) => word,
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}
