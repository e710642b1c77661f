//! Why an agent cannot be started, or has ended.

use chat::BadToolbox;

use crate::{caps::AGENT_NAME_BYTES_MAX, journal::JournalError};

/// Why an agent cannot be started, or has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A name that cannot be part of ids.
    #[error(
        "an agent cannot be called {name:?}; use up to {AGENT_NAME_BYTES_MAX} letters, digits, \
         '.', '_' and '-'"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// Nobody to ask.
    #[error("the agent {name:?} has no model; give it one with `.model(..)`")]
    NoModel {
        /// The agent.
        name: String,
    },
    /// A tool whose calls somebody must agree to.
    #[error(
        "the tool {tool:?} asks for approval, and nobody can give it to an agent; run it with \
         `chat()`, or take the approval off"
    )]
    NeedsApproval {
        /// The tool.
        tool: String,
    },
    /// Tools that do not go together.
    #[error(transparent)]
    Tools(#[from] BadToolbox),
    /// The session cannot be read.
    #[error("the session cannot be read: {0}")]
    Unreadable(String),
    /// It was stopped before that.
    #[error("the agent was stopped; whoever starts it again goes on")]
    Stopped,
    /// What the agent writes was not taken.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl AgentError {
    /// Whether another runner does its work now.
    #[must_use]
    pub const fn is_taken_over(&self) -> bool {
        matches!(self, Self::Journal(JournalError::TakenOver { .. }))
    }

    /// The takeover by which another runner does its work now, if one does.
    #[must_use]
    pub const fn taken_over_by(&self) -> Option<u64> {
        match self {
            Self::Journal(JournalError::TakenOver { epoch }) => Some(*epoch),
            _ => None,
        }
    }

    /// Whether starting it again may fare better.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unreadable(_)
                | Self::Stopped
                | Self::Journal(JournalError::Stream(_) | JournalError::Ended(_))
        )
    }
}
