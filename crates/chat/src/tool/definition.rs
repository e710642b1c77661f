//! A tool: what is known of it, and when a person is asked.

use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use super::ToolSpec;
use crate::Id;

/// Something that a model may call. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tool {
    spec: Arc<ToolSpec>,
    approval: Approval,
}

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

impl Tool {
    /// A tool that runs elsewhere.
    #[must_use]
    pub fn new(spec: ToolSpec, approval: Approval) -> Self {
        Self { spec: Arc::new(spec), approval }
    }

    /// What is known of it.
    #[must_use]
    pub const fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// Whether a person must agree to a call with these.
    #[must_use]
    pub fn needs_approval(&self, arguments: &Value) -> bool {
        match &self.approval {
            Approval::Never => false,
            Approval::Always => true,
            Approval::When(rule) => rule(arguments),
        }
    }

    /// Reads the arguments that a model wrote. Nothing and `null` are no arguments.
    ///
    /// # Errors
    /// If they are no JSON object, or do not fit the schema.
    pub fn check(&self, arguments: &str) -> Result<Value, BadArguments> {
        let bad = |why| BadArguments { tool: self.spec.name.clone(), why };
        if arguments.trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        match serde_json::from_str(arguments) {
            Ok(Value::Null) => Ok(Value::Object(Map::new())),
            Ok(Value::Object(object)) => Ok(Value::Object(object)),
            Ok(_) => Err(bad("are no JSON object".to_owned())),
            Err(error) => Err(bad(format!("are no JSON: {error}"))),
        }
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
