//! The end of a test run: one table, the failures, and one line to count by.

use std::process::ExitCode;

use super::Finished;
use crate::tally::Count;

/// Prints everything; the last line is `N passed, N failed` and nothing else.
pub(super) fn print(finished: &[Finished]) -> ExitCode {
    println!("\n{}", table(finished));
    for stage in finished {
        print_failures(&stage.tally.failures);
    }
    let total = total(finished);
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One line for each thing that failed.
pub(crate) fn print_failures(failures: &[String]) {
    for failure in failures {
        println!("FAILED {failure}");
    }
}

fn table(finished: &[Finished]) -> String {
    let mut lines = vec![row("stage", ["minutes", "budget", "passed", "failed"])];
    for Finished { stage, seconds, tally } in finished {
        let minutes = seconds / 60.0;
        let counts = cells(tally.total());
        let used = [&format!("{minutes:.1}"), &stage.minutes.to_string()];
        let mut line = row(stage.name, [used[0], used[1], &counts[0], &counts[1]]);
        if minutes > stage.minutes as f64 {
            line.push_str("  over budget");
        }
        lines.push(line);
        for (group, count) in &tally.groups {
            let counts = cells(*count);
            lines.push(row(&format!("  {group}"), ["", "", &counts[0], &counts[1]]));
        }
    }
    lines.join("\n") + "\n"
}

fn row(name: &str, cells: [&str; 4]) -> String {
    let [minutes, budget, passed, failed] = cells;
    format!("{name:<32}{minutes:>9}{budget:>9}{passed:>9}{failed:>9}")
}

fn cells(count: Count) -> [String; 2] {
    [count.passed.to_string(), count.failed.to_string()]
}

fn total(finished: &[Finished]) -> Count {
    let mut total = Count::default();
    for stage in finished {
        total.add(stage.tally.total());
    }
    total
}

#[cfg(test)]
mod tests {
    use super::{super::Stage, *};
    use crate::tally::Tally;

    #[test]
    fn the_table_shows_time_and_counts_by_crate() {
        let mut tally = Tally::default();
        tally.add("headwater-wire", Count { passed: 12, failed: 1 });
        tally.add("headwater-log", Count { passed: 30, failed: 0 });
        let work = |_: &_| Ok(Tally::default());
        let stage = Box::leak(Box::new(Stage { name: "unit and property", minutes: 5, work }));
        let finished = [Finished { stage, seconds: 330.0, tally }];
        let expect = "\
stage                             minutes   budget   passed   failed
unit and property                     5.5        5       42        1  over budget
  headwater-log                                          30        0
  headwater-wire                                         12        1
";
        assert_eq!(table(&finished), expect);
        assert_eq!(total(&finished), Count { passed: 42, failed: 1 });
    }
}
