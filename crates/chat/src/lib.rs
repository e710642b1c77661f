//! The model side: messages, AG-UI events, tools, and the turn machine.

pub mod agui;
pub mod caps;
pub mod convert;
mod id;
mod message;
mod model;
mod tool;
mod transcript;
pub mod ui;
pub mod verify;

pub use agui::Usage;
pub use id::Id;
pub use message::{CallEnd, Message, Part, Role, Text, Thinking, ToolCall, ToolResult};
pub use model::{
    Abilities, Block, BlockKind, Model, ModelError, ModelErrorKind, ModelEvent, ModelName,
    ModelStream, OutputSpec, Request, Settings, StopReason, Structured, ThinkingEffort, ToolChoice,
};
pub use tool::{
    Admission, Approval, BadArguments, DuplicateTool, Effect, Place, Tool, ToolSpec, Toolbox,
};
pub use transcript::{Transcript, TranscriptError};
pub use verify::{OrderError, Verifier};
