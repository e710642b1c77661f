//! Model adapters, one module for each wire, and a model that needs none.
//!
//! A provider's model is a [`chat::Model`]: it is asked with a [`chat::Request`] and streams
//! blocks. A wire puts the request into the provider's words and reads the answer; it is pure. One
//! transport carries all of them: over TLS, with patience that ends, again where nothing was shown
//! yet. It is not a chat loop, and it keeps nothing.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use chat::{Message, ModelEvent, Request, Role};
//! use futures_util::StreamExt;
//!
//! # async fn run() -> Result<(), chat::ModelError> {
//! let sys = sys::Sys::real();
//! let model = providers::by_name("ollama:qwen3", &providers::environment, &sys)?;
//! let question = Message::text("1", Role::User, "Why is the sky blue?");
//! let request = Arc::new(Request { messages: [question].into(), ..Request::default() });
//! let (_canceller, cancellation) = sys::Cancellation::new();
//! let mut answer = model.call(request, cancellation);
//! while let Some(event) = answer.next().await {
//!     if let ModelEvent::More { delta, .. } = event? {
//!         print!("{delta}");
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! In reading order: `wire` is what a wire must do; `openai`, `anthropic`, `gemini` and `ollama` do
//! it; `sse` and `lines` cut bytes into events; `transport` carries; `schema` puts JSON Schemas
//! into strict words; `scripted` needs no provider at all; `by_name` finds them.
//! With the feature `genai`, the crate of that name reaches the long tail.

/// The guide, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/chat.md")]
pub struct Guide;

pub mod anthropic;
mod blocks;
mod builder;
mod by_name;
mod call_id;
pub mod caps;
pub mod gemini;
#[cfg(feature = "genai")]
pub mod genai;
mod halves;
mod inexpressible;
mod json;
mod key;
pub mod lines;
#[cfg(feature = "mcp")]
pub mod mcp;
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
#[cfg(feature = "genai")]
pub use genai::GenAi;
pub use key::Key;
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use transport::{PlainHttp, SIGNATURE_MARK, TransportSettings};
pub use wire::Decoder;

/// A variable of the environment of this process.
#[must_use]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
