//! Collections, queries and effects, as a user has them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admits;
mod bounds;
mod breaking;
mod collections;
mod compact;
mod compact_effects;
mod copy;
mod durable;
mod effects;
mod lives;
mod on_demand;
mod once;
mod outbox;
mod stream;
mod wrapped;

use std::{pin::Pin, sync::Arc, time::Duration};

use live::{Field, Row, StreamDb};
use log::{Create, Log, MemoryLog};
use serde::{Deserialize, Serialize};
use sys::Sys;
use wire::{Address, StreamPath};

/// What the tests write about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
struct Message {
    id: String,
    text: String,
    status: Status,
    #[serde(default)]
    likes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Field)]
#[serde(rename_all = "lowercase")]
enum Status {
    Pending,
    Done,
}

/// What handlers write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
struct Reply {
    id: String,
    to: String,
}

fn message(id: &str, status: Status) -> Message {
    Message { id: id.into(), text: format!("text of {id}"), status, likes: 0 }
}

/// A log in memory with one stream.
async fn log_with_stream(sys: &Sys) -> (Arc<dyn Log>, Address) {
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new(sys));
    let address: Address = StreamPath::from_url("sessions/1").unwrap().into();
    let json = "application/json".parse().unwrap();
    let create = Create { content_type: Some(json), ..Create::default() };
    let _ = log.create(&address, create).await.unwrap();
    (log, address)
}

fn open(log: &Arc<dyn Log>, address: &Address, sys: &Sys) -> StreamDb {
    let builder = StreamDb::builder(log.clone(), address.clone(), sys);
    builder.with::<Message>().with::<Reply>().open().unwrap()
}

/// Time passes only when everybody waits, so nothing here is slow and nothing depends on luck.
fn run<F: Future>(test: impl FnOnce(Sys) -> F) -> F::Output {
    run_boxed(Box::pin(async { test(Sys::real()).await }))
}

/// Boxed, so that a runtime is compiled once, and not for every test.
fn run_boxed<T>(test: Pin<Box<dyn Future<Output = T> + '_>>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let within = Duration::from_secs(3_600);
    let outcome = runtime.block_on(async { Sys::real().clock.timeout(within, test).await });
    outcome.expect("the test waits for something that never comes")
}
