//! How long calls have been open in sessions whose agents made room for others.

use std::collections::BTreeMap;

use agent::CallAges;
use parking_lot::Mutex;

use crate::{SessionId, caps::AGES_KEPT_MAX};

/// What one runner of a session leaves to the next one in this process.
#[derive(Debug, Default)]
pub(crate) struct Ages(
    // Held for one step, never across an await.
    Mutex<BTreeMap<SessionId, CallAges>>,
);

impl Ages {
    /// What the last runner has left; nothing, if there was none.
    pub(super) fn take(&self, session: &SessionId) -> CallAges {
        self.0.lock().remove(session).unwrap_or_default()
    }

    /// A runner has ended.
    pub(super) fn keep(&self, session: &SessionId, ages: CallAges) {
        let mut kept = self.0.lock();
        if ages.is_empty() {
            return;
        }
        if kept.len() >= AGES_KEPT_MAX {
            kept.pop_first();
        }
        kept.insert(session.clone(), ages);
    }
}
