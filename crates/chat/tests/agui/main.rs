//! AG-UI: its words, their order, the messages they tell of, and messages of other shapes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod convert;
mod dice;
mod events;
mod sequences;
mod talk;
mod transcript;
mod verify;
