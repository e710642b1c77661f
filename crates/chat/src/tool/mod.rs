//! Tools: what a model may call, what it may call them with, and what comes of a call.

mod builder;
mod content;
mod context;
mod definition;
mod outcome;
mod schema;
mod spec;
mod toolbox;

pub use builder::{BadTool, ToolBuilder};
pub use content::IntoContent;
pub use context::{Progress, ToolContext, ToolEvent, ToolEvents, ToolEventsReader};
pub(crate) use definition::words_of;
pub use definition::{Approval, BadArguments, BadOutput, Tool};
pub use outcome::{ToolError, ToolOutcome};
pub(crate) use schema::shortened;
pub use schema::{BadSchema, Schema};
pub use spec::{Effect, Place, ToolSpec};
pub use toolbox::{Admission, BadToolbox, DuplicateTool, Toolbox};
