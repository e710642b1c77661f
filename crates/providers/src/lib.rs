//! Model adapters, one module for each wire.
