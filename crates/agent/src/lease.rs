//! Leases: for how long a runner that writes nothing is believed to be alive, and by whose order it
//! runs.

use std::{fmt, time::Duration};

use sys::Chance;

use crate::CallAges;

/// One opening of a log that only one process can have open at a time, such as a file log under its
/// lock. A runner of an earlier opening is surely dead, so nobody waits for its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home(u64);

impl Home {
    /// The home of an opening that was just made.
    #[must_use]
    pub fn draw(chance: &Chance) -> Self {
        Self(chance.u64())
    }
}

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// On what terms a supervisor lets an agent run in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The agent. One of another name runs as if it had no lease.
    pub agent: String,
    /// The supervisor: one that finds a runner of its own that it does not run knows it is dead.
    pub supervisor: String,
    /// The opening of an exclusive log that it runs in, if it is one.
    pub home: Option<Home>,
    /// How long the runner may write nothing before others take over.
    pub duration: Duration,
    /// The takeover that the supervisor knows to be over, 0 if there was none. If another one has
    /// come since, the agent is not started.
    pub after: u64,
    /// Whether nothing else works in this process. Then its death counts as a failure of what the
    /// agent does.
    pub is_alone: bool,
    /// What the supervisor knows of the calls of the session that are made elsewhere.
    pub ages: CallAges,
}
