//! The service in front of agents. [`Actions`] is how people write into sessions: each action
//! knows who acts, checks what is to be written, and appends one row, once. [`Door`] serves actions
//! over HTTP, beside the streams. [`Fleet`] runs an agent in every session that has something for
//! it.
//!
//! [`handle_wake`] is another door, where a server that keeps subscriptions wakes the runners of
//! this process: a handler for axum, to be put wherever an application wants it. The signature is
//! checked by [`agent::lifecycle::KeyRing`], the work is run by
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

mod actions;
pub mod caps;
mod fleet;
mod maintenance;
mod problem;
mod session_id;
mod wake_door;

pub use actions::{ActionError, Actions, Deed, Done, Door, Halt, Pass, Resolve, Say};
pub use fleet::{Fleet, FleetSettings};
pub use session_id::{BadSessionId, SessionId, TENANT};
pub use wake_door::{WakeDoor, handle_wake};

/// The guide's snippets, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/subscriptions.md")]
pub struct Guide;

/// The other guide's.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sessions.md")]
pub struct SessionsGuide;

/// The README's example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
