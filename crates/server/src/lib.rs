//! Serves any [`log::Log`] over HTTP: the Durable Streams protocol, and a few things beyond it.
//!
//! A request is parsed at the door into the types of `wire`, asked of the log, and answered; every
//! error becomes a status in one place. It keeps no stream state of its own and never looks inside
//! a message.
//!
//! ```
//! use std::sync::Arc;
//! use server::{Server, Settings};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let sys = sys::Sys::real();
//! let log = Arc::new(log::MemoryLog::new(&sys));
//! let settings = Settings { listen: "127.0.0.1:0".parse()?, ..Settings::default() };
//! let server = Server::bind(log, sys, settings).await?;
//! println!("serving on http://{}/v1/stream/", server.local_addr());
//! server.run(async { /* until this ends */ }).await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! In reading order: `settings` is what an operator may change; `server`, `listener`, `connection`
//! and `http1` bring requests in; `service` routes each `call`; `request`, `handlers` and
//! `response` are the way through; `follow` is for readers who stay; `problem` is what they hear
//! when it fails; `neighbour` is for whoever serves other paths of the same address. `auth`,
//! `rate`, `shares`, `flow`, `cors`, `etag`, `compression` and `metrics` each do one thing on that
//! way.

mod auth;
mod call;
mod caps;
mod compression;
mod connection;
mod cors;
mod etag;
mod files;
mod flow;
mod follow;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handlers;
mod http1;
mod listener;
mod metrics;
mod names;
mod neighbour;
mod phase;
mod problem;
mod rate;
mod request;
mod response;
mod route;
mod server;
mod service;
mod settings;
mod shares;
mod tls;

pub use auth::{
    Access, Auth, BadAuth, BadOrigin, Issuer, Jwt, JwtAlgorithm, Origin, Scope, Tokens,
};
pub use files::BadFile;
pub use neighbour::{Neighbour, Refusal, Visit, Visitor};
pub use server::{BindError, Server};
pub use settings::{Limits, Rate, Settings, Tls};
pub use tls::BadTls;
