//! Model adapters, one module for each wire.
#![allow(dead_code, reason = "the wires that use it come one by one")]

mod wire;

pub use wire::Decoder;
