//! An agent in a session: what it writes, and how it goes on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answers;
mod bounds;
mod breaking;
mod chunks;
mod counted;
mod elsewhere;
mod fences;
mod flat;
mod goes_on;
mod history;
mod requests;
mod spans;
mod stops;
mod support;
mod tools;
mod waits;
