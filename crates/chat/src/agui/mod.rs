//! AG-UI 1.0: the words that front ends and agents share.
//!
//! Events, messages, run inputs and capabilities as they travel. What is absent is left out and
//! never `null`. What is unknown passes through unchanged: events, and fields beside the known ones
//! (but not inside an outcome or the source of a picture, which have no others). The `null`s and
//! the older names of the versions before 1.0 are understood when read.

pub mod capabilities;
mod chunks;
mod content;
mod event;
mod legacy;
mod message;
pub mod ours;
mod run;

pub use capabilities::Capabilities;
pub use chunks::{BadChunk, Chunks, Expanded};
pub use content::*;
pub use event::*;
pub use legacy::Upgrade;
pub use message::*;
pub use run::*;

/// The version of the protocol.
pub const PROTOCOL_VERSION: &str = "1.0";
