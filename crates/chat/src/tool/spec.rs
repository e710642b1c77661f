//! What a model and a machine know of a tool.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Id,
    caps::{TOOL_OUTPUT_BYTES_DEFAULT, TOOL_TIME_DEFAULT},
};

/// A tool, without what it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// What it is called.
    pub name: Id,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub input: Value,
    /// The JSON Schema of its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Where it runs.
    pub place: Place,
    /// What it means to run it twice.
    pub effect: Effect,
    /// Whether a model first hears only of its name.
    #[serde(default)]
    pub lazy: bool,
    /// How long it may take.
    pub time_max: Duration,
    /// Bytes of its answer; what is longer is cut.
    pub output_bytes_max: usize,
}

/// Where a tool runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Here.
    #[default]
    Server,
    /// With whoever started the run.
    Client,
}

/// What it means to run a tool twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Nothing: it only reads.
    Pure,
    /// Nothing, as long as it gets the same key.
    Idempotent,
    /// It must not happen.
    #[default]
    Once,
}

impl ToolSpec {
    /// A tool that runs here, with the bounds that all have.
    #[must_use]
    pub fn new(name: impl Into<Id>, description: impl Into<String>, input: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input,
            output: None,
            place: Place::default(),
            effect: Effect::default(),
            lazy: false,
            time_max: TOOL_TIME_DEFAULT,
            output_bytes_max: TOOL_OUTPUT_BYTES_DEFAULT,
        }
    }
}
