//! The table: row by row, what both sides took.

use std::fmt::Write as _;

use super::figure::{Figure, Heap, Outcome};

/// The best of all rounds so far.
#[derive(Default)]
pub(super) struct Report {
    rows: Vec<Row>,
    heaps: Vec<HeapRow>,
}

struct Row {
    scenario: (&'static str, &'static str),
    ours: Figure,
    theirs: Option<Figure>,
}

struct HeapRow {
    scenario: &'static str,
    ours: Heap,
    theirs: Option<Heap>,
}

impl Report {
    /// Takes in a round; what it came to, in a line.
    pub(super) fn take(
        &mut self,
        scenario: (&'static str, &'static str),
        ours: Outcome,
        theirs: Option<Outcome>,
    ) -> String {
        let mut line = String::new();
        let (their_figures, their_heap) =
            theirs.map_or((Vec::new(), None), |outcome| (outcome.figures, outcome.heap));
        for ours in ours.figures {
            let theirs = their_figures.iter().find(|figure| figure.name == ours.name);
            let told = theirs.map_or_else(String::new, |figure| format!(" / {}", time(figure.us)));
            let _ = write!(line, "{} {}{told}; ", ours.name, time(ours.us));
            let known = |row: &&mut Row| row.scenario == scenario && row.ours.name == ours.name;
            match self.rows.iter_mut().find(known) {
                Some(row) => {
                    row.ours = better(&row.ours, &ours).clone();
                    let best = row.theirs.as_ref().zip(theirs).map(|(a, b)| better(a, b).clone());
                    row.theirs = best;
                }
                None => self.rows.push(Row { scenario, ours, theirs: theirs.cloned() }),
            }
        }
        let is_new = self.heaps.iter().all(|row| row.scenario != scenario.0);
        if let (Some(ours), true) = (ours.heap, is_new) {
            self.heaps.push(HeapRow { scenario: scenario.0, ours, theirs: their_heap });
        }
        line
    }

    pub(super) fn markdown(&self) -> String {
        let mut table = String::from(
            "| scenario | | @tanstack/db | ours | ours p99 | ratio |\n\
             | --- | --- | ---: | ---: | ---: | ---: |\n",
        );
        let mut ratios = Vec::new();
        for Row { scenario: (name, about), ours, theirs } in &self.rows {
            let ratio = theirs.as_ref().map(|theirs| theirs.us / ours.us);
            ratios.extend(ratio);
            let theirs = theirs.as_ref().map_or_else(dash, |figure| time(figure.us));
            let p99 = ours.p99_us.map_or_else(dash, time);
            let ratio = ratio.map_or_else(dash, |ratio| format!("{ratio:.0}x"));
            let (figure, ours) = (&ours.name, time(ours.us));
            let _ = writeln!(
                table,
                "| {name} {about} | {figure} | {theirs} | {ours} | {p99} | {ratio} |"
            );
        }
        if !ratios.is_empty() {
            let mean =
                (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let _ = writeln!(
                table,
                "\nGeometric mean of {} ratios {mean:.0}x, the least {least:.0}x.",
                ratios.len()
            );
        }
        table + &self.memory()
    }

    fn memory(&self) -> String {
        let mut table = String::new();
        if !self.heaps.is_empty() {
            table.push_str("\n| bytes per row | @tanstack/db, heap | ours, resident | ratio |\n");
            table.push_str("| --- | ---: | ---: | ---: |\n");
        }
        for HeapRow { scenario, ours, theirs } in &self.heaps {
            let each = |heap: &Heap| heap.bytes / heap.rows as f64;
            let ratio = theirs.map(|theirs| each(&theirs) / each(ours));
            let ratio = ratio.map_or_else(dash, |ratio| format!("{ratio:.1}x"));
            let theirs = theirs.map_or_else(dash, |theirs| format!("{:.0}", each(&theirs)));
            let _ = writeln!(table, "| {scenario} | {theirs} | {:.0} | {ratio} |", each(ours));
        }
        table
    }
}

fn better<'a>(a: &'a Figure, b: &'a Figure) -> &'a Figure {
    if b.us < a.us { b } else { a }
}

fn dash() -> String {
    "-".into()
}

fn time(us: f64) -> String {
    match us {
        ..10.0 => format!("{us:.2} µs"),
        ..1e3 => format!("{us:.0} µs"),
        ..1e4 => format!("{:.2} ms", us / 1e3),
        ..1e6 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}
