//! How a collection is doing.

use std::sync::Arc;

/// How the source of a collection is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nobody has asked for its rows.
    Idle,
    /// Its first rows are on their way.
    Loading,
    /// It shows all rows there are.
    Ready,
    /// Its source has given up.
    Error(Arc<str>),
}
