//! Tools: what a model may call.

mod definition;
mod spec;
mod toolbox;

pub use definition::{Approval, BadArguments, Tool};
pub use spec::{Effect, Place, ToolSpec};
pub use toolbox::{Admission, DuplicateTool, Toolbox};
