//! What people do in sessions, over HTTP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod create;
mod messages;
mod resolve;
mod support;
mod token;
