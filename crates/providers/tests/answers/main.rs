//! Answers as providers stream them, and the blocks that are read from them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should fail")]

mod anthropic;
mod gemini;
mod told;
