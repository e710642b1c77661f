//! Runs seeds of the simulation by hand.
//!
//! ```text
//! cargo run -p sim -- --seed 7               one seed, with everything that happened
//! cargo run -p sim -- --seed 7 --disk        and with what the log did to its disk
//! cargo run -p sim -- --seed 7 --wakes       the wakes of that seed
//! cargo run -p sim -- --seed 7 --effects     the effects of that seed
//! cargo run -p sim -- --seed 7 --corruption  the damage of that seed, and its repair
//! cargo run -p sim -- --seed 7 --supervisors the supervisors of that seed
//! cargo run -p sim -- --from 1000 --seeds 50 many seeds, with what failed
//! cargo run --release -p sim -- --wakes --seeds 100000
//!                                            many seeds of the wakes; likewise of the others
//! ```

#![allow(clippy::print_stdout, reason = "a terminal program")]

use std::{fmt::Debug, process::ExitCode, sync::Mutex};

use clap::{Args, Parser};
use sim::{CorruptionMet, Coverage, Detail, EffectsMet, Met, Outcome, SupervisorsMet};

/// Crashes the file engine, seed by seed.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Cli {
    /// Run one seed and print its history.
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: also print what the log does to its disk.
    #[arg(long, requires = "seed")]
    disk: bool,
    #[command(flatten)]
    phase: Phase,
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
}

/// What is run; without any of these, the log alone.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct Phase {
    /// Damage a directory, and repair it.
    #[arg(long)]
    corruption: bool,
    /// Run durable effects.
    #[arg(long)]
    effects: bool,
    /// Run subscriptions and those who are woken.
    #[arg(long)]
    wakes: bool,
    /// Run two supervisors of agents.
    #[arg(long)]
    supervisors: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let failed = match cli.seed {
        Some(seed) => cli.phase.trace(seed, if cli.disk { Detail::Disk } else { Detail::Requests }),
        None => cli.phase.survey(cli.from, cli.seeds),
    };
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl Phase {
    /// Tells everything that happened in one seed; true if it failed.
    fn trace(&self, seed: u64, detail: Detail) -> bool {
        match *self {
            Self { corruption: true, .. } => trace(&sim::run_corruption(seed).outcome),
            Self { effects: true, .. } => trace(&sim::run_effects(seed).outcome),
            Self { wakes: true, .. } => trace(&sim::run_wakes(seed).outcome),
            Self { supervisors: true, .. } => trace(&sim::run_supervisors(seed).outcome),
            _ => trace(&sim::run_in_detail(seed, detail)),
        }
    }

    /// Tells what many seeds have met, and which of them failed; true if one has.
    fn survey(&self, from: u64, seeds: u64) -> bool {
        match *self {
            Self { corruption: true, .. } => survey(from, seeds, CorruptionMet::add, |seed| {
                let run = sim::run_corruption(seed);
                (run.outcome, run.met)
            }),
            Self { effects: true, .. } => survey(from, seeds, EffectsMet::add, |seed| {
                let run = sim::run_effects(seed);
                (run.outcome, run.met)
            }),
            Self { wakes: true, .. } => survey(from, seeds, Met::add, |seed| {
                let run = sim::run_wakes(seed);
                (run.outcome, run.met)
            }),
            Self { supervisors: true, .. } => survey(from, seeds, SupervisorsMet::add, |seed| {
                let run = sim::run_supervisors(seed);
                (run.outcome, run.met)
            }),
            _ => survey_log(from, seeds),
        }
    }
}

fn trace(outcome: &Outcome) -> bool {
    for line in &outcome.history {
        println!("{line}");
    }
    println!("trace {:016x}", outcome.trace_hash);
    if let Some(violation) = &outcome.violation {
        println!("seed {}: {violation}", outcome.seed);
    }
    outcome.violation.is_some()
}

/// Runs seeds of one phase, adds up what they met, and names each that failed at once.
fn survey<M: Debug + Default + Send>(
    from: u64,
    seeds: u64,
    add: impl Fn(&mut M, &M) + Sync,
    run: impl Fn(u64) -> (Outcome, M) + Sync,
) -> bool {
    let total = Mutex::new((M::default(), Vec::new()));
    sim::each_seed(from, seeds, |seed| {
        let (outcome, met) = run(seed);
        let mut total = total.lock().expect("no panic while held");
        add(&mut total.0, &met);
        if let Some(violation) = outcome.violation {
            println!("seed {seed}: {violation}");
            total.1.push(seed);
        }
    });
    let (met, failed) = total.into_inner().expect("no panic while held");
    println!("{met:#?}");
    conclude(failed, seeds)
}

fn survey_log(from: u64, seeds: u64) -> bool {
    let total = Mutex::new((Coverage::default(), Vec::new()));
    sim::run_many(from, seeds, |outcome| {
        let mut total = total.lock().expect("no panic while held");
        total.0.add_run(&outcome.coverage);
        if let Some(violation) = &outcome.violation {
            println!("seed {}: {violation}", outcome.seed);
            total.1.push(outcome.seed);
        }
    });
    let (coverage, failed) = total.into_inner().expect("no panic while held");
    print!("{coverage}");
    conclude(failed, seeds)
}

/// Says how many seeds failed, and which; true if any has.
fn conclude(mut failed: Vec<u64>, seeds: u64) -> bool {
    failed.sort_unstable();
    println!("{} of {seeds} seeds failed", failed.len());
    if !failed.is_empty() {
        println!("failed seeds: {failed:?}");
    }
    !failed.is_empty()
}
