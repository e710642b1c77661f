//! What an agent costs that writes everything down before it goes on. All of it is on the real
//! disk, with `fdatasync`.
//!
//! [`tokens`]: from the model to a second client over HTTP. [`steps`]: from one step to the next.
//! [`triggers`]: from a row to the code that it sets off. [`far`]: a tool in another process.
//! [`crowds`]: many generations at once. Each is measured beside its floor, in the same round;
//! [`figures`] and [`report`] make one table of the rounds.

mod crowds;
mod far;
pub(crate) mod figures;
pub(crate) mod models;
pub(crate) mod place;
mod report;
mod steps;
mod tokens;
mod triggers;

use std::path::Path;

use anyhow::{Result, ensure};
use clap::Args;

use self::{crowds::Crowd, figures::Figures};
pub(crate) use self::{
    crowds::{CrowdArgs, gather},
    far::{ExecutorArgs, execute},
};
use crate::server::{Workspace, raise_open_files_limit};

/// What is measured, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// A tenth of everything, once; for a first look, not for publishing.
    #[arg(long)]
    quick: bool,
    /// Measure only the parts whose name contains this text: tokens, steps, triggers, far,
    /// crowds.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// Rounds; the median counts [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=15))]
    rounds: Option<u64>,
}

/// How much is measured in one round.
struct Size {
    tokens: u32,
    generations_of_steps: u32,
    rows: u32,
    far_turns: u32,
    together: usize,
    apart: usize,
}

const WHOLE: Size = Size {
    tokens: 1_000,
    generations_of_steps: 10,
    rows: 2_000,
    far_turns: 1_000,
    together: 100,
    apart: 10_000,
};

const QUICK: Size = Size {
    tokens: 300,
    generations_of_steps: 2,
    rows: 500,
    far_turns: 200,
    together: 100,
    apart: 1_000,
};

/// Measures everything; the tables of the medians, and whether the goals are met.
pub(crate) fn play(args: &AgentArgs) -> Result<String> {
    raise_open_files_limit()?;
    let root = Workspace::locate()?.data_root()?;
    let size = if args.quick { &QUICK } else { &WHOLE };
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { 3 });
    let only = args.only.as_deref().unwrap_or_default();
    let rounds = (0..rounds).map(|_| round(&root, size, only)).collect::<Result<Vec<_>>>()?;
    let figures = Figures::median(&rounds);
    let is_empty = figures.latencies.is_empty() && figures.amounts.is_empty();
    ensure!(!is_empty, "no part is called like {only:?}");
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(", ");
    Ok(format!(
        "{}load of the machine in the last 1, 5 and 15 minutes: {load}",
        report::markdown(&figures)
    ))
}

fn round(root: &Path, size: &Size, only: &str) -> Result<Figures> {
    let mut figures = Figures::default();
    let mut part = |name: &str, measure: &dyn Fn() -> Result<Figures>| -> Result<()> {
        if name.contains(only) {
            eprintln!("measuring {name}");
            figures.add(measure()?);
        }
        Ok(())
    };
    part("tokens", &|| place::run(tokens::measure(root, size.tokens)))?;
    part("steps", &|| place::run(steps::measure(root, size.generations_of_steps)))?;
    part("triggers", &|| place::run(triggers::measure(root, size.rows)))?;
    part("far", &|| place::run(far::measure(root, size.far_turns)))?;
    part("crowds", &|| crowds::measure(root, Crowd::Together, size.together))?;
    part("crowds", &|| crowds::measure(root, Crowd::Apart, size.apart))?;
    Ok(figures)
}
