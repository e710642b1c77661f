//! Model adapters, one module for each wire, and a model that needs none.

#[cfg(feature = "mcp")]
pub mod mcp;
pub mod scripted;
