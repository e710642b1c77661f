//! Model adapters, one module for each wire, and a model that needs none.

pub mod anthropic;
mod blocks;
mod by_name;
mod call_id;
pub mod caps;
pub mod gemini;
mod halves;
mod inexpressible;
mod json;
mod key;
pub mod lines;
pub mod ollama;
pub mod openai;
mod pieces;
pub mod schema;
pub mod scripted;
pub mod sse;
mod transport;
mod wire;

pub use anthropic::Anthropic;
pub use by_name::by_name;
pub use gemini::Gemini;
pub use key::Key;
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use transport::{PlainHttp, TransportSettings};
pub use wire::Decoder;

/// A variable of the environment of this process.
#[must_use]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
