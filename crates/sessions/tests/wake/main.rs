//! Wakes over real HTTP: a server with subscriptions, its courier, and a door behind a socket.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod pull;
mod refusals;
mod support;
mod work;
