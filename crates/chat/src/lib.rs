//! The model side: messages, AG-UI events, tools, and the loop of a model and its tools.
//!
//! It knows no vendor and no HTTP: a model is a [`Model`], and `providers` has those. It keeps
//! nothing: a run is data, and whoever wants it to last writes it down between its steps.
//!
//! ```
//! # async fn ask(model: std::sync::Arc<dyn chat::Model>) -> Result<(), chat::ChatError> {
//! let sys = sys::Sys::real();
//! let text = chat::chat(model).system("Be brief.").user("Hello!").text(&sys).await?;
//! println!("{text}");
//! # Ok(()) }
//! ```
//!
//! In reading order: `message` and [`conversation`] are what is said, `model` what is asked and
//! streamed, `tool` what may be called; [`machine`] decides what comes next and never awaits; `run`
//! takes its steps. [`agui`] is what goes out, [`verify`] and `transcript` read it back,
//! [`convert`] and [`ui`] are for front ends.

pub mod agui;
pub mod caps;
pub mod conversation;
pub mod convert;
mod id;
pub mod machine;
mod message;
mod model;
mod run;
mod tool;
mod transcript;
pub mod ui;
pub mod verify;

pub use agui::Usage;
pub use conversation::Conversation;
pub use id::Id;
pub use machine::{Call, Decision, Done, Failure, Saved, Strategy};
/// Makes an `async fn` a function that returns a [`Tool`] which does the same.
///
/// - Its doc comment tells the model what it is for.
/// - Its arguments are what the model gives, checked against their JSON Schema; doc comments or
///   `#[arg("…")]` say what they are, `#[arg(default = 3)]` what they are if they are left out, as
///   an `Option` may be, too. `#[serde(…)]` and `#[schemars(…)]` work as on a field.
/// - A [`ToolContext`] among them is the call.
/// - It answers with anything that can be written as JSON, see [`IntoContent`]. If its type is a
///   `Result`, any error that can be shown fails the call, and the model is told.
///
/// Options: `name = "…"`; `needs_approval`, or `needs_approval = |city: &String| …` of references
/// to all arguments; `effect = "pure" | "idempotent" | "once"`; `lazy`; `output`, if the answer has
/// a JSON Schema; `time_max_secs = 5`; `output_bytes_max = 1000`; `crate = "…"`, where this crate
/// is found.
///
/// ```
/// use chat::{ToolContext, tool};
///
/// /// Tells the weather of the next days.
/// #[tool(effect = "pure", time_max_secs = 5)]
/// async fn weather(
///     /// The name of a city.
///     city: String,
///     #[arg("How many days.", default = 3)] days: u8,
///     context: ToolContext,
/// ) -> Result<String, std::io::Error> {
///     context.progress("looking out of the window").await;
///     Ok(format!("{days} days of sun in {city}"))
/// }
///
/// let tool = weather();
/// assert_eq!(tool.spec().description, "Tells the weather of the next days.");
/// assert!(tool.check(r#"{"city": "Oslo"}"#).is_ok());
/// ```
pub use macros::tool;
pub use message::{CallEnd, Message, Part, Role, Text, Thinking, ToolCall, ToolResult};
pub use model::{
    Abilities, Block, BlockKind, Model, ModelError, ModelErrorKind, ModelEvent, ModelName,
    ModelStream, OutputSpec, Request, Settings, StopReason, Structured, ThinkingEffort, ToolChoice,
};
pub use run::{
    BadChat, BeforeTool, Chat, ChatError, Finished, Middleware, Run, Summarize, Summary,
    SummaryStyle, chat, summarize,
};
pub use tool::{
    Admission, Approval, BadArguments, BadOutput, BadSchema, BadTool, BadToolbox, DuplicateTool,
    Effect, IntoContent, Place, Progress, Schema, Tool, ToolBuilder, ToolContext, ToolError,
    ToolEvent, ToolEvents, ToolEventsReader, ToolOutcome, ToolSpec, Toolbox,
};
pub use transcript::{Transcript, TranscriptError};
pub use verify::{OrderError, Verifier};
#[doc(hidden)]
pub use {schemars, serde, serde_json};
