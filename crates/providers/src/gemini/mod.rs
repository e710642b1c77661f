//! Gemini: `streamGenerateContent` of Google's Gemini API.
//!
//! [`GeminiDecoder`] reads an answer: adjacent words of one kind are one block, a signed part ends
//! its block, calls come whole. Only a `finishReason`, or the reason why a question is not let
//! through, makes an answer whole.

mod decode;
mod failure;
mod frame;

pub use decode::GeminiDecoder;

/// What errors and model names call it.
const PROVIDER: &str = "gemini";
/// What calls of the code that Gemini runs are named.
const CODE_EXECUTION: &str = "code_execution";
