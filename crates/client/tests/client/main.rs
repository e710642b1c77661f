//! The client against our own server, and against servers that break in every way we know.

mod producer;
mod reader;
mod retry;
mod subscriptions;
mod support;
