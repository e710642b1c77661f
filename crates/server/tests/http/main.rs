//! What clients see, over real sockets on loopback.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod append;
mod auth;
mod browsers;
mod compression;
mod create;
mod delete;
mod fairness;
mod follow;
mod http1;
mod limits;
mod list;
mod neighbour;
mod observe;
mod protocols;
mod raw_http2;
mod read;
mod shutdown;
mod strictness;
mod subscriptions;
mod support;
