//! Model adapters, one module for each wire.
#![allow(dead_code, reason = "the wires that use it come one by one")]

pub mod caps;
mod halves;
mod key;
pub mod lines;
pub mod sse;
mod transport;
mod wire;

pub use key::Key;
pub use transport::{PlainHttp, TransportSettings};
pub use wire::Decoder;
