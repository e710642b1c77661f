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

/// What every phase is surveyed by.
struct Phase<M> {
    /// What its seeds are called, after their number.
    seeds: &'static str,
    /// Seeds of it for each one that is asked for.
    per_seed: u64,
    run: fn(u64) -> (Outcome, M),
    add: fn(&mut M, &M),
    /// What was not met, if anything was not.
    missing: fn(&M) -> Option<String>,
    tell: fn(&M) -> String,
}

impl<M: Default + PartialEq + Send> Phase<M> {
    /// Runs the one seed that is asked for, or all; asserts that none failed and, among many, that
    /// everything was met.
    fn check(&self) {
        if let Some(seed) = number_in(SEED_VARIABLE) {
            return demand_none(vec![(self.run)(seed).0]);
        }
        self.one_seed_twice_is_one_run();
        let seeds = self.per_seed * number_in(SEEDS_VARIABLE).unwrap_or(SEEDS_DEFAULT);
        let survey = Mutex::new((M::default(), Vec::new()));
        sim::each_seed(0, seeds, |seed| {
            let (outcome, met) = (self.run)(seed);
            let mut survey = survey.lock().expect("no panic while held");
            (self.add)(&mut survey.0, &met);
            if outcome.violation.is_some() {
                survey.1.push(outcome);
            }
        });
        let (met, failures) = survey.into_inner().expect("no panic while held");
        // Past the test harness, which shows only what failing tests print.
        let _ = writeln!(io::stderr(), "{seeds} {} met{}", self.seeds, (self.tell)(&met));
        demand_none(failures);
        if seeds >= SEEDS_TO_MEET_ALL {
            assert_eq!((self.missing)(&met), None, "not everything was met");
        }
    }

    /// Without this no failure could be replayed, so it comes before all else.
    fn one_seed_twice_is_one_run(&self) {
        for seed in [0, 1, 2] {
            let ((one, met), (other, met_again)) = ((self.run)(seed), (self.run)(seed));
            let mut lines = one.history.iter().zip(&other.history);
            let parting = lines.position(|(one, other)| one != other);
            assert_eq!(parting, None, "seed {seed} runs differently from this line on");
            assert!(one == other, "seed {seed} leaves another trace on the disk");
            assert!(met == met_again, "seed {seed} meets something else");
        }
    }
}

/// Asserts that nothing failed, or tells how it did.
fn demand_none(mut failures: Vec<Outcome>) {
    failures.retain(|outcome| outcome.violation.is_some());
    failures.sort_by_key(|outcome| outcome.seed);
    let numbers: Vec<u64> = failures.iter().map(|outcome| outcome.seed).collect();
    let told = failures.iter().take(FAILURES_TOLD).filter_map(Outcome::failure);
    let told: Vec<String> = told.collect();
    assert!(told.is_empty(), "{}\n\nfailed seeds: {numbers:?}", told.join("\n\n"));
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_invented() {
    let phase = Phase {
        seeds: "seeds",
        per_seed: 1,
        run: |seed| {
            let outcome = sim::run(seed);
            let coverage = outcome.coverage.clone();
            (outcome, coverage)
        },
        add: Coverage::add_run,
        missing: |coverage| {
            let missing: Vec<&str> = coverage.missing().map(Event::words).collect();
            (!missing.is_empty()).then(|| format!("{missing:?}"))
        },
        tell: |coverage| format!(":\n{coverage}"),
    };
    phase.check();
}

#[test]
fn work_is_called_for_until_it_is_acknowledged_and_then_no_more() {
    let phase = Phase {
        seeds: "seeds of wakes",
        per_seed: 1,
        run: |seed| {
            let run = sim::run_wakes(seed);
            (run.outcome, run.met)
        },
        add: Met::add,
        missing: |met: &Met| (!met.is_complete()).then(|| format!("{met:?}")),
        tell: |met| format!(" {met:?}"),
    };
    phase.check();
}

#[test]
fn every_transition_is_answered_and_what_answers_it_is_written_once() {
    let phase = Phase {
        seeds: "seeds of effects",
        per_seed: 1,
        run: |seed| {
            let run = sim::run_effects(seed);
            (run.outcome, run.met)
        },
        add: EffectsMet::add,
        missing: |met: &EffectsMet| (!met.is_complete()).then(|| format!("{met:?}")),
        tell: |met| format!(" {met:?}"),
    };
    phase.check();
}

#[test]
fn damage_is_told_and_its_repair_loses_nothing_that_can_be_read() {
    let phase = Phase {
        seeds: "seeds of damage",
        // They are quick.
        per_seed: 3,
        run: |seed| {
            let run = sim::run_corruption(seed);
            (run.outcome, run.met)
        },
        add: CorruptionMet::add,
        missing: |met: &CorruptionMet| (!met.is_complete()).then(|| format!("{met:?}")),
        tell: |met| format!(" {met:?}"),
    };
    phase.check();
}

#[test]
fn once_faults_stop_two_supervisors_and_two_executors_do_all_that_is_owed_once_and_in_time() {
    let phase = Phase {
        seeds: "seeds of supervisors",
        per_seed: 1,
        run: |seed| {
            let run = sim::run_supervisors(seed);
            (run.outcome, run.met)
        },
        add: SupervisorsMet::add,
        missing: |met: &SupervisorsMet| (!met.is_complete()).then(|| format!("{met:?}")),
        tell: |met| format!(" {met:?}"),
    };
    phase.check();
}
