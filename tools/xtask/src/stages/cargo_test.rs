//! Stages that are `cargo test`: the unit stage, and one stage for each staged test target.
//!
//! A stage owns the integration tests of one name, whichever crate they are in. That way every
//! test runs in exactly one stage, and cargo is always called for the whole workspace: called for
//! one package it would settle on other features and compile half the dependencies again.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, pipe},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{Run, group::ProcessGroup, transcript::Transcript};
use crate::{
    cargo::{ALONE, WHOLE_WORKSPACE, cargo},
    metadata::Metadata,
    tally::Tally,
};

const SIMULATION: &str = "simulation";
const CRASH: &str = "crash";
const HOSTILE: &str = "hostile";

/// Names of integration tests that have a stage of their own.
const STAGED_TARGETS: [&str; 3] = [SIMULATION, CRASH, HOSTILE];

/// Artifacts as JSON tell which crate a test binary belongs to; compiler errors stay readable.
const MESSAGES_AS_JSON: &str = "--message-format=json-render-diagnostics";

/// A run of cargo that takes longer hangs, and is ended so that the other stages can be run.
const RUN_TIME_MAX: Duration = Duration::from_secs(20 * 60);

/// Tells the simulation how many seeds to try.
const SEEDS_VARIABLE: &str = "HEADWATER_SIM_SEEDS";

/// Everything that has no stage of its own, doc tests included.
pub(super) fn run_unit(run: &Run) -> Result<Tally> {
    let mut command = cargo_test();
    command.args(["--lib", "--bins"]);
    for name in unstaged_targets(&run.metadata) {
        command.args(["--test", name]);
    }
    let mut tally = follow(command, &run.metadata)?;
    let mut command = cargo_test();
    command.arg("--doc");
    tally.merge(follow(command, &run.metadata)?);
    for feature in ALONE {
        tally.merge(run_alone(feature, &run.metadata)?);
    }
    Ok(tally)
}

/// The tests of a feature that cannot be built with the others; they are named after it.
fn run_alone(feature: &str, metadata: &Metadata) -> Result<Tally> {
    let (package, name) = feature.split_once('/').context("a feature is PACKAGE/NAME")?;
    let mut command = cargo();
    command.args(["test", "--package", package, "--features", name, "--test", name]);
    command.arg(MESSAGES_AS_JSON);
    follow(command, metadata)
}

/// Real processes, killed at the worst moment.
pub(super) fn run_crash(run: &Run) -> Result<Tally> {
    kill(&run.metadata)
}

/// The same, for its own command. At how many writes they died is shown.
pub(crate) fn kill(metadata: &Metadata) -> Result<Tally> {
    let mut command = cargo_test();
    command.args(["--test", CRASH, "--", "--nocapture"]);
    follow(command, metadata)
}

/// A real process, and clients that want all of it. What they show is shown, too.
pub(super) fn run_hostile(run: &Run) -> Result<Tally> {
    let mut command = cargo_test();
    // The table it prints is what people want to see.
    command.args(["--test", HOSTILE, "--", "--nocapture"]);
    follow(command, &run.metadata)
}

/// The simulation, with seeds counted from 0.
pub(super) fn simulate(metadata: &Metadata, seeds: u32) -> Result<Tally> {
    let mut command = cargo_test();
    command.env(SEEDS_VARIABLE, seeds.to_string());
    run_target(SIMULATION, command, metadata)
}

fn run_target(name: &str, mut command: Command, metadata: &Metadata) -> Result<Tally> {
    ensure!(test_targets(metadata).contains(name), "no crate has a tests/{name}.rs");
    command.args(["--test", name]);
    follow(command, metadata)
}

fn cargo_test() -> Command {
    let mut command = cargo();
    command.args(["test", "--no-fail-fast"]).args(WHOLE_WORKSPACE);
    command.arg(MESSAGES_AS_JSON);
    command
}

fn unstaged_targets(metadata: &Metadata) -> impl Iterator<Item = &str> {
    test_targets(metadata).into_iter().filter(|name| !STAGED_TARGETS.contains(name))
}

fn test_targets(metadata: &Metadata) -> BTreeSet<&str> {
    let targets = metadata.members().flat_map(|package| &package.targets);
    targets.filter(|target| target.is("test")).map(|target| target.name.as_str()).collect()
}

/// Runs `cargo test`, shows people what matters of it, and counts.
fn follow(mut command: Command, metadata: &Metadata) -> Result<Tally> {
    // One pipe for both outputs: cargo names a binary on one of them, the binary reports on the
    // other, and only their order says what belongs together.
    let (reader, writer) = pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut group = ProcessGroup::spawn(&mut command)?;
    // The command holds our ends of the pipe; while they are open the reader sees no end.
    drop(command);
    // Whatever a failed test leaves running holds the pipe too, so somebody else than the reader
    // must see that cargo has ended.
    let watch = thread::spawn(move || group.finish(RUN_TIME_MAX));
    let mut transcript = Transcript::new(metadata);
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if transcript.read(&line).is_worth_showing() {
            println!("{line}");
        }
    }
    let status = watch.join().expect("waiting does not panic")?;
    let mut tally = transcript.finish(status.is_some_and(|status| status.success()));
    if status.is_none() {
        let minutes = RUN_TIME_MAX.as_secs() / 60;
        tally.fail("cargo test", &format!("it was ended after {minutes} minutes"));
    }
    Ok(tally)
}
