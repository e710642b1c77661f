//! A tool: what is known of it, when a person is asked, and how it is called.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use serde_json::{Map, Value};
use sys::Sys;

use super::{
    Schema, ToolBuilder, ToolContext, ToolError, ToolOutcome, ToolSpec,
    content::{capped, capped_failure},
};
use crate::{Id, agui::Content};

/// Something that a model may call. Cheap to clone.
///
/// ```
/// use chat::{Tool, ToolContext, schemars::JsonSchema};
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// #[schemars(crate = "chat::schemars")]
/// struct Place {
///     /// The name of a city.
///     city: String,
/// }
///
/// let weather = Tool::builder("weather", "Tells the weather of today.")
///     .input::<Place>()
///     .run(|place: Place, _context: ToolContext| async move {
///         Ok(format!("It is sunny in {}.", place.city))
///     })?;
/// assert!(weather.check(r#"{"city": "Oslo"}"#).is_ok());
/// assert_eq!(
///     weather.check("{}").unwrap_err().to_string(),
///     r#"the arguments of "weather" do not fit: "city" is required"#,
/// );
/// # Ok::<(), chat::BadTool>(())
/// ```
#[derive(Clone)]
pub struct Tool {
    pub(super) parts: Arc<ToolParts>,
}

pub(super) struct ToolParts {
    pub(super) spec: Arc<ToolSpec>,
    pub(super) approval: Approval,
    pub(super) input: Schema,
    pub(super) output: Option<Schema>,
    /// What the schema cannot tell: whether the arguments are of the type that the tool takes.
    pub(super) typed: fn(&Value) -> Result<(), String>,
    /// None if it runs elsewhere.
    pub(super) work: Option<Work>,
}

/// What a tool does.
pub(super) type Work =
    Box<dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<Content, ToolError>> + Send + Sync>;

/// When a person must agree to a call.
#[derive(Clone, Default)]
pub enum Approval {
    /// Never.
    #[default]
    Never,
    /// Always.
    Always,
    /// If its arguments are such.
    When(Arc<dyn Fn(&Value) -> bool + Send + Sync>),
}

/// Arguments that a tool cannot be called with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arguments of {tool:?} {why}")]
pub struct BadArguments {
    /// The tool.
    pub tool: Id,
    /// What is wrong with them.
    pub why: String,
}

/// An answer that is not what a tool promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer of {tool:?} does not fit: {why}")]
pub struct BadOutput {
    /// The tool.
    pub tool: Id,
    /// What is wrong with it.
    pub why: String,
}

impl Tool {
    /// A tool of this name, and what it is for.
    pub fn builder(name: impl Into<Id>, description: impl Into<String>) -> ToolBuilder<Value> {
        ToolBuilder::new(name.into(), description.into())
    }

    /// What is known of it.
    #[must_use]
    pub fn spec(&self) -> &Arc<ToolSpec> {
        &self.parts.spec
    }

    /// Whether a person must agree to a call with these. A rule that panics says yes.
    #[must_use]
    pub fn needs_approval(&self, arguments: &Value) -> bool {
        match &self.parts.approval {
            Approval::Never => false,
            Approval::Always => true,
            // Whoever cannot say that nobody need agree has not said so.
            Approval::When(rule) => {
                catch_unwind(AssertUnwindSafe(|| rule(arguments))).unwrap_or(true)
            }
        }
    }

    /// Whether there are calls that a person must agree to.
    #[must_use]
    pub fn may_need_approval(&self) -> bool {
        !matches!(self.parts.approval, Approval::Never)
    }

    /// Reads the arguments that a model wrote. Nothing and `null` are no arguments.
    ///
    /// # Errors
    /// If they are no JSON object, or do not fit the schema.
    pub fn check(&self, arguments: &str) -> Result<Value, BadArguments> {
        if arguments.trim().is_empty() {
            return self.check_value(Value::Null);
        }
        match serde_json::from_str(arguments) {
            Ok(value) => self.check_value(value),
            Err(error) => Err(self.bad(format!("are no JSON: {error}"))),
        }
    }

