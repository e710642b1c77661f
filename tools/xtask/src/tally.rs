//! Counting what passed and what failed, by crate.

use std::collections::BTreeMap;

/// How many tests passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Count {
    /// One test that passed.
    pub(crate) const PASS: Self = Self { passed: 1, failed: 0 };
    /// One test that failed.
    pub(crate) const FAIL: Self = Self { passed: 0, failed: 1 };

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// The counts of one stage and the names of what failed in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// By crate, engine, fuzz target or check, whatever the stage is made of.
    pub(crate) groups: BTreeMap<String, Count>,
    /// One line each.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, group: &str, count: Count) {
        self.groups.entry(group.to_owned()).or_default().add(count);
    }

    pub(crate) fn pass(&mut self, group: &str) {
        self.add(group, Count::PASS);
    }

    pub(crate) fn fail(&mut self, group: &str, what: &str) {
        self.add(group, Count::FAIL);
        self.failures.push(format!("{group}: {what}"));
    }

    pub(crate) fn total(&self) -> Count {
        let mut total = Count::default();
        for count in self.groups.values() {
            total.add(*count);
        }
        total
    }

    pub(crate) fn all_passed(&self) -> bool {
        self.total().failed == 0
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (group, count) in other.groups {
            self.add(&group, count);
        }
        self.failures.extend(other.failures);
    }
}
