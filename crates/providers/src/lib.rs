//! Model adapters, one module for each wire, and a model that needs none.
#![allow(dead_code, reason = "the wires that use it come one by one")]

pub mod caps;
mod key;
pub mod lines;
pub mod scripted;
pub mod sse;
mod transport;
mod wire;

pub use key::Key;
pub use transport::{PlainHttp, TransportSettings};
pub use wire::Decoder;
