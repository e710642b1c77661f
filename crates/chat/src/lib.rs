//! The model side: messages, AG-UI events, tools, and the turn machine.

pub mod agui;
pub mod caps;
mod id;
mod message;
mod model;
mod tool;

pub use agui::Usage;
pub use id::Id;
pub use message::{CallEnd, Message, Part, Role, Text, Thinking, ToolCall, ToolResult};
pub use model::{
    Abilities, Block, BlockKind, Model, ModelError, ModelErrorKind, ModelEvent, ModelName,
    ModelStream, OutputSpec, Request, Settings, StopReason, Structured, ThinkingEffort, ToolChoice,
};
pub use tool::{
    Admission, Approval, BadArguments, BadOutput, BadSchema, BadTool, Conversation, DuplicateTool,
    Effect, IntoContent, NoConversation, Place, Progress, Schema, Tool, ToolBuilder, ToolContext,
    ToolError, ToolEvent, ToolEvents, ToolEventsReader, ToolOutcome, ToolSpec, Toolbox,
};
#[doc(hidden)]
pub use {schemars, serde, serde_json};
