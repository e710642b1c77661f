//! The other end of HTTP: what Headwater asks of servers, its own and others.
//!
//! [`Client`] knows a server, [`Stream`] one of its streams. A [`Reader`] follows one through
//! whatever breaks on the way, a [`Producer`] appends to one exactly once. [`HttpLog`] is a
//! [`log::Log`] and [`HttpSubscriptions`] are [`wake::Subscriptions`], so everything above runs
//! against a server as it runs in one process. [`Webhooks`] carries the wakes of `wake` to the URLs
//! that clients gave, and to no place that a client should not reach through us (`target`).
//!
//! ```no_run
//! use client::{Client, Live, NewStream, Settings, OffsetToken};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let sys = sys::Sys::real();
//! let client = Client::connect(&sys, Settings::new("http://127.0.0.1:4437")?).await?;
//! let chat = client.stream(&"chats/42".parse()?);
//! let json = Some("application/json".parse()?);
//! chat.create(NewStream { content_type: json, ..NewStream::default() }).await?;
//!
//! let producer = chat.producer("worker-7".parse()?).start().await?;
//! let ticket = producer.append(r#"{"text":"hello"}"#).await?;
//! println!("stored before {}", ticket.await?.tail);
//!
//! let mut reader = chat.reader(OffsetToken::start(), Live::Auto);
//! while let Some(batch) = reader.next().await? {
//!     println!("{} values, next at {}", batch.values()?.len(), batch.next);
//! }
//! # Ok(()) }
//! ```
//!
//! In reading order: `settings` say which server and who we are; `transport` makes a request, again
//! where that is safe (`retry`), and `failure` is what may come of it; `stream`, `reader` and
//! `producer` are for any server; `http_log` and `subscriptions` are the contracts over HTTP.

/// The guide's snippets, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
pub struct Guide;

pub mod caps;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod http_log;
mod producer;
mod reader;
mod retry;
mod settings;
mod stream;
mod subscriptions;
mod target;
mod token;
mod transport;
mod webhooks;

pub use failure::{Failure, Refusal};
pub use http_log::HttpLog;
pub use producer::{
    BadProducerSettings, Permit, Producer, ProducerError, ProducerSettings, Receipt, Ticket,
};
pub use reader::{Batch, Live, Reader};
pub use retry::{BadRetry, Retry};
pub use settings::{BadBearer, BadUrl, Badge, Bearer, Extras, Settings};
pub use stream::{Body, Client, Dialect, Facts, Made, NewStream, Stored, Stream};
pub use subscriptions::HttpSubscriptions;
pub use token::{BadOffsetToken, OffsetToken};
pub use webhooks::Webhooks;
