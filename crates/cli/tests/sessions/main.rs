//! Sessions as a stranger meets them: `dev`, `chat` and `inspect`, as real processes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "a test stands outside of the program")]

mod chat;
mod dev;
mod inspect;
mod readers;
mod world;
