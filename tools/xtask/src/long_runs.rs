//! `cargo xtask bench`, `kill` and `soak`: runs that no test run waits for.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{
    args::{Args, parse},
    cargo::{cargo, succeeds},
    fuzz,
    metadata::Metadata,
    stages,
};

const SOAK_SEEDS: u32 = 100_000;
const SOAK_MINUTES: u64 = 60;
/// What `sim` simulates: nothing named is the log itself.
const PHASES: [&[&str]; 5] =
    [&[], &["--wakes"], &["--effects"], &["--supervisors"], &["--corruption"]];

/// Runs one benchmark of `tools/bench`.
pub(crate) fn bench(mut args: Args) -> Result<ExitCode> {
    let name = args.positional().context("which benchmark? `cargo xtask bench NAME`")?;
    let mut command = cargo();
    command.args(["run", "--release", "--package", "bench", "--", &name]).args(args.rest());
    Ok(exit_code(succeeds(&mut command)?))
}

/// Kills real processes at every durable write of every scenario, and says at how many.
pub(crate) fn kill(args: Args) -> Result<ExitCode> {
    args.finish()?;
    let tally = stages::kill(&Metadata::load()?)?;
    stages::print_failures(&tally.failures);
    Ok(exit_code(tally.all_passed()))
}

/// Simulates many seeds of each phase, then shares the given minutes out among the fuzz targets.
pub(crate) fn soak(mut args: Args) -> Result<ExitCode> {
    let seeds = match args.option("--seeds")? {
        Some(word) => parse(&word, "a number of seeds")?,
        None => SOAK_SEEDS,
    };
    let minutes = match args.positional() {
        Some(word) => parse(&word, "a number of minutes")?,
        None => SOAK_MINUTES,
    };
    args.finish()?;
    let mut is_sound = true;
    for phase in PHASES {
        println!("\n=== {seeds} seeds {}", phase.join(" "));
        let mut command = cargo();
        command.args(["run", "--release", "--package", "sim", "--"]).args(phase);
        is_sound &= succeeds(command.args(["--seeds", &seeds.to_string()]))?;
    }
    if minutes > 0 {
        let targets = fuzz::targets()?;
        let seconds = minutes * 60 * fuzz::parallelism() / (targets.len() as u64).max(1);
        let tally = fuzz::hunt(&targets, seconds)?;
        stages::print_failures(&tally.failures);
        is_sound &= tally.all_passed();
    }
    Ok(exit_code(is_sound))
}

fn exit_code(success: bool) -> ExitCode {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
