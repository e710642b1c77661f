//! Our providers as a process beside the fixture, so that SDKs can be put beside them.
//!
//! `models-driver URL [--events] [WIRE SCENARIO]` asks for every scenario on every wire, or for
//! one, and prints a line for each; with `--events` the AG-UI events of the run come before it.
//! What is huge is only asked for by name: its line tells how much memory the process took.
//! `models-driver --plays` prints the same for runs of the scripted model, which needs no server.
#![allow(clippy::print_stdout, reason = "lines of output are what this program is for")]

mod line;
mod model;
mod plays;
mod run;

use anyhow::{Context as _, Result, bail};
use futures_util::{StreamExt as _, stream};
use models::{Scenario, Wire};
use sys::Sys;

use crate::{
    model::model,
    run::{Manner, Ran},
};

/// How many scenarios are asked for at once: some wait before they try again.
const RUNS_AT_ONCE: usize = 8;

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let shows_events = words.iter().any(|word| word == "--events");
    words.retain(|word| word != "--events");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let sys = Sys::real();
        if words == ["--plays"] {
            return plays::plays(&sys).await?.into_iter().try_for_each(|ran| show(&ran, true));
        }
        let (url, asked) = match words.as_slice() {
            [url] => (url, every()),
            [url, wire, scenario] => {
                let (wire, scenario) = one(wire, scenario)?;
                (url, vec![(wire, scenario, Manner::Plain)])
            }
            _ => bail!("say `URL [--events] [WIRE SCENARIO]` or `--plays`"),
        };
        let runs = asked.into_iter().map(|(wire, scenario, manner)| {
            let sys = &sys;
            async move {
                let ran = ask(sys, url, wire, scenario, manner).await;
                ran.with_context(|| format!("{wire}, {scenario}, {manner:?}"))
            }
        });
        let mut runs = stream::iter(runs).buffered(RUNS_AT_ONCE);
        while let Some(ran) = runs.next().await {
            show(&ran?, shows_events)?;
        }
        Ok(())
    })
}

fn show(ran: &Ran, shows_events: bool) -> Result<()> {
    for event in ran.events.iter().filter(|_| shows_events) {
        println!("{}", serde_json::to_string(event)?);
    }
    println!("{}", ran.line);
    Ok(())
}

async fn ask(sys: &Sys, url: &str, wire: Wire, scenario: Scenario, manner: Manner) -> Result<Ran> {
    let model = model(sys, url, wire, scenario, manner)?;
    match scenario {
        scenario if scenario.is_huge() => run::read_huge(&*model, wire, scenario).await,
        scenario => run::run(&*model, wire, scenario, manner).await,
    }
}

/// Every scenario on every wire; then answers by a schema beside tools, and by those who speak
/// like OpenAI and want a turn of its own for them.
fn every() -> Vec<(Wire, Scenario, Manner)> {
    let scenarios = |wire: &Wire| {
        let wire = *wire;
        let wanted = move |one: &&Scenario| !one.is_huge() && one.is_on(wire);
        Scenario::ALL.iter().filter(wanted).map(move |one| (wire, *one, Manner::Plain))
    };
    let plain = Wire::ALL.iter().flat_map(scenarios);
    let with_tools = Wire::ALL.iter().map(|wire| (*wire, Scenario::Structured, Manner::WithTools));
    let compatible = [
        (Wire::Chat, Scenario::ParallelTools, Manner::Compatible),
        (Wire::Chat, Scenario::Structured, Manner::Compatible),
        (Wire::Chat, Scenario::Structured, Manner::CompatibleWithTools),
    ];
    plain.chain(with_tools).chain(compatible).collect()
}

fn one(wire: &str, scenario: &str) -> Result<(Wire, Scenario)> {
    let found = Wire::ALL.iter().find(|one| one.name() == wire);
    let wire = found.with_context(|| format!("no wire is called {wire}"))?;
    Ok((*wire, scenario.parse().with_context(|| format!("no scenario is called {scenario}"))?))
}
