//! What agents are made of.
//!
//! [`rows`] says what a session holds. [`Agent`] answers what is said to it, writes down every step
//! before it takes the next, and goes on after a crash where it was. What it is made of can be
//! used alone, with rows of your own ([`contract`]): tools whose calls are rows ([`ToolExt`],
//! [`durable_tools`]), the [`ToolExecutor`] that runs them in any process, the [`Generator`] that
//! answers rows of a query, [`stream_to_collection`] that keeps what a model says while it says
//! it, and [`durable_chat`] that puts them together. [`lifecycle`] is for runners that are woken:
//! how one takes its wake, keeps it while it works, says how far it has come, and gives it back.
//!
//! All of it runs over any `log::Log` and any `live` collection, in one process or far away from
//! both, and knows no HTTP and no vendor.
//!
//! ```
//! use std::{convert::Infallible, sync::Arc};
//!
//! use agent::lifecycle::{Finish, PullWakeLifecycle, Session, WakeFeed, run_with_lifecycle};
//! use log::{Append, Create, Log, MemoryLog};
//! use wake::{Config, Delivery, Engine, Keys, NoCourier, Subscriptions};
//! use wire::{ContentType, Messages, StreamPath};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let sys = sys::Sys::real();
//! let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
//! let keys = Arc::new(Keys::generate(&sys.chance));
//! let engine = Engine::open(log.clone(), &sys, Arc::new(NoCourier), keys).await?;
//!
//! let [chat, wake]: [StreamPath; 2] = ["chat".parse()?, "wake".parse()?];
//! for stream in [&chat, &wake] {
//!     let json = Create { content_type: Some(ContentType::json()), ..Create::default() };
//!     log.create(&stream.clone().into(), json).await?;
//! }
//! let mut config = Config::new(Delivery::PullWake(wake.clone()));
//! config.streams.insert(chat.clone());
//! engine.create(&"agents".parse()?, config, String::new()).await?;
//!
//! let worker = PullWakeLifecycle::new(Arc::new(engine), "agents".parse()?, "worker-1")?;
//! let mut wakes = WakeFeed::open(log.clone(), wake).await?;
//! log.append(&chat.clone().into(), Append::messages(Messages::one(r#""hello""#)?)).await?;
//! wakes.next().await?;
//! let ran = run_with_lifecycle(&sys, Arc::new(worker), |session: Session| async move {
//!     assert_eq!(session.streams()[0].link.path, chat);
//!     Ok::<_, Infallible>(Finish::Done)
//! });
//! assert!(!ran.await?.next_wake, "there is nothing left to do");
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

/// The guide, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agents.md")]
pub struct Guide;

mod agent;
mod call_ages;
pub mod caps;
mod claims;
mod content;
pub mod contract;
mod conversation;
mod durable_chat;
mod durable_tool;
mod executor;
mod foreman;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod generator;
mod holds;
mod journal;
mod lease;
pub mod lifecycle;
pub mod rows;
pub mod session;
mod stops;
mod stream;
mod table;

pub use agent::{
    Activity, Agent, AgentBuilder, AgentError, Flush, History, Partial, RunningAgent, SessionAgent,
};
pub use call_ages::CallAges;
pub use contract::BrokenContract;
pub use durable_chat::{DurableChat, DurableChatError, durable_chat};
pub use durable_tool::{
    Asking, ToolExt, WaitError, cancel_calls, check_job, durable_tools, read_answer,
    wait_for_result,
};
pub use executor::{BadExecutor, LatePolicy, ToolExecutor, ToolExecutorBuilder};
pub use generator::{GenerationContext, Generator, GeneratorBuilder};
pub use holds::oldest_open;
pub use journal::JournalError;
pub use lease::{Home, Lease};
pub use stream::{
    StreamEnd, StreamError, StreamTo, Streamed, end_chunks, stream_to_collection, text_of,
};
pub use table::{Table, TableError, Write};
