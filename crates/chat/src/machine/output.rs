//! Answers by a schema: how a model is asked for one, and how it is read.

use std::sync::Arc;

use serde_json::Value;

use crate::{BadSchema, OutputSpec, Schema, Structured};

/// The shape that the answer of a run must have.
#[derive(Clone, Debug)]
pub struct Output {
    spec: OutputSpec,
    how: Structured,
    schema: Arc<Schema>,
}

impl Output {
    /// An answer of this shape, from a model that gives it in this way.
    ///
    /// # Errors
    /// If the schema is none.
    pub fn new(spec: OutputSpec, how: Structured) -> Result<Self, BadSchema> {
        let schema = Arc::new(Schema::new(spec.schema.clone())?);
        Ok(Self { spec, how, schema })
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
        self.schema.check(&value)?;
        Ok(value)
    }
}

/// Models like to wrap JSON for people.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    let inner = fenced.and_then(|inner| inner.split_once('\n')).map(|(_, inner)| inner);
    inner.unwrap_or(text).trim()
}
