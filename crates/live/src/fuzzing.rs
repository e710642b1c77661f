//! What the fuzz target may reach.

pub use crate::stream::fuzz_copy;
