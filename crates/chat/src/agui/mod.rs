//! AG-UI 1.0: the words that front ends and agents share.
//!
//! Events, messages and run inputs as they travel. What is absent is left out and never `null`;
//! what is unknown passes through unchanged; the `null`s and the older names of the versions before
//! 1.0 are understood when read.

mod event;
mod message;
pub mod ours;
mod run;

pub use event::*;
pub use message::*;
pub use run::*;
