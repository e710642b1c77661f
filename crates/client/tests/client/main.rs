//! The client against our own server, and against servers that break in every way we know.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod damage;
mod model;
mod producer;
mod reader;
mod retry;
mod subscriptions;
mod support;
