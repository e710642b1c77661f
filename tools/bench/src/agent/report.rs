//! The tables, and whether the goals are met.

use std::fmt::Write as _;

use super::{
    figures::{Figures, Latency},
    steps, tokens,
};

/// How much slower the last steps may be than the first ones and still count as flat.
const FLAT_RATIO_MAX: f64 = 1.25;

/// A latency that must stay below these.
struct Goal {
    what: &'static str,
    ms_p50: f64,
    ms_p99: f64,
}

const GOALS: [Goal; 3] = [
    Goal { what: tokens::ADAPTIVE, ms_p50: 2.0, ms_p99: 8.0 },
    Goal { what: steps::TO_TOOL, ms_p50: 1.0, ms_p99: 5.0 },
    Goal { what: steps::TO_MODEL, ms_p50: 1.0, ms_p99: 5.0 },
];

pub(super) fn markdown(figures: &Figures) -> String {
    figures.markdown() + &verdicts(figures)
}

impl Figures {
    /// The figures as tables.
    pub(crate) fn markdown(&self) -> String {
        tables(self)
    }
}

fn tables(figures: &Figures) -> String {
    let mut text = String::new();
    if !figures.latencies.is_empty() {
        text.push_str("| latency | p50 ms | p99 ms | p50 by its floor | n |\n");
        text.push_str("| --- | ---: | ---: | ---: | ---: |\n");
    }
    for Latency { what, ms_p50, ms_p99, count, floor } in &figures.latencies {
        let floor = floor.as_ref().and_then(|floor| figures.latency(floor));
        let ratio = floor.map_or_else(String::new, |it| format!("{:.1}x", ms_p50 / it.ms_p50));
        let _ = writeln!(text, "| {what} | {ms_p50:.3} | {ms_p99:.3} | {ratio} | {count} |");
    }
    if !figures.amounts.is_empty() {
        text.push_str("\n| amount | |\n| --- | ---: |\n");
    }
    for amount in &figures.amounts {
        let value = match amount.value {
            ..10.0 => format!("{:.2}", amount.value),
            _ => format!("{:.0}", amount.value),
        };
        let _ = writeln!(text, "| {} | {value} {} |", amount.what, amount.unit);
    }
    text.push('\n');
    text
}

fn verdicts(figures: &Figures) -> String {
    let mut text = String::new();
    let word = |is_met: bool| if is_met { "met" } else { "missed" };
    for Goal { what, ms_p50, ms_p99 } in &GOALS {
        let Some(latency) = figures.latency(what) else { continue };
        let (p50, p99) = (word(latency.ms_p50 < *ms_p50), word(latency.ms_p99 < *ms_p99));
        let _ = writeln!(text, "goal: {what}: p50 < {ms_p50} ms {p50}, p99 < {ms_p99} ms {p99}");
    }
    let ends = (figures.latency(steps::FIRST), figures.latency(steps::LAST));
    if let (Some(first), Some(last)) = ends {
        let ratio = last.ms_p50 / first.ms_p50;
        let _ = writeln!(
            text,
            "goal: flat: the last steps take {ratio:.2} times the first, at most \
             {FLAT_RATIO_MAX}: {}",
            word(ratio <= FLAT_RATIO_MAX)
        );
    }
    text
}
