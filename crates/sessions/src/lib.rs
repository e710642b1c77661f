//! The service in front of agents. So far it has one door: [`handle_wake`], where a server that
//! keeps subscriptions wakes the runners of this process.
//!
//! It is a handler for axum, to be put wherever an application wants it. What is HTTP ends here:
//! the signature is checked by [`agent::lifecycle::KeyRing`], the work is run by
//! [`agent::lifecycle::WebhookDesk`].
//!
//! ```
//! use std::{convert::Infallible, sync::Arc};
//!
//! use agent::lifecycle::{DeskSettings, Finish, Session, WebhookDesk};
//! use axum::{Router, routing::post};
//! use sessions::{WakeDoor, handle_wake};
//! use wake::Subscriptions;
//!
//! fn router(sys: &sys::Sys, subscriptions: Arc<dyn Subscriptions>) -> Router {
//!     let work = |_: Session| async { Ok::<_, Infallible>(Finish::Done) };
//!     let desk = WebhookDesk::new(sys, subscriptions.clone(), DeskSettings::default(), work);
//!     let door = WakeDoor::new(sys, subscriptions, desk);
//!     Router::new().route("/wake", post(handle_wake)).with_state(door)
//! }
//! ```

pub mod caps;
mod problem;
mod wake_door;

pub use wake_door::{WakeDoor, handle_wake};

/// The guide's snippets, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/subscriptions.md")]
pub struct Guide;
