//! How long calls that are made elsewhere have been as far as they are, by the clock of the process
//! that looks.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use sys::UnixMs;

use crate::rows::{CallStatus, ToolCall};

/// Since when the open calls of a session were seen as they are. Times in rows are those of other
/// clocks, which may differ by days: they would have a call given up as soon as it is seen. A
/// supervisor keeps this from one runner of a session to the next.
#[derive(Clone, Debug, Default)]
pub struct CallAges(
    // Held for one step, never across an await.
    Arc<Mutex<BTreeMap<String, Since>>>,
);

/// How far a call is, and since when.
#[derive(Clone, Copy, Debug)]
struct Since {
    status: CallStatus,
    attempt: u32,
    at: UnixMs,
}

impl CallAges {
    /// Takes note of how far these calls are, and forgets all others.
    pub(crate) fn note<'a>(&self, calls: impl Iterator<Item = &'a ToolCall>, now: UnixMs) {
        let mut ages = self.0.lock();
        let before = std::mem::take(&mut *ages);
        for row in calls.filter(|row| !row.status.is_terminal()) {
            let (status, attempt) = (row.status, row.attempt);
            let known = before.get(&row.id).copied();
            let known = known.filter(|it| (it.status, it.attempt) == (status, attempt));
            ages.insert(row.id.clone(), known.unwrap_or(Since { status, attempt, at: now }));
        }
    }

    /// Since when a call was seen as it is.
    pub(crate) fn since(&self, row: &ToolCall) -> Option<UnixMs> {
        self.0.lock().get(&row.id).map(|since| since.at)
    }

    /// Whether no call is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// The same one, not another that says the same.
impl PartialEq for CallAges {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CallAges {}
