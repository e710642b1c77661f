//! What came of a call.

use std::{error::Error, fmt};

use serde::{Deserialize, Serialize};

use crate::{CallEnd, Id, ToolResult, agui::Content};

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolOutcome {
    /// The tool answered.
    Done {
        /// The answer.
        content: Content,
    },
    /// The tool failed, took too long, or could not be called.
    Failed {
        /// Why, for the model.
        why: String,
    },
    /// Nobody waits for it any more.
    Cancelled,
}

/// Why a tool failed, for the model. Any error becomes one by `?`.
///
/// Like `anyhow::Error` it is no [`Error`] itself, so that every error can become one.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolError {
    message: String,
}

impl ToolOutcome {
    /// The same as an answer in the conversation.
    #[must_use]
    pub fn into_result(self, call_id: Id) -> ToolResult {
        let (content, end) = match self {
            Self::Done { content } => (content, CallEnd::Done),
            Self::Failed { why } => (Content::Text(why), CallEnd::Failed),
            Self::Cancelled => {
                (Content::Text("the call was cancelled".to_owned()), CallEnd::Cancelled)
            }
        };
        ToolResult { call_id, content, end }
    }
}

impl ToolError {
    /// A failure in the words of whatever can be shown.
    #[must_use]
    pub fn new(why: impl fmt::Display) -> Self {
        // The alternate form tells of the whole chain, where there is one.
        Self { message: format!("{why:#}") }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.message, f)
    }
}

impl<E: Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_said = cause.to_string();
            // Some errors already tell of their cause.
            if !message.contains(&cause_said) {
                message.push_str(": ");
                message.push_str(&cause_said);
            }
            source = cause.source();
        }
        Self { message }
    }
}
