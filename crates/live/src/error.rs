//! What can go wrong.

use std::fmt;

use query::{QueryError, WriteError};

use crate::collection::SourceFailed;

/// Something was asked of a database that cannot be. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    /// The query cannot be run.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The write cannot be.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A collection of this name is there already.
    #[error("there is a collection {name:?} already")]
    DuplicateCollection {
        /// The name.
        name: String,
    },
    /// No such collection.
    #[error("there is no collection {name:?}; add it before it is used")]
    UnknownCollection {
        /// The name.
        name: String,
    },
    /// Writes to collections that cannot be written together.
    #[error("a transaction cannot write to {first:?} and {second:?}: they have different sources")]
    MixedSources {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A client whose name cannot be one.
    #[error("{why}")]
    BadClient {
        /// What is wrong with it.
        why: String,
    },
    /// A durable effect whose query needs what is not in its stream.
    #[error(
        "a durable effect reads its stream alone, and not what else the database has, such as \
         local collections and queries with a name: {why}"
    )]
    NotOfTheStream {
        /// What it lacks.
        why: String,
    },
    /// Queries ask for more different parts of a collection than may be loaded.
    #[error(
        "more than {} subsets of {name:?} are in use; drop queries that nobody looks at, or ask \
         for wider ones",
        crate::caps::SUBSETS_MAX
    )]
    TooManySubsets {
        /// The collection.
        name: String,
    },
    /// An action is called faster than it is carried out.
    #[error("{} calls of this action wait already; try again later", crate::caps::PACED_MAX)]
    TooManyCalls,
    /// An action that the outbox does not know.
    #[error("the outbox knows no action {name:?}; add it to its builder")]
    UnknownAction {
        /// The name.
        name: String,
    },
    /// Variables of an action that cannot be written down, or are not what it takes.
    #[error("the variables of action {action:?} are not what it takes: {why}")]
    BadVariables {
        /// The action.
        action: String,
        /// What is wrong with them.
        why: String,
    },
    /// A source has given up.
    #[error(transparent)]
    Source(#[from] SourceFailed),
    /// The database was dropped.
    #[error("the database is gone")]
    Gone,
    /// A collection whose source takes no writes.
    #[error("the source of {name:?} takes no writes")]
    ReadOnly {
        /// The collection.
        name: String,
    },
}

impl DbError {
    /// True if the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Write(WriteError::TooManyPending { .. })
                | Self::TooManySubsets { .. }
                | Self::TooManyCalls
        )
    }

    /// True if it is certain that nothing changed. Always.
    #[must_use]
    pub fn has_no_side_effects(&self) -> bool {
        true
    }
}

/// A write that was shown could not be made to last, and is not shown any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct PersistError {
    /// What went wrong.
    pub why: String,
    /// Whether the same write may succeed later.
    pub is_retryable: bool,
}

impl PersistError {
    /// An error that will not go away by itself.
    #[must_use]
    pub fn fatal(why: impl fmt::Display) -> Self {
        Self { why: why.to_string(), is_retryable: false }
    }

    /// An error that may go away by itself.
    #[must_use]
    pub fn retryable(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_retryable: true }
    }

    /// True if the same write may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.is_retryable
    }
}