    /// The same for arguments that are read already, such as those that a person has edited.
    ///
    /// # Errors
    /// If they are no object, or do not fit the schema.
    pub fn check_value(&self, arguments: Value) -> Result<Value, BadArguments> {
        let mut arguments = match arguments {
            Value::Null => Value::Object(Map::new()),
            Value::Object(_) => arguments,
            _ => return Err(self.bad("are no JSON object".to_owned())),
        };
        let mut fit = self.parts.input.check(&arguments);
        if fit.is_err() && self.drop_optional_nulls(&mut arguments) {
            fit = self.parts.input.check(&arguments);
        }
        match fit.and_then(|()| (self.parts.typed)(&arguments)) {
            Ok(()) => Ok(arguments),
            Err(why) => Err(self.bad(format!("do not fit: {why}"))),
        }
    }

    /// Whether an answer, such as that of a client, is what the tool promises.
    ///
    /// # Errors
    /// If it does not fit the schema of its answers.
    pub fn check_output(&self, output: &Value) -> Result<(), BadOutput> {
        let Some(schema) = &self.parts.output else { return Ok(()) };
        let tool = self.spec().name.clone();
        schema.check(output).map_err(|why| BadOutput { tool, why })
    }

    /// Calls it. Whatever happens becomes an outcome: it may fail, panic, take too long, say too
    /// much, or be cancelled. A tool that never awaits cannot be stopped.
    pub async fn call(&self, arguments: Value, context: ToolContext, sys: &Sys) -> ToolOutcome {
        let Some(work) = &self.parts.work else {
            let why = format!("{:?} does not run here, but with the client", self.spec().name);
            return ToolOutcome::Failed { why };
        };
        let arguments = match self.check_value(arguments) {
            Ok(arguments) => arguments,
            Err(bad) => return ToolOutcome::Failed { why: bad.to_string() },
        };
        let (cancellation, grace) = (context.cancellation.clone(), context.grace);
        if cancellation.is_cancelled() {
            return ToolOutcome::Cancelled;
        }
        let (context, end) = context.with_own_end(self.spec().name.clone());
        let run = AssertUnwindSafe(async move { work(arguments, context).await }).catch_unwind();
        let mut run = std::pin::pin!(run);
        let outcome = tokio::select! {
            biased;
            () = cancellation.cancelled() => {
                end.cancel();
                match grace.is_zero() {
                    true => ToolOutcome::Cancelled,
                    false => match sys.clock.timeout(grace, &mut run).await {
                        Ok(ended) => self.ended(ended),
                        Err(sys::Elapsed) => ToolOutcome::Cancelled,
                    },
                }
            }
            ended = sys.clock.timeout(self.spec().time_max, &mut run) => match ended {
                Ok(ended) => self.ended(ended),
                Err(sys::Elapsed) => {
                    let seconds = self.spec().time_max.as_secs_f64();
                    self.failed(&format!("has not answered in {seconds} seconds"))
                }
            },
        };
        drop(end);
        outcome
    }

    fn ended(&self, ended: Result<Result<Content, ToolError>, Box<dyn Any + Send>>) -> ToolOutcome {
        match ended {
            Ok(answer) => self.told(answer),
            Err(panic) => self.failed(&format!("panicked: {}", words_of(&*panic))),
        }
    }

    fn told(&self, answer: Result<Content, ToolError>) -> ToolOutcome {
        let capped = answer.and_then(|content| capped(content, self.spec().output_bytes_max));
        match capped {
            Ok(content) => ToolOutcome::Done { content },
            Err(error) => self.failure(error.to_string()),
        }
    }

    fn failed(&self, why: &str) -> ToolOutcome {
        self.failure(format!("the tool {:?} {why}", self.spec().name))
    }

    /// Who fails may say no more than who answers.
    fn failure(&self, why: String) -> ToolOutcome {
        ToolOutcome::Failed { why: capped_failure(why, self.spec().output_bytes_max) }
    }

    fn bad(&self, why: String) -> BadArguments {
        BadArguments { tool: self.spec().name.clone(), why }
    }

    /// Models that must name every argument write `null` for those they leave out.
    fn drop_optional_nulls(&self, arguments: &mut Value) -> bool {
        let Value::Object(fields) = arguments else { return false };
        let required = self.spec().input.get("required").and_then(Value::as_array);
        let is_required = |key: &str| {
            required.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(key)))
        };
        let before = fields.len();
        fields.retain(|key, value| !value.is_null() || is_required(key));
        fields.len() < before
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("spec", self.spec())
            .field("approval", &self.parts.approval)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::Always => "Always",
            Self::When(_) => "When",
        })
    }
}

pub(crate) fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
