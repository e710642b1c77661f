//! Live queries beside those of the npm package `@tanstack/db`: the same rows, the same queries,
//! the same changes.
//!
//! Every scenario runs in a fresh process, ours and theirs by turns, and checks its rows in the
//! end. The best round of each side counts: a neighbour can only make a round slower.
//!
//! Reading order: [`Contest`] plays the rounds, [`play`] is what our process does, [`sample`] the
//! rows, [`figure`] what is measured; the scenarios are in [`filters`], [`effects`], [`ordered`],
//! [`chat`], [`groups`] and [`cold`]. Effects and the cold start are those of `live`, with its
//! tasks; all others are the engine's own, without any.

mod chat;
mod cold;
mod effects;
mod figure;
mod filters;
mod groups;
mod ordered;
mod report;
mod sample;

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use self::{effects::Waits, figure::Outcome, filters::Watched, report::Report, sample::Size};
use crate::server::Workspace;

/// Every scenario, by its letter and number, and what it is.
const SCENARIOS: [(&str, &str); 25] = [
    ("a1", "100k rows at once, 25k of them live"),
    ("a2", "100k rows one by one, ascending keys"),
    ("a3", "100k rows one by one, random keys"),
    ("a4", "filter over 100k rows, a row that matches"),
    ("a5", "filter over 100k rows, a row that does not"),
    ("a6", "filter over 100k rows, rows enter and leave"),
    ("a7", "100k rows, no query"),
    ("a8", "5k optimistic rows, none settled"),
    ("a9", "optimistic rows, settled at once"),
    ("b1", "100 effects, 1 of them told"),
    ("b2", "100 effects, all told"),
    ("b3", "1k effects, 10 told"),
    ("b4", "1 effect, told"),
    ("b5", "10k effects, 1 told"),
    ("c1", "first 100 of 100k, indexed there"),
    ("c2", "first 100 of 100k, not indexed there"),
    ("c3", "100k in order"),
    ("d1", "200k chunks join 10k messages"),
    ("d2", "10k messages with the text of 200k chunks"),
    ("d3", "one message, 10k tokens"),
    ("d4", "200k chunks left join 10k messages"),
    ("e1", "100 groups of 100k: count"),
    ("e2", "100 groups of 100k: count, sum, avg, max"),
    ("e3", "4 groups of 100k: count, sum"),
    ("f1", "100k events of a stream, from disk"),
];

#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    /// Rounds per scenario; the best counts.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=15))]
    rounds: u64,
    /// Only these scenarios, such as `a1,b2`; a letter stands for all of its own.
    #[arg(long, value_name = "SCENARIOS", value_delimiter = ',')]
    only: Vec<String>,
    /// A tenth of the rows; for a first look, not for publishing.
    #[arg(long)]
    quick: bool,
    /// Leave out the npm package.
    #[arg(long)]
    ours_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// Which.
    scenario: String,
    /// A tenth of the rows.
    #[arg(long)]
    quick: bool,
}

/// Plays all rounds; the table.
pub(crate) fn compare(args: &LiveArgs) -> Result<String> {
    let is_wanted = |name: &str| {
        args.only.is_empty() || args.only.iter().any(|wanted| name.starts_with(wanted.as_str()))
    };
    let scenarios: Vec<_> = SCENARIOS.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    ensure!(!scenarios.is_empty(), "no scenario is called like {:?}", args.only);
    let contest = Contest {
        node_dir: match args.ours_only {
            true => None,
            false => Some(Workspace::locate()?.node_dir("tools/bench/node")?),
        },
        is_quick: args.quick,
    };
    let mut report = Report::default();
    for (name, about) in scenarios {
        for round in 0..args.rounds {
            let (ours, theirs) = contest.round(name)?;
            eprintln!("{name}, round {round}: {}", report.take((name, about), ours, theirs));
        }
    }
    Ok(report.markdown())
}

struct Contest {
    /// Where the npm package is installed, unless it does not take part.
    node_dir: Option<PathBuf>,
    is_quick: bool,
}

impl Contest {
    fn round(&self, name: &str) -> Result<(Outcome, Option<Outcome>)> {
        let theirs = match &self.node_dir {
            Some(dir) => {
                let mut node = Command::new("node");
                node.args(["--expose-gc", "--max-old-space-size=8192", "live.mjs", name]);
                node.current_dir(dir);
                Some(self.outcome(node).with_context(|| format!("{name} of npm"))?)
            }
            None => None,
        };
        Ok((self.ours(name).with_context(|| format!("{name} of ours"))?, theirs))
    }

    /// Memory is measured by a process of its own, in which what is freed is given back, so that
    /// only what is used counts.
    fn ours(&self, name: &str) -> Result<Outcome> {
        let mut ours = Command::new(std::env::current_exe()?);
        ours.args(["live-scenario", name]);
        let mut outcome = self.outcome(ours)?;
        if outcome.heap.is_some() {
            let mut frugal = Command::new(std::env::current_exe()?);
            frugal.args(["live-scenario", name]);
            frugal.envs([("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_TRIM_THRESHOLD_", "0")]);
            outcome.heap = self.outcome(frugal)?.heap;
        }
        Ok(outcome)
    }

    fn outcome(&self, mut command: Command) -> Result<Outcome> {
        if self.is_quick {
            command.arg("--quick");
        }
        let output = command.output().context("cannot start; Node 20 or newer is needed")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{errors}");
        let outcome: Outcome = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("it told no figures, but: {errors}"))?;
        ensure!(outcome.ok, "the rows in the end were wrong");
        Ok(outcome)
    }
}

/// Plays one scenario with our database, in this process; its figures as a line of JSON.
pub(crate) fn play(args: &ScenarioArgs) -> Result<String> {
    let size = if args.quick { Size::Quick } else { Size::Whole };
    let of_agents = |agents| Waits::PendingOf { agents };
    let mut random = sample::Chance::new(7);
    let few = ["count", "sum"];
    let outcome = match args.scenario.as_str() {
        "a1" => filters::bulk(size),
        "a2" => filters::grow(size, sample::key_of),
        "a3" => filters::grow(size, |_| random.key()),
        "a4" => filters::steady(size, "pending", Watched::Live),
        "a5" => filters::steady(size, "done", Watched::Live),
        "a6" => filters::enter_and_leave(size),
        "a7" => filters::steady(size, "pending", Watched::ByNobody),
        "a8" => filters::optimistic(size),
        "a9" => filters::local_only(size),
        "b1" => effects::effects(size, 100, of_agents(100), 1),
        "b2" => effects::effects(size, 100, Waits::Pending, 100),
        "b3" => effects::effects(size, 1_000, of_agents(100), 10),
        "b4" => effects::effects(size, 1, Waits::Pending, 1),
        "b5" => effects::effects(size, size.of(10_000), of_agents(usize::MAX), 1),
        "c1" | "c2" => ordered::ordered(size, Some(100)),
        "c3" => ordered::ordered(size, None),
        "d1" => chat::joined(size, "inner"),
        "d2" => chat::included(size),
        "d3" => chat::streamed(size),
        "d4" => chat::joined(size, "left"),
        "e1" => groups::grouped(size, "agent", &few[..1], size.of(3_300)),
        "e2" => groups::grouped(size, "agent", &["count", "sum", "avg", "max"], size.of(3_300)),
        "e3" => groups::grouped(size, "status", &few, size.of(330)),
        "f1" => cold::cold(size),
        other => bail!("there is no scenario {other:?}"),
    };
    Ok(serde_json::to_string(&outcome?)?)
}
