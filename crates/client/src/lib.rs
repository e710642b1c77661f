//! The other end of HTTP: what Headwater asks of servers that are not its own.
//!
//! So far that is calling webhooks: [`Webhooks`] carries the wakes of `wake` to the URLs that
//! clients gave, and to no place that a client should not reach through us (`target`).

#[cfg(fuzzing)]
pub mod fuzzing;
mod target;
mod webhooks;

pub use webhooks::Webhooks;
