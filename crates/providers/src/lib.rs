//! Model adapters, one module for each wire, and a model that needs none.

pub mod scripted;
