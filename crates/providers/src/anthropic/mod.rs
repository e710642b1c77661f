//! Anthropic: the Messages API.
//!
//! [`AnthropicDecoder`] reads an answer: blocks by their index, thoughts with their signatures,
//! tools that Anthropic runs with what came of them as the wire writes it, so that it can be sent
//! back. Only `message_stop`, or a stop reason with every block ended, makes an answer whole.

mod body;
mod decode;
mod encode;
mod failure;
mod frame;
mod generation;
mod schema;
#[cfg(test)]
mod tests;
mod turns;
mod wire;

pub use decode::AnthropicDecoder;

/// What errors and model names call it.
const PROVIDER: &str = "anthropic";
