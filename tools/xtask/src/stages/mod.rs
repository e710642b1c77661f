//! `cargo xtask test`: everything, in stages, with a budget for each.
//!
//! A stage is a function from a [`Run`] to a [`Tally`]; [`STAGES`] is the one table that says which
//! there are. A failing stage does not stop the next one, so one run shows every failure; only a
//! workspace that does not build does, because nothing can be learned from it.

mod build;
mod cargo_test;
mod group;
mod report;
mod transcript;

use std::{process::ExitCode, time::Instant};

use anyhow::{Context, Result, ensure};
use conformance::{Engine, Scope};

pub(crate) use self::{cargo_test::kill, report::print_failures};
use crate::{
    args::Args,
    cargo::build_workspace,
    conformance_command,
    differential_command::{self, Right},
    fuzz,
    metadata::Metadata,
    tally::Tally,
    web,
};

/// One part of the test run.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// How long it may take on two cores.
    pub(crate) minutes: u64,
    work: fn(&Run) -> Result<Tally>,
}

/// All stages, in the order they run.
pub(crate) const STAGES: &[Stage] = &[
    Stage { name: "build", minutes: 15, work: build::run },
    Stage { name: "unit and property", minutes: 7, work: cargo_test::run_unit },
    Stage { name: "fuzz", minutes: 10, work: run_fuzz },
    Stage { name: "simulation", minutes: 5, work: run_simulation },
    Stage { name: "conformance", minutes: 2, work: run_conformance },
    Stage { name: "crash", minutes: 3, work: cargo_test::run_crash },
    Stage { name: "hostile clients", minutes: 2, work: cargo_test::run_hostile },
    Stage { name: "differential", minutes: 3, work: run_differential },
    Stage { name: "browser", minutes: 3, work: run_browser },
];

/// The whole run must fit into this, on two cores.
const MINUTES_MAX: u64 = 50;

const _: () = {
    let (mut total, mut index) = (0, 0);
    while index < STAGES.len() {
        total += STAGES[index].minutes;
        index += 1;
    }
    assert!(total == MINUTES_MAX, "the stages' budgets do not add up to that of the run");
};

const FUZZ_SECONDS: u64 = 20;
const SIMULATION_SEEDS: u32 = 1_000;

/// What the stages of one run are given.
struct Run {
    metadata: Metadata,
    engines: Vec<Engine>,
}

/// A stage that was run, and what came of it.
struct Finished {
    stage: &'static Stage,
    seconds: f64,
    tally: Tally,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let chosen = choose(args.option("--stage")?.as_deref())?;
    let engines = conformance_command::engines_option(&mut args)?;
    args.finish()?;
    let run = Run { metadata: Metadata::load()?, engines };
    let mut finished = Vec::new();
    for stage in chosen {
        println!("\n=== {} (budget: {} min)", stage.name, stage.minutes);
        let started = Instant::now();
        let tally = (stage.work)(&run).unwrap_or_else(|error| {
            println!("{error:#}");
            let mut tally = Tally::default();
            tally.fail(stage.name, &format!("{error:#}"));
            tally
        });
        let is_hopeless = build::is_hopeless(&tally);
        finished.push(Finished { stage, seconds: started.elapsed().as_secs_f64(), tally });
        if is_hopeless {
            println!("the workspace does not build, so the later stages are left out");
            break;
        }
    }
    Ok(report::print(&finished))
}

/// The stages of a run: all, or those whose name starts with `wanted`.
fn choose(wanted: Option<&str>) -> Result<Vec<&'static Stage>> {
    let Some(wanted) = wanted else { return Ok(STAGES.iter().collect()) };
    let stage = STAGES.iter().find(|stage| stage.name.starts_with(wanted));
    let stage = stage.with_context(|| format!("no stage `{wanted}`; there are: {}", names()))?;
    Ok(vec![stage])
}

fn names() -> String {
    STAGES.iter().map(|stage| stage.name).collect::<Vec<_>>().join(", ")
}

fn run_fuzz(_: &Run) -> Result<Tally> {
    fuzz::hunt(&fuzz::targets()?, FUZZ_SECONDS)
}

fn run_simulation(run: &Run) -> Result<Tally> {
    cargo_test::simulate(&run.metadata, SIMULATION_SEEDS)
}

fn run_conformance(run: &Run) -> Result<Tally> {
    // A no-op after the build stage; alone, it makes the same binary that stage would.
    ensure!(build_workspace()?, "the workspace does not build");
    let mut tally = conformance_command::run_engines(&run.metadata, &run.engines, &Scope::Whole);
    let interop = conformance_command::run_engines(&run.metadata, &run.engines, &Scope::Interop);
    tally.merge(interop);
    tally.merge(conformance_command::run_shapes(&run.metadata));
    tally.merge(conformance_command::run_models(&run.metadata));
    Ok(tally)
}

fn run_differential(run: &Run) -> Result<Tally> {
    ensure!(build_workspace()?, "the workspace does not build");
    let plan = differential_command::plan_by_default();
    differential_command::compare(&run.metadata, &plan, Right::Driver)
}

fn run_browser(run: &Run) -> Result<Tally> {
    // The page is part of the binary, so it comes first.
    web::build()?;
    ensure!(build_workspace()?, "the workspace does not build");
    conformance_command::run_page(&run.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_chosen_by_the_start_of_its_name() {
        let chosen = |wanted| choose(wanted).map(|stages| stages.len()).unwrap_or_default();
        assert_eq!(chosen(None), STAGES.len());
        assert_eq!(chosen(Some("unit")), 1);
        assert_eq!(chosen(Some("party")), 0);
    }
}
