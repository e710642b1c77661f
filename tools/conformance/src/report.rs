//! What a run of the suite found, read from vitest's JSON.

use std::fmt;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{
    Scope,
    suite::{INTEROP_EXPECTED, MODELS_EXPECTED, PAGE_EXPECTED, SHAPES_EXPECTED, TESTS_EXPECTED},
};

/// The outcome of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Report {
    /// How many tests passed.
    pub passed: u32,
    /// Every test that failed, and everything wrong with the run itself.
    pub faults: Vec<Fault>,
}

/// One thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The full name of the test, or the part of the run that broke.
    pub name: String,
    /// What the suite said about it.
    pub message: String,
}

impl Report {
    /// Reads the results of a run of `scope`.
    ///
    /// # Errors
    ///
    /// When `json` is not what vitest's JSON reporter writes.
    pub(crate) fn parse(json: &str, scope: &Scope) -> Result<Self> {
        let run: VitestRun = serde_json::from_str(json).context("not a vitest JSON report")?;
        let mut report = Self { passed: 0, faults: Vec::new() };
        for file in run.test_results {
            report.add_file(file);
        }
        report.demand_count(scope);
        Ok(report)
    }

    fn add_file(&mut self, file: VitestFile) {
        if file.assertion_results.is_empty() && file.status != "passed" {
            self.faults
                .push(Fault { name: "the suite did not load".into(), message: file.message });
        }
        for test in file.assertion_results {
            match test.status.as_str() {
                "passed" => self.passed += 1,
                "failed" => self.faults.push(Fault {
                    name: test.full_name,
                    message: test.failure_messages.join("\n"),
                }),
                // Skipped by the suite itself; the expected count notices if it is too many.
                _ => {}
            }
        }
    }

    /// Fewer tests than expected must not look like success.
    fn demand_count(&mut self, scope: &Scope) {
        let failed = u32::try_from(self.faults.len()).unwrap_or(u32::MAX);
        let ran = self.passed.saturating_add(failed);
        let expected = match scope {
            Scope::Whole => TESTS_EXPECTED,
            Scope::Interop => INTEROP_EXPECTED,
            Scope::Shapes => SHAPES_EXPECTED,
            Scope::Models => MODELS_EXPECTED,
            Scope::Page => PAGE_EXPECTED,
            Scope::Named(_) => ran.max(1),
        };
        if ran == expected {
            return;
        }
        let complaint = match scope {
            Scope::Named(pattern) => format!("no test matches `{pattern}`"),
            Scope::Whole | Scope::Interop | Scope::Shapes | Scope::Models | Scope::Page => {
                format!("{expected} tests were expected, {ran} ran")
            }
        };
        self.faults.push(Fault { name: "number of tests".into(), message: complaint });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.faults {
            writeln!(out, "FAILED {}", fault.name)?;
            for line in fault.message.lines() {
                writeln!(out, "    {line}")?;
            }
        }
        write!(out, "{} tests passed, {} faults", self.passed, self.faults.len())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VitestRun {
    test_results: Vec<VitestFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VitestFile {
    status: String,
    #[serde(default)]
    message: String,
    assertion_results: Vec<VitestTest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VitestTest {
    full_name: String,
    status: String,
    #[serde(default)]
    failure_messages: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A report over tests of the given statuses, named by their index.
    fn report(statuses: &[&str], scope: &Scope) -> Report {
        let tests: Vec<Value> = statuses
            .iter()
            .enumerate()
            .map(|(index, status)| {
                let messages = if *status == "failed" { vec!["expected 204"] } else { vec![] };
                json!({ "fullName": index.to_string(), "status": status,
                        "failureMessages": messages })
            })
            .collect();
        let run = json!({ "testResults": [
            { "status": "passed", "message": "", "assertionResults": tests }
        ]});
        Report::parse(&run.to_string(), scope).unwrap()
    }

    fn fault(name: &str, message: &str) -> Fault {
        Fault { name: name.to_owned(), message: message.to_owned() }
    }

    fn some() -> Scope {
        Scope::Named("sse".to_owned())
    }

    #[test]
    fn passed_failed_and_skipped_tests_are_told_apart() {
        let report = report(&["passed", "failed", "skipped", "passed"], &some());
        assert_eq!(report, Report { passed: 2, faults: vec![fault("1", "expected 204")] });
    }

    #[test]
    fn a_whole_run_has_every_test() {
        let mut statuses = vec!["passed"; TESTS_EXPECTED as usize];
        assert_eq!(report(&statuses, &Scope::Whole).faults, []);
        statuses[0] = "skipped";
        let faults = report(&statuses, &Scope::Whole).faults;
        assert_eq!(faults, [fault("number of tests", "338 tests were expected, 337 ran")]);
    }

    #[test]
    fn a_pattern_must_match_something() {
        let faults = report(&["skipped"], &some()).faults;
        assert_eq!(faults, [fault("number of tests", "no test matches `sse`")]);
    }

    #[test]
    fn a_suite_that_does_not_load_is_a_fault() {
        let run = json!({ "testResults": [
            { "status": "failed", "message": "Cannot find package", "assertionResults": [] }
        ]});
        let report = Report::parse(&run.to_string(), &some()).unwrap();
        assert_eq!(report.faults, [fault("the suite did not load", "Cannot find package")]);
    }
}
