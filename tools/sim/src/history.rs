//! The history of a run: every request with its answer and, if wanted, every call to the disk.

use std::sync::Arc;

use parking_lot::Mutex;
use sys::Clock;

/// How much a history tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Requests and answers.
    Requests,
    /// Also what the log writes to its disk.
    Disk,
}

/// Lines with their times. Clones write to the same one.
#[derive(Clone, Debug)]
pub(crate) struct History {
    clock: Clock,
    pub(crate) detail: Detail,
    // Held to add a line.
    lines: Arc<Mutex<Vec<String>>>,
}

impl History {
    pub(crate) fn new(clock: Clock, detail: Detail) -> Self {
        Self { clock, detail, lines: Arc::default() }
    }

    pub(crate) fn note(&self, line: &str) {
        let line = format!("{:>8} {line}", self.clock.elapsed().as_millis());
        self.lines.lock().push(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }
}
