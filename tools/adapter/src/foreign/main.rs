//! The suite of every log, against a server that is not ours.
//!
//! `foreign-log URL SERVER` runs each test below a path of its own, and demands that exactly those
//! fail that `exceptions` names for this server: an exception that is none any more is a fault,
//! too. What it found out goes to standard output as JSON.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it reports to whoever started it")]
#![allow(clippy::disallowed_methods, reason = "this runs tests on real threads")]

mod exceptions;

use std::{panic, process::ExitCode, sync::Arc, thread, time::Duration};

use client::{Client, HttpLog, Retry, Settings};
use log::suite::{self, Subject, Test};
use serde_json::json;
use sys::Sys;
use tokio::runtime::Builder;

/// Tests that run at a time; most of them wait.
const TOGETHER: usize = 40;
/// How long a test may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(server)) = (args.next(), args.next()) else {
        eprintln!("usage: foreign-log URL npm|rust");
        return ExitCode::from(2);
    };
    let exceptions = exceptions::of(&server);
    // Servers keep what earlier runs left behind.
    let url = format!("{url}/v1/stream/{:x}", Sys::real().chance.below(u64::MAX));
    // What is expected to fail need not be told in full.
    panic::set_hook(Box::new(|_| {}));
    let (mut passed, mut excepted, mut faults) = (0, 0, Vec::new());
    for tests in suite::all().chunks(TOGETHER) {
        let running: Vec<_> = tests.iter().map(|test| begin(url.clone(), *test)).collect();
        for ((name, _), run) in tests.iter().zip(running) {
            let outcome = run.join().map_err(|payload| told(&*payload));
            match (outcome, exceptions.iter().find(|(excepted, _)| excepted == name)) {
                (Ok(()), None) => passed += 1,
                (Err(_), Some(_)) => excepted += 1,
                (Ok(()), Some((_, why))) => {
                    let message = format!("passes, although: {why}");
                    faults.push(json!({ "name": name, "message": message }));
                }
                (Err(message), None) => faults.push(json!({ "name": name, "message": message })),
            }
        }
    }
    let report = json!({ "passed": passed, "excepted": excepted, "faults": faults });
    println!("{report}");
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a test on a thread of its own, below a path of its own.
fn begin(url: String, (name, test): (&'static str, Test)) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime on this thread needs nothing");
        runtime.block_on(async {
            let sys = Sys::real();
            let root = format!("{url}/{}", name.replace("::", "/"));
            let mut settings = Settings::new(&root).expect("the URL leads to a server");
            // A server that has ended is not asked again and again by every test.
            settings.retry = Retry::NEVER;
            let client = Client::new(&sys, settings);
            let log = Arc::new(HttpLog::new(client));
            let clock = sys.clock.clone();
            let test = test(Subject { log, sys, is_remote: true });
            clock.timeout(PATIENCE, test).await.expect("a test ends in time");
        });
    })
}

fn told(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "it panicked".to_owned())
}
