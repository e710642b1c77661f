//! What can go wrong between us and the server.

use std::time::Duration;

/// Why a request brought nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// It may go better next time.
    #[error("{why}")]
    Passing {
        why: String,
        /// How long the server wants us to wait.
        after: Option<Duration>,
    },
    /// It will not go better by itself.
    #[error("{0}")]
    Final(String),
}

impl Failure {
    pub(crate) fn passing(why: impl Into<String>) -> Self {
        Self::Passing { why: why.into(), after: None }
    }
}
