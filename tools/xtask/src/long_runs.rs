//! `cargo xtask bench` and `cargo xtask soak`: runs that no test run waits for.

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

/// Runs one benchmark of `tools/bench`.
pub(crate) fn bench(mut args: Args) -> Result<ExitCode> {
    let name = args.positional().context("which benchmark? `cargo xtask bench NAME`")?;
    let mut command = cargo();
    command.args(["run", "--release", "--package", "bench", "--", &name]).args(args.rest());
    Ok(exit_code(succeeds(&mut command)?))
}

/// Simulates many seeds, then shares the given minutes out among the fuzz targets.
pub(crate) fn soak(mut args: Args) -> Result<ExitCode> {
    let minutes = match args.positional() {
        Some(word) => parse(&word, "a number of minutes")?,
        None => SOAK_MINUTES,
    };
    args.finish()?;
    println!("simulating {SOAK_SEEDS} seeds");
    let mut tally = stages::simulate(&Metadata::load()?, SOAK_SEEDS)?;
    let targets = fuzz::targets()?;
    let seconds = minutes * 60 * fuzz::parallelism() / (targets.len() as u64).max(1);
    tally.merge(fuzz::hunt(&targets, seconds)?);
    stages::print_failures(&tally.failures);
    Ok(exit_code(tally.all_passed()))
}

fn exit_code(success: bool) -> ExitCode {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
