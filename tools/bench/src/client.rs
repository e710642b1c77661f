//! Our client beside the npm client: the same messages, the same server, in one run.
//!
//! Each appends messages of 256 B to one JSON stream through its idempotent producer, as fast as
//! it can, with the defaults it comes with; the server stores them on disk. Only the ratio means
//! something.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use ::client::{Client, NewStream, Settings};
use anyhow::{Context as _, Result, ensure};
use sys::Sys;

use crate::server::{Contestant, DataDir, Running};

/// Messages of a round.
const MESSAGES: usize = 200_000;
/// Bytes of a message, as JSON.
const MESSAGE_BYTES: usize = 256;

/// Both clients, against our server.
pub(crate) struct Clients {
    pub(crate) server: Contestant,
    pub(crate) data_root: PathBuf,
    /// Where the npm packages are installed.
    pub(crate) node_dir: PathBuf,
    pub(crate) rounds: u64,
}

impl Clients {
    /// Plays the rounds by turns; the table of the medians.
    pub(crate) fn play(&self) -> Result<String> {
        let (mut ours, mut npm) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            ours.push(self.on_fresh(produce)?);
            npm.push(self.on_fresh(|url| produce_by_npm(&self.node_dir, url))?);
            eprintln!("round {round}: {:?} {:?}", ours.last(), npm.last());
        }
        let (ours, npm) = (median(ours), median(npm));
        let mut table = String::from(
            "| measurement | ours | npm client | ratio |\n| --- | ---: | ---: | ---: |\n",
        );
        let ratio = ours / npm;
        writeln!(
            table,
            "| append {MESSAGES} × {MESSAGE_BYTES} B, idempotent producer | {ours:.0}/s | \
             {npm:.0}/s | {ratio:.1}x |"
        )?;
        Ok(table)
    }

    fn on_fresh(&self, work: impl Fn(&str) -> Result<f64>) -> Result<f64> {
        let running = Running::start(&self.server, DataDir::create(&self.data_root)?)?;
        work(&format!("http://{}", running.address()))
    }
}

fn produce(url: &str) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(&Sys::real(), Settings::new(url)?).await?;
        let stream = client.stream(&"bench/ours".parse()?);
        let json = Some("application/json".parse()?);
        stream.create(NewStream { content_type: json, ..NewStream::default() }).await?;
        let producer = stream.producer("bench".parse()?).start().await?;
        let message =
            bytes::Bytes::from(format!("{{\"text\":\"{}\"}}", "x".repeat(MESSAGE_BYTES - 11)));
        let began = Instant::now();
        let mut last = None;
        for _ in 0..MESSAGES {
            last = Some(producer.reserve(message.len()).await?.submit(message.clone()));
        }
        producer.flush().await?;
        last.context("there are messages")?.await?;
        Ok(MESSAGES as f64 / began.elapsed().as_secs_f64())
    })
}

fn produce_by_npm(node_dir: &Path, url: &str) -> Result<f64> {
    let output = Command::new("node")
        .arg("produce.mjs")
        .args([&format!("{url}/v1/stream/bench/npm"), &MESSAGES.to_string()])
        .arg(MESSAGE_BYTES.to_string())
        .current_dir(node_dir)
        .output()
        .context("cannot start node; install Node 20 or newer")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seconds: f64 = text.trim().parse().context("produce.mjs prints its seconds")?;
    Ok(MESSAGES as f64 / seconds)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
