//! The model side: messages, AG-UI events, tools, and the turn machine.

pub mod agui;
pub mod caps;
mod id;
pub mod machine;
mod message;
mod model;
mod tool;
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
pub use verify::{OrderError, Verifier};
