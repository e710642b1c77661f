//! What was measured, how it is judged, and how it is printed.
//!
//! - [`measurement`] is what one round of one side yields.
//! - [`outcome`] is the median of its rounds.
//! - [`goal`] judges one outcome by the other.

mod goal;
mod measurement;
mod outcome;

use std::fmt::Write;

use anyhow::{Context, Result};
use serde::Serialize;

pub(crate) use goal::Goal;
pub(crate) use measurement::{Latency, Measurement, Unit};
pub(crate) use outcome::Outcome;

use crate::contest::Contest;
use crate::disk::Fdatasync;
use crate::rows::Row;
use measurement::grouped;

/// Above this part of a core, a faster server would not have shown as one.
const GENERATOR_LOAD_MAX: f64 = 0.85;

/// The whole result of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) environment: Environment,
    pub(crate) rows: Vec<RowResult>,
}

impl Report {
    pub(crate) fn markdown(&self) -> String {
        let Environment { cores, kernel, rounds, seconds, fdatasync } = &self.environment;
        let Latency { ms_p50, ms_p99 } = fdatasync.latency;
        let mut text = format!(
            "{cores} cores, Linux {kernel}, {seconds} s per round, rounds: {rounds} \
             (the median counts).\n\
             The disk alone: 4 KiB write + fdatasync {}/s, p50 {ms_p50:.2} ms, \
             p99 {ms_p99:.2} ms.\n\n\
             | measurement | ours | official | ratio | ours p50 / p99 ms | official p50 / p99 ms \
             | p99 ratio | goal | verdict |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |\n",
            grouped(fdatasync.per_second),
        );
        text.extend(self.rows.iter().map(RowResult::markdown));
        let notes: String = self.rows.iter().map(RowResult::notes).collect();
        if !notes.is_empty() {
            let _ = write!(text, "\nNotes:\n\n{notes}");
        }
        text
    }

    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// What a reader needs to know to trust or repeat the numbers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Environment {
    cores: usize,
    kernel: String,
    rounds: u64,
    seconds: u64,
    fdatasync: Fdatasync,
}

impl Environment {
    pub(crate) fn of_this_machine(contest: &Contest, fdatasync: Fdatasync) -> Result<Self> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            kernel: kernel.context("read the kernel's version")?.trim().to_owned(),
            rounds: contest.rounds,
            seconds: contest.seconds,
            fdatasync,
        })
    }
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RowResult {
    name: String,
    unit: Unit,
    ours: Outcome,
    official: Outcome,
    /// Ours divided by the official one.
    value_ratio: Option<f64>,
    p99_ratio: Option<f64>,
    goal: Goal,
    verdict: Verdict,
}

impl RowResult {
    pub(crate) fn new(row: &Row, ours: Outcome, official: Outcome) -> Self {
        let ratio = |ours: Option<f64>, official: Option<f64>| Some(ours? / official?);
        let value = |outcome: &Outcome| outcome.measured().map(|measured| measured.value);
        let value_ratio = ratio(value(&ours), value(&official));
        let p99_ratio = ratio(ours.ms_p99(), official.ms_p99());
        let is_met = match (&ours, value_ratio) {
            (Outcome::Failed(_), _) => false,
            // What the other side cannot do at all, ours does infinitely better.
            (Outcome::Measured(_), None) => true,
            (Outcome::Measured(_), Some(value_ratio)) => row.goal.is_met(value_ratio, p99_ratio),
        };
        let verdict = if is_met { Verdict::Met } else { Verdict::Missed };
        let (name, unit, goal) = (row.name.clone(), row.unit, row.goal);
        Self { name, unit, ours, official, value_ratio, p99_ratio, goal, verdict }
    }

    fn markdown(&self) -> String {
        let ratio =
            |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}x"));
        let cells = [
            self.name.clone(),
            self.ours.value_cell(self.unit),
            self.official.value_cell(self.unit),
            ratio(self.value_ratio),
            self.ours.latency_cell(),
            self.official.latency_cell(),
            ratio(self.p99_ratio),
            self.goal.cell(),
            match self.verdict {
                Verdict::Met => "met".to_owned(),
                Verdict::Missed => "missed".to_owned(),
            },
        ];
        format!("| {} |\n", cells.join(" | "))
    }

    /// What the numbers alone would hide: failures, and rows that measured their own load.
    fn notes(&self) -> String {
        let mut notes = String::new();
        for (side, outcome) in [("ours", &self.ours), ("official", &self.official)] {
            let note = match outcome {
                Outcome::Failed(reason) => format!("failed: {reason}"),
                Outcome::Measured(measured) => match measured.generator_load {
                    Some(load) if load > GENERATOR_LOAD_MAX => {
                        format!("the load generator used {:.0} % of a core", load * 100.0)
                    }
                    _ => continue,
                },
            };
            let _ = writeln!(notes, "- {}, {side}: {note}", self.name);
        }
        notes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Met,
    Missed,
}
