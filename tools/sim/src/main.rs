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
//! ```

#![allow(clippy::print_stdout, reason = "a terminal program")]

use std::process::ExitCode;

use clap::Parser;
use sim::{Coverage, Detail, Outcome};

/// Crashes the file engine, seed by seed.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Cli {
    /// Run one seed and print its history.
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: also print what the log does to its disk.
    #[arg(long)]
    disk: bool,
    /// With --seed: damage a directory by that seed instead; alone: many of them.
    #[arg(long)]
    corruption: bool,
    /// With --seed: run the effects of that seed instead.
    #[arg(long)]
    effects: bool,
    /// With --seed: run the wakes of that seed instead.
    #[arg(long)]
    wakes: bool,
    /// With --seed: run the supervisors of that seed instead.
    #[arg(long)]
    supervisors: bool,
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let failed = match cli.seed {
        Some(seed) if cli.corruption => trace(&sim::run_corruption(seed).outcome),
        Some(seed) if cli.effects => trace(&sim::run_effects(seed).outcome),
        Some(seed) if cli.wakes => trace(&sim::run_wakes(seed).outcome),
        Some(seed) if cli.supervisors => trace(&sim::run_supervisors(seed).outcome),
        Some(seed) => {
            let detail = if cli.disk { Detail::Disk } else { Detail::Requests };
            trace(&sim::run_in_detail(seed, detail))
        }
        None if cli.corruption => survey_corruption(cli.from, cli.seeds),
        None => survey(cli.from, cli.seeds),
    };
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
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

fn survey_corruption(from: u64, seeds: u64) -> bool {
    let total = std::sync::Mutex::new((sim::CorruptionMet::default(), 0));
    sim::each_seed(from, seeds, |seed| {
        let run = sim::run_corruption(seed);
        let mut total = total.lock().expect("no panic while held");
        total.0.add(&run.met);
        if let Some(violation) = &run.outcome.violation {
            total.1 += 1;
            println!("seed {seed}: {violation}");
        }
    });
    let (met, failed) = total.into_inner().expect("no panic while held");
    println!("{met:?}\n{failed} of {seeds} seeds failed");
    failed > 0
}

fn survey(from: u64, seeds: u64) -> bool {
    let total = std::sync::Mutex::new((Coverage::default(), 0));
    sim::run_many(from, seeds, |outcome| {
        let mut total = total.lock().expect("no panic while held");
        total.0.add_run(&outcome.coverage);
        if let Some(violation) = &outcome.violation {
            total.1 += 1;
            println!("seed {}: {violation}", outcome.seed);
        }
    });
    let (coverage, failed) = total.into_inner().expect("no panic while held");
    println!("{coverage}\n{failed} of {seeds} seeds failed");
    failed > 0
}
