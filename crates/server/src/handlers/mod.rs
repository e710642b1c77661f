//! One handler per method: parse, ask the log, answer.

mod append;
mod create;
mod delete;
mod head;
mod list;
mod observe;
mod read;
mod subscriptions;

pub(crate) use append::append;
pub(crate) use create::create;
pub(crate) use delete::delete;
pub(crate) use head::head;
pub(crate) use list::list;
pub(crate) use observe::{health, metrics, ready};
pub(crate) use read::{counted_read, messages, read, refuse_lost};
#[cfg(fuzzing)]
pub(crate) use subscriptions::fuzz as read_subscription;
pub(crate) use subscriptions::subscriptions;
