//! Where an event stands among those of its effect.

use query::{Change, Key};

use super::EventId;

/// The place of an event: by its tick, within that by where its row was written first, and then by
/// the row's key. All of it is read from the stream, so it is the same in every life of the effect,
/// however the engine came to the change and whatever was compacted meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) position: u64,
    pub(super) row: Option<u64>,
    pub(super) key: Key,
    /// Where its tick ended.
    pub(super) end: u64,
}

impl Mark {
    pub(super) fn new(id: &EventId, end: u64, change: &Change) -> Self {
        let entry = change.new.as_ref().or(change.old.as_ref());
        let row = entry.and_then(|entry| entry.meta.position);
        Self { position: id.position, row, key: id.key.clone(), end }
    }
}
