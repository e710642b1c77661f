//! The service in front of agents. So far it has one door: [`handle_wake`], where a server that
//! keeps subscriptions wakes the runners of this process.
//!
//! It is a handler for axum, to be put wherever an application wants it. What is HTTP ends here:
//! the signature is checked by [`agent::lifecycle::KeyRing`], the work is run by
//! [`agent::lifecycle::WebhookDesk`].

pub mod caps;
mod problem;
mod wake_door;

pub use wake_door::{WakeDoor, handle_wake};

/// The guide's snippets, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/subscriptions.md")]
pub struct Guide;
