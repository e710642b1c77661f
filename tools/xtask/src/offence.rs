//! One broken rule, and how to mend it.

use std::{fmt, process::ExitCode};

/// A place in the tree and what to do there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offence {
    /// A path relative to the root, with a line where there is one.
    pub(crate) place: String,
    /// What is wrong and what to do about it.
    pub(crate) remedy: String,
}

impl Offence {
    /// An offence on one line of a file; lines count from 1.
    pub(crate) fn at_line(path: &str, line: usize, remedy: impl Into<String>) -> Self {
        Self { place: format!("{path}:{line}"), remedy: remedy.into() }
    }

    /// An offence of a file as a whole.
    pub(crate) fn of_file(path: &str, remedy: impl Into<String>) -> Self {
        Self::at_line(path, 1, remedy)
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.remedy)
    }
}

/// Shows all offences at once, because fixing them one run at a time is tiresome.
pub(crate) fn print_all(check: &str, offences: &[Offence]) -> ExitCode {
    for offence in offences {
        println!("{offence}");
    }
    if offences.is_empty() {
        println!("{check}: in order");
        return ExitCode::SUCCESS;
    }
    println!("{check}: {} to mend", offences.len());
    ExitCode::FAILURE
}
