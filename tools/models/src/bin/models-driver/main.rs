//! Our providers as a process beside the fixture, so that SDKs can be put beside them.
//!
//! `models-driver URL [--events] [WIRE SCENARIO]` asks for every scenario on every wire, or for
//! one, and prints a line for each; with `--events` the AG-UI events of the run come before it.
//! What is huge is only asked for by name: its line tells how much memory the process took.
#![allow(clippy::print_stdout, reason = "lines of output are what this program is for")]

mod line;
mod model;
mod run;

use anyhow::{Context as _, Result, bail};
use futures_util::{StreamExt as _, stream};
use models::{Scenario, Wire};
use sys::Sys;

use crate::{model::model, run::Ran};

/// How many scenarios are asked for at once: some wait before they try again.
const RUNS_AT_ONCE: usize = 8;

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let shows_events = words.iter().any(|word| word == "--events");
    words.retain(|word| word != "--events");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let sys = Sys::real();
        let (url, asked) = match words.as_slice() {
            [url] => (url, every()),
            [url, wire, scenario] => (url, vec![one(wire, scenario)?]),
            _ => bail!("say `URL [--events] [WIRE SCENARIO]`"),
        };
        let runs = asked.into_iter().map(|(wire, scenario)| {
            let sys = &sys;
            async move {
                let ran = ask(sys, url, wire, scenario).await;
                ran.with_context(|| format!("{wire}, {scenario}"))
            }
        });
        let mut runs = stream::iter(runs).buffered(RUNS_AT_ONCE);
        while let Some(ran) = runs.next().await {
            let ran = ran?;
            if shows_events {
                for event in ran.events {
                    println!("{}", serde_json::to_string(&event)?);
                }
            }
            println!("{}", ran.line);
        }
        Ok(())
    })
}

async fn ask(sys: &Sys, url: &str, wire: Wire, scenario: Scenario) -> Result<Ran> {
    let model = model(sys, url, wire, scenario)?;
    match scenario {
        scenario if scenario.is_huge() => run::read_huge(&*model, wire, scenario).await,
        scenario => run::run(&*model, wire, scenario).await,
    }
}

fn every() -> Vec<(Wire, Scenario)> {
    let scenarios = |wire: &Wire| {
        let wire = *wire;
        let wanted = move |one: &&Scenario| !one.is_huge() && one.is_on(wire);
        Scenario::ALL.iter().filter(wanted).map(move |one| (wire, *one))
    };
    Wire::ALL.iter().flat_map(scenarios).collect()
}

fn one(wire: &str, scenario: &str) -> Result<(Wire, Scenario)> {
    let found = Wire::ALL.iter().find(|one| one.name() == wire);
    let wire = found.with_context(|| format!("no wire is called {wire}"))?;
    Ok((*wire, scenario.parse().with_context(|| format!("no scenario is called {scenario}"))?))
}
