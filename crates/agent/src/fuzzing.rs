//! What the fuzz target may reach.

pub use crate::session::{fuzz_page, fuzz_snapshot};
