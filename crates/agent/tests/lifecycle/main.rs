//! Runners over a real engine, in simulated time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod desk;
mod drain;
mod keyring;
mod pull;
mod run;
mod support;
