//! How a tool is made. Whatever is wrong with one is said here, not at its first call.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Approval, BadSchema, Effect, IntoContent, Place, Schema, Tool, ToolContext, ToolError,
    ToolSpec,
    definition::{ToolParts, Work},
    schema::shortened,
};
use crate::{Id, caps::TOOL_NAME_LEN_MAX};

/// A tool in the making, which takes arguments of type `A`.
#[must_use = "a tool is made by `run` or `client`"]
pub struct ToolBuilder<A> {
    spec: ToolSpec,
    approval: Approval,
    arguments: PhantomData<fn(A)>,
}

/// Why a tool cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTool {
    /// Its name is none that every provider allows.
    #[error(
        "{name:?} cannot be the name of a tool: use 1 to {TOOL_NAME_LEN_MAX} of the letters a-z \
         and A-Z, digits, `_` and `-`"
    )]
    Name {
        /// The name.
        name: Id,
    },
    /// The schema of its arguments is no JSON Schema.
    #[error("the schema of the arguments of {name:?} is no JSON Schema: {why}")]
    Input {
        /// The tool.
        name: Id,
        /// What is wrong with it.
        why: BadSchema,
    },
    /// The schema of its arguments is not that of an object.
    #[error(
        "the schema of the arguments of {name:?} is not that of an object: models name arguments, \
         so give it `\"type\": \"object\"`, or use a struct with named fields"
    )]
    NoObject {
        /// The tool.
        name: Id,
    },
    /// The schema of its answers is no JSON Schema.
    #[error("the schema of the answers of {name:?} is no JSON Schema: {why}")]
    Output {
        /// The tool.
        name: Id,
        /// What is wrong with it.
        why: BadSchema,
    },
}

impl ToolBuilder<Value> {
    pub(super) fn new(name: Id, description: String) -> Self {
        let input = json!({"type": "object", "properties": {}});
        let spec = ToolSpec::new(name, description, input);
        Self { spec, approval: Approval::Never, arguments: PhantomData }
    }

    /// What its arguments are. Set it before `approve_when`.
    pub fn input<T: DeserializeOwned + JsonSchema>(mut self) -> ToolBuilder<T> {
        self.spec.input = Schema::value_of::<T>();
        if let Value::Object(fields) = &mut self.spec.input {
            // The name of a type tells a model nothing, and costs tokens in every turn.
            fields.remove("title");
        }
        let Self { spec, approval, .. } = self;
        ToolBuilder { spec, approval, arguments: PhantomData }
    }

    /// What its arguments are, as a JSON Schema of an object.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.spec.input = schema;
        self
    }
}

impl<A: DeserializeOwned + 'static> ToolBuilder<A> {
    /// What its answers are.
    pub fn output<T: JsonSchema>(self) -> Self {
        self.output_schema(Schema::value_of::<T>())
    }

    /// What its answers are, as a JSON Schema.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.spec.output = Some(schema);
        self
    }

    /// A person must agree to every call.
    pub fn needs_approval(mut self) -> Self {
        self.approval = Approval::Always;
        self
    }

    /// A person must agree to calls with such arguments.
    pub fn approve_when(mut self, rule: impl Fn(&A) -> bool + Send + Sync + 'static) -> Self {
        self.approval = Approval::When(Arc::new(move |arguments: &Value| {
            // What cannot be read is not for the rule to wave through.
            A::deserialize(arguments).map_or(true, |arguments| rule(&arguments))
        }));
        self
    }

    /// A model first hears only of its name.
    pub const fn lazy(mut self) -> Self {
        self.spec.lazy = true;
        self
    }

    /// What it means to run it twice. Unless it says otherwise, that must not happen.
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.spec.effect = effect;
        self
    }

    /// How long it may take.
    pub const fn time_max(mut self, time_max: Duration) -> Self {
        self.spec.time_max = time_max;
        self
    }

    /// Bytes of its answer. A longer text is cut.
    pub const fn output_bytes_max(mut self, bytes: usize) -> Self {
        self.spec.output_bytes_max = bytes;
        self
    }

    /// A tool that runs with whoever started the run.
    ///
    /// # Errors
    /// If its name or a schema cannot be used.
    pub fn client(mut self) -> Result<Tool, BadTool> {
        self.spec.place = Place::Client;
        self.build(None)
    }

    /// A tool that does this. It answers with anything that can be written as JSON; any error
    /// becomes a [`ToolError`] by `?`, and the model is told.
    ///
    /// # Errors
    /// If its name or a schema cannot be used.
    pub fn run<F, Fut, T>(self, work: F) -> Result<Tool, BadTool>
    where
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
        T: IntoContent,
    {
        let name = self.spec.name.clone();
        let work: Work = Box::new(move |arguments, context| match read::<A>(&arguments) {
            Ok(arguments) => {
                let answer = work(arguments, context);
                Box::pin(async move { answer.await?.into_content() })
            }
            Err(why) => {
                let why = format!("the arguments of {name:?} do not fit: {why}");
                Box::pin(std::future::ready(Err(ToolError::new(why))))
            }
        });
        self.build(Some(work))
    }

    fn build(self, work: Option<Work>) -> Result<Tool, BadTool> {
        let Self { spec, approval, .. } = self;
        let name = spec.name.clone();
        if !is_name(&name) {
            return Err(BadTool::Name { name });
        }
        if spec.input.get("type") != Some(&json!("object")) {
            // What is no schema at all is said to be none.
            return Err(match Schema::new(spec.input) {
                Err(why) => BadTool::Input { name, why },
                Ok(_) => BadTool::NoObject { name },
            });
        }
        let input = match Schema::new(spec.input.clone()) {
            Ok(input) => input,
            Err(why) => return Err(BadTool::Input { name, why }),
        };
        let output = match spec.output.clone().map(Schema::new).transpose() {
            Ok(output) => output,
            Err(why) => return Err(BadTool::Output { name, why }),
        };
        let spec = Arc::new(spec);
        let typed = |arguments: &Value| read::<A>(arguments).map(|_| ());
        Ok(Tool { parts: Arc::new(ToolParts { spec, approval, input, output, typed, work }) })
    }
}

impl<A> fmt::Debug for ToolBuilder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolBuilder")
            .field("spec", &self.spec)
            .field("approval", &self.approval)
            .finish()
    }
}

/// Arguments of a type, or what keeps them from being such, with the place it is about.
fn read<A: DeserializeOwned>(arguments: &Value) -> Result<A, String> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let place: String = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                serde_path_to_error::Segment::Seq { index } => Some(format!("/{index}")),
                serde_path_to_error::Segment::Map { key } => Some(format!("/{key}")),
                serde_path_to_error::Segment::Enum { .. }
                | serde_path_to_error::Segment::Unknown => None,
            })
            .collect();
        let why = error.inner();
        shortened(if place.is_empty() { why.to_string() } else { format!("{place}: {why}") })
    })
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=TOOL_NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_letter)
}
