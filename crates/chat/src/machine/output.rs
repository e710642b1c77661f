//! Answers by a schema: how a model is asked for one, and how it is read.

use std::{fmt, sync::Arc};

use jsonschema::Validator;
use serde_json::Value;

use crate::{OutputSpec, Structured, caps::COMPLAINTS_MAX};

/// The shape that the answer of a run must have.
#[derive(Clone)]
pub struct Output {
    spec: OutputSpec,
    how: Structured,
    validator: Arc<Validator>,
}

/// A schema that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the output schema {name:?} is no JSON Schema: {why}")]
pub struct BadSchema {
    /// What the output is called.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

impl Output {
    /// An answer of this shape, from a model that gives it in this way.
    ///
    /// # Errors
    /// If the schema is none.
    pub fn new(spec: OutputSpec, how: Structured) -> Result<Self, BadSchema> {
        let validator = jsonschema::validator_for(&spec.schema);
        let validator = validator
            .map_err(|error| BadSchema { name: spec.name.to_string(), why: error.to_string() })?;
        Ok(Self { spec, how, validator: Arc::new(validator) })
    }

    pub(super) const fn spec(&self) -> &OutputSpec {
        &self.spec
    }

    pub(super) const fn how(&self) -> Structured {
        self.how
    }

    /// What a model that knows no schemas is told.
    pub(super) fn prompt(&self) -> String {
        format!(
            "When you give your final answer, give one JSON value that fits this JSON Schema, and \
             nothing else, without a code fence:\n{}",
            self.spec.schema
        )
    }

    /// Reads an answer; the complaint is for the model.
    pub(super) fn read(&self, text: &str) -> Result<Value, String> {
        let value = serde_json::from_str::<Value>(without_fence(text))
            .map_err(|error| format!("it is no JSON: {error}"))?;
        let complaints = self.validator.iter_errors(&value).take(COMPLAINTS_MAX);
        let complaints: Vec<_> = complaints
            .map(|error| match error.instance_path().as_str() {
                "" => error.to_string(),
                path => format!("{path}: {error}"),
            })
            .collect();
        if complaints.is_empty() { Ok(value) } else { Err(complaints.join("; ")) }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("spec", &self.spec).field("how", &self.how).finish()
    }
}

/// Models like to wrap JSON for people.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    let inner = fenced.and_then(|inner| inner.split_once('\n')).map(|(_, inner)| inner);
    inner.unwrap_or(text).trim()
}
