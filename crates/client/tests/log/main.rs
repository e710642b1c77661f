//! A log over HTTP keeps the contract of every log: one suite, against our own server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use client::{Client, Dialect, HttpLog, Settings};
use log::{MemoryLog, suite::Subject};
use sys::Sys;
use tokio::runtime::{Builder, Runtime};

/// A log behind a server of its own; both end with the runtime of the test.
async fn ours() -> Subject {
    let sys = Sys::real();
    let settings = server::Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        long_poll_timeout: Duration::from_millis(500),
        ..server::Settings::default()
    };
    let log = Arc::new(MemoryLog::new(&sys));
    let server = server::Server::bind(log, sys.clone(), settings).await.unwrap();
    let url = format!("http://{}", server.local_addr());
    sys.spawn.task("server", server.run(std::future::pending()));
    let client = Client::connect(&sys, Settings::new(&url).unwrap()).await.unwrap();
    assert_eq!(client.dialect(), Dialect::Headwater);
    Subject { log: Arc::new(HttpLog::new(client)), sys, is_remote: true }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

log::suite!(ours, runtime());
