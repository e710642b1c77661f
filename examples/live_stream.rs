//! Two processes that see the same rows: start `cargo run -- dev`, then this in two terminals, and
//! type. Each line becomes a row, is shown here at once, and appears there.
//!
//! `cargo run --example live_stream -- ada`
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::{io::BufRead, sync::Arc};

use client::{Client, HttpLog, Settings};
use live::{Row, StreamDb, from};
use log::{Create, Log};
use serde::{Deserialize, Serialize};
use sys::Sys;
use wire::{Address, StreamPath};

#[derive(Clone, Debug, Serialize, Deserialize, Row)]
struct Line {
    id: String,
    who: String,
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let who = std::env::args().nth(1).unwrap_or_else(|| "somebody".into());
    let url = std::env::args().nth(2).unwrap_or_else(|| "http://127.0.0.1:4437".into());
    let sys = Sys::real();

    println!("connecting to {url}; `cargo run -- dev` starts a server there");
    let log: Arc<dyn Log> =
        Arc::new(HttpLog::new(Client::connect(&sys, Settings::new(&url)?).await?));
    let stream: Address = "examples/lines".parse::<StreamPath>()?.into();
    let json = Create { content_type: Some("application/json".parse()?), ..Create::default() };
    let _ = log.create(&stream, json).await?;

    let db = StreamDb::builder(log, stream, &sys).with::<Line>().client(&who).open()?;
    db.ready().await?;
    let lines = db.rows::<Line>()?;
    println!("{} lines are there; type one", lines.len());

    let typed = read_lines(&sys);
    let mut changes = db.changes(from::<Line>())?;
    let mut typed = std::pin::pin!(typed);
    let mut last = None;
    loop {
        tokio::select! {
            text = typed.recv() => {
                let Some(text) = text else { break };
                // In the order of time, and apart from all others.
                let id = format!("{:012x}{:08x}", sys.clock.unix_ms().get(), sys.chance.u64() as u32);
                last = Some(lines.insert(Line { id, who: who.clone(), text })?);
            }
            changed = changes.next() => {
                for row in changed.iter().filter_map(|change| change.new.as_ref()) {
                    let mark = if row.meta.is_pending { "…" } else { "✓" };
                    if let Some(line) = row.record.as_typed::<Line>() {
                        println!("{mark} {}: {}", line.who, line.text);
                    }
                }
            }
        }
    }
    // What was typed last is in the stream before this ends.
    if let Some(last) = last {
        last.settled().await?;
    }
    Ok(())
}

/// Lines of the standard input, as they are typed.
fn read_lines(sys: &Sys) -> tokio::sync::mpsc::Receiver<String> {
    let (sender, receiver) = tokio::sync::mpsc::channel(16);
    drop(sys.spawn.blocking(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    }));
    receiver
}
