//! The file engine keeps its promises on every seed, and so do subscriptions over it; a directory
//! that is damaged tells so, and its repair destroys nothing.
//!
//! ```text
//! HEADWATER_SIM_SEEDS=100000 cargo test -p sim --test simulation   more seeds
//! HEADWATER_SIM_SEED=7 cargo test -p sim --test simulation         exactly one
//! ```

use std::{
    env,
    io::{self, Write},
    sync::Mutex,
};

use sim::{CorruptionMet, Coverage, EffectsMet, Event, Met, Outcome, SupervisorsMet};

const SEEDS_VARIABLE: &str = "HEADWATER_SIM_SEEDS";
const SEED_VARIABLE: &str = "HEADWATER_SIM_SEED";
const SEEDS_DEFAULT: u64 = 1_000;
/// With fewer seeds some events may be missed by chance.
const SEEDS_TO_MEET_ALL: u64 = 1_000;
/// Failures that are told in full.
const FAILURES_TOLD: usize = 3;

fn number_in(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

/// Everything that was seen of some seeds.
#[derive(Default)]
struct Survey {
    coverage: Coverage,
    failures: Vec<Outcome>,
}

fn survey(seeds: u64) -> Survey {
    let survey = Mutex::new(Survey::default());
    sim::run_many(0, seeds, |outcome| {
        let mut survey = survey.lock().expect("no panic while held");
        survey.coverage.add_run(&outcome.coverage);
        if outcome.violation.is_some() {
            survey.failures.push(outcome);
        }
    });
    survey.into_inner().expect("no panic while held")
}

/// Without this no failure could be replayed, so it comes before all else.
fn one_seed_twice_is_one_run() {
    for seed in [0, 1, 2] {
        let (one, other) = (sim::run(seed), sim::run(seed));
        let parting = one.history.iter().zip(&other.history).position(|(one, other)| one != other);
        assert_eq!(parting, None, "seed {seed} runs differently from this line on");
        assert!(one == other, "seed {seed} leaves another trace on the disk");
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_invented() {
    if let Some(seed) = number_in(SEED_VARIABLE) {
        let outcome = sim::run(seed);
        assert!(outcome.violation.is_none(), "{}", outcome.failure().unwrap_or_default());
        return;
    }
    one_seed_twice_is_one_run();
    let seeds = number_in(SEEDS_VARIABLE).unwrap_or(SEEDS_DEFAULT);
    let Survey { coverage, failures } = survey(seeds);
    // Past the test harness, which shows only what failing tests print.
    let _ = write!(io::stderr(), "{seeds} seeds met:\n{coverage}");
    demand_none(failures);
    if seeds >= SEEDS_TO_MEET_ALL {
        let missing: Vec<&str> = coverage.missing().map(Event::words).collect();
        assert!(missing.is_empty(), "no seed met: {missing:?}");
    }
}

/// Asserts that nothing failed, or tells how it did.
fn demand_none(mut failures: Vec<Outcome>) {
    failures.sort_by_key(|outcome| outcome.seed);
    let numbers: Vec<u64> = failures.iter().map(|outcome| outcome.seed).collect();
    let told = failures.iter().take(FAILURES_TOLD).filter_map(Outcome::failure);
    let told: Vec<String> = told.collect();
    assert!(told.is_empty(), "{}\n\nfailed seeds: {numbers:?}", told.join("\n\n"));
}

#[test]
fn work_is_called_for_until_it_is_acknowledged_and_then_no_more() {
    if let Some(seed) = number_in(SEED_VARIABLE) {
        return demand_none(vec![sim::run_wakes(seed).outcome]);
    }
    for seed in [0, 1, 2] {
        assert!(sim::run_wakes(seed) == sim::run_wakes(seed), "seed {seed} runs differently");
    }
    let seeds = number_in(SEEDS_VARIABLE).unwrap_or(SEEDS_DEFAULT);
    let survey = Mutex::new((Met::default(), Vec::new()));
    sim::each_seed(0, seeds, |seed| {
        let run = sim::run_wakes(seed);
        let mut survey = survey.lock().expect("no panic while held");
        survey.0.add(&run.met);
        if run.outcome.violation.is_some() {
            survey.1.push(run.outcome);
        }
    });
    let (met, failures) = survey.into_inner().expect("no panic while held");
    let _ = writeln!(io::stderr(), "{seeds} seeds of wakes met {met:?}");
    demand_none(failures);
    assert!(met.is_complete() || seeds < SEEDS_TO_MEET_ALL, "{met:?}");
}

#[test]
fn every_transition_is_answered_and_what_answers_it_is_written_once() {
    if let Some(seed) = number_in(SEED_VARIABLE) {
        return demand_none(vec![sim::run_effects(seed).outcome]);
    }
    for seed in [0, 1, 2] {
        assert!(sim::run_effects(seed) == sim::run_effects(seed), "seed {seed} runs differently");
    }
    let seeds = number_in(SEEDS_VARIABLE).unwrap_or(SEEDS_DEFAULT);
    let survey = Mutex::new((EffectsMet::default(), Vec::new()));
    sim::each_seed(0, seeds, |seed| {
        let run = sim::run_effects(seed);
        let mut survey = survey.lock().expect("no panic while held");
        survey.0.add(&run.met);
        if run.outcome.violation.is_some() {
            survey.1.push(run.outcome);
        }
    });
    let (met, failures) = survey.into_inner().expect("no panic while held");
    let _ = writeln!(io::stderr(), "{seeds} seeds of effects met {met:?}");
    demand_none(failures);
    assert!(met.is_complete() || seeds < SEEDS_TO_MEET_ALL, "{met:?}");
}

/// Seeds of damage for each seed of the other runs: they are quick.
const DAMAGES_PER_SEED: u64 = 3;

#[test]
fn damage_is_told_and_its_repair_loses_nothing_that_can_be_read() {
    if let Some(seed) = number_in(SEED_VARIABLE) {
        return demand_none(vec![sim::run_corruption(seed).outcome]);
    }
    for seed in [0, 1, 2] {
        assert!(sim::run_corruption(seed) == sim::run_corruption(seed), "seed {seed} differs");
    }
    let seeds = DAMAGES_PER_SEED * number_in(SEEDS_VARIABLE).unwrap_or(SEEDS_DEFAULT);
    let survey = Mutex::new((CorruptionMet::default(), Vec::new()));
    sim::each_seed(0, seeds, |seed| {
        let run = sim::run_corruption(seed);
        let mut survey = survey.lock().expect("no panic while held");
        survey.0.add(&run.met);
        if run.outcome.violation.is_some() {
            survey.1.push(run.outcome);
        }
    });
    let (met, failures) = survey.into_inner().expect("no panic while held");
    let _ = writeln!(io::stderr(), "{seeds} seeds of damage met {met:?}");
    demand_none(failures);
    assert!(met.is_complete() || seeds < SEEDS_TO_MEET_ALL, "{met:?}");
}

#[test]
fn once_faults_stop_two_supervisors_answer_all_that_is_owed_once_and_in_time() {
    if let Some(seed) = number_in(SEED_VARIABLE) {
        return demand_none(vec![sim::run_supervisors(seed).outcome]);
    }
    for seed in [0, 1, 2] {
        let (one, other) = (sim::run_supervisors(seed), sim::run_supervisors(seed));
        assert!(one == other, "seed {seed} runs differently");
    }
    let seeds = number_in(SEEDS_VARIABLE).unwrap_or(SEEDS_DEFAULT);
    let survey = Mutex::new((SupervisorsMet::default(), Vec::new()));
    sim::each_seed(0, seeds, |seed| {
        let run = sim::run_supervisors(seed);
        let mut survey = survey.lock().expect("no panic while held");
        survey.0.add(&run.met);
        if run.outcome.violation.is_some() {
            survey.1.push(run.outcome);
        }
    });
    let (met, failures) = survey.into_inner().expect("no panic while held");
    let _ = writeln!(io::stderr(), "{seeds} seeds of supervisors met {met:?}");
    demand_none(failures);
    assert!(met.is_complete() || seeds < SEEDS_TO_MEET_ALL, "{met:?}");
}
