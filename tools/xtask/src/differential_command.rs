//! `cargo xtask differential`: our queries against those of @tanstack/db, on random traces.

use std::{process::ExitCode, time::Instant};

use anyhow::{Result, bail, ensure};
use conformance::differential::{
    CONTRADICTIONS_PERCENT_MAX, Contradiction, Differential, Plan, Program, Taste, Verdict,
};

use crate::{
    args::{Args, parse},
    cargo::{cargo, root, succeeds},
    metadata::Metadata,
    tally::{Count, Tally},
};

/// What a run without options does.
const SEEDS: u64 = 200;
const COMMANDS: usize = 300;

/// The program that speaks the protocol for our engine.
const DRIVER: &str = "live-driver";

/// A fault that shows in any trace; it must be found in one of these, and explained in few lines.
const LIAR_SEEDS: u64 = 2;
const LIAR_LINES_MAX: usize = 12;

/// What stands on the right side.
#[derive(Clone, Copy)]
pub(crate) enum Right {
    Driver,
    /// The npm package again: whatever differs then is a fault of the traces.
    Oracle,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let plan = plan(&mut args)?;
    let right = match args.option("--against")?.as_deref() {
        Some("oracle") => Right::Oracle,
        Some("driver") | None => Right::Driver,
        Some(other) => bail!("`{other}` cannot be compared; there are: driver, oracle"),
    };
    args.finish()?;
    let tally = compare(&Metadata::load()?, &plan, right)?;
    tally.failures.iter().for_each(|failure| println!("failed: {failure}"));
    Ok(if tally.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the options ask for; without any, what the stage does.
fn plan(args: &mut Args) -> Result<Plan> {
    let mut plan = plan_by_default();
    if let Some(word) = args.option("--seed")? {
        let seed: u64 = parse(&word, "a seed")?;
        // Whoever names a seed wants that one.
        plan.seeds = seed..seed.saturating_add(1);
    }
    if let Some(word) = args.option("--seeds")? {
        let count = parse(&word, "a number of seeds")?;
        plan.seeds.end = plan.seeds.start.saturating_add(count);
    }
    if let Some(word) = args.option("--steps")? {
        plan.commands = parse(&word, "a number of steps")?;
    }
    plan.taste = match args.option("--taste")?.as_deref() {
        Some("tame") => Taste::Tame,
        Some("wild") | None => Taste::Wild,
        Some(other) => bail!("`{other}` is no taste; there are: tame, wild"),
    };
    Ok(plan)
}

pub(crate) fn plan_by_default() -> Plan {
    Plan { seeds: 0..SEEDS, commands: COMMANDS, taste: Taste::Wild }
}

/// Runs `plan`, after seeing to it that a fault would be noticed.
pub(crate) fn compare(metadata: &Metadata, plan: &Plan, right: Right) -> Result<Tally> {
    let node_dir = root().join("tools/conformance/node");
    let differential = match right {
        Right::Oracle => Differential::oracle_only(&node_dir)?,
        Right::Driver => Differential::new(&node_dir, driver(metadata)?)?,
    };
    let mut tally = Tally::default();
    let seeds = plan.seeds.start..plan.seeds.start.saturating_add(LIAR_SEEDS);
    let found = differential.run_liar(&Plan { seeds, ..plan.clone() })?;
    match found.mismatches.iter().map(|mismatch| mismatch.lines.len()).min() {
        Some(lines) if lines <= LIAR_LINES_MAX => tally.pass("a known fault is found"),
        Some(lines) => tally.fail("a known fault is found", &format!("but takes {lines} lines")),
        None => tally.fail("a known fault is found", "it was not"),
    }
    let started = Instant::now();
    let verdict = differential.run(plan)?;
    report(plan, &verdict, started, &mut tally);
    Ok(tally)
}

fn report(plan: &Plan, verdict: &Verdict, started: Instant, tally: &mut Tally) {
    let seconds = started.elapsed().as_secs_f64();
    let traces = plan.seeds.end - plan.seeds.start;
    println!("{traces} traces of {} steps in {seconds:.1} s", plan.commands);
    for Contradiction { seed, query } in &verdict.contradictions {
        println!("seed {seed}: left out, because @tanstack/db contradicts itself: {query}");
    }
    let (left_out, queries) = (verdict.contradictions.len(), verdict.queries);
    let told =
        format!("{left_out} of {queries} queries left out, at most {CONTRADICTIONS_PERCENT_MAX} %");
    println!("{told}");
    match verdict.has_compared_enough() {
        true => tally.pass("enough is compared"),
        false => tally.fail("enough is compared", &told),
    }
    for mismatch in &verdict.mismatches {
        println!("\n{mismatch}");
        tally.fail("traces", &format!("seed {}: the sides differ", mismatch.seed));
    }
    let passed = traces.saturating_sub(verdict.mismatches.len() as u64);
    tally.add("traces", Count { passed, failed: 0 });
}

/// Our side, built.
fn driver(metadata: &Metadata) -> Result<Program> {
    let mut targets = metadata.members().flat_map(|package| &package.targets);
    let exists = targets.any(|target| target.is("bin") && target.name == DRIVER);
    ensure!(exists, "there is no program `{DRIVER}`; try `--against oracle`");
    ensure!(
        succeeds(cargo().args(["build", "-p", "conformance", "--bin", DRIVER]))?,
        "`{DRIVER}` does not build"
    );
    let program = metadata.target_directory.join("debug").join(DRIVER);
    Ok(Program { program, args: Vec::new(), dir: root() })
}
