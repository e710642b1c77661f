//! The composable primitives over collections of every kind, in simulated time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod chats;
mod contracts;
mod cut;
mod executors;
mod generators;
mod leases;
mod races;
mod streams;
mod support;
mod tools;
mod zombies;
