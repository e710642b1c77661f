//! A server that speaks the wires of model providers, for tests.
//!
//! It is written from what the providers say of their wires, not from our decoders; that it is
//! like them is shown by their own SDKs, which read it in `tools/conformance`. The *name of the
//! model* in a request picks the scenario, so an SDK and we can ask for the same.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let fixture = models::Fixture::start(&sys::Sys::real()).await?;
//! println!("{}/anthropic", fixture.url());
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: `scenario` is what can happen, `script` is what the model says then, `wire` puts
//! it into the words of each provider, `refusal` says no in them, `fault` breaks the bytes,
//! `request` and `history` look at what is asked as a provider would, `server` serves.

pub mod caps;
mod fault;
mod history;
mod refusal;
mod request;
mod scenario;
mod script;
mod server;
mod wire;

pub use scenario::Scenario;
pub use server::Fixture;
pub use wire::Wire;
