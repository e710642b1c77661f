//! The rows of the one table, as our source reads them.

use live::Row;
use serde::{Deserialize, Serialize};

/// A row with a column of every kind that is told apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
pub struct Todo {
    /// The key, which may be beyond what a float can count.
    pub id: i64,
    /// What is to be done.
    pub text: String,
    /// Whether it is.
    pub done: bool,
    /// How well.
    pub score: Option<f64>,
    /// Many texts.
    pub tags: Option<Vec<Option<String>>>,
    /// Anything.
    pub meta: Option<serde_json::Value>,
    /// A number of any precision.
    pub amount: Option<String>,
    /// Who does it.
    pub owner: Option<String>,
}
