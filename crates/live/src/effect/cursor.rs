//! Cursors: how far a durable effect has come, as a row of its stream.

use std::collections::BTreeSet;

use query::Key;
use serde::{Deserialize, Serialize};
use state::{Draft, Json, TypeName};
use wire::{
    Position,
    caps::{INTEGER_MAX, ORDINAL_MAX},
};

/// The type of cursor rows. It is reserved: no collection has it, and it triggers nothing.
pub(crate) const TYPE: &str = "headwater.cursor";

/// The position that a cursor still needs.
pub(crate) fn position(cursor: &Json) -> Option<Position> {
    let cursor: Cursor = cursor.read().ok()?;
    (cursor.position <= ORDINAL_MAX).then(|| Position::new(cursor.position))
}

/// How far an effect has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cursor {
    /// Where the effect was started first: rows that matched then were events, too.
    pub(super) start: u64,
    /// Whether those rows were passed over.
    #[serde(default)]
    pub(super) skips_initial: bool,
    /// All events of ticks that began before this are done.
    pub(super) position: u64,
    /// Events from there on that are done.
    #[serde(default)]
    pub(super) done: BTreeSet<(u64, Key)>,
    /// Which runner wrote it; a later one has a higher number.
    pub(super) epoch: u64,
}

impl Cursor {
    /// The cursor as a change of its row.
    pub(super) fn draft(&self, effect: &str) -> Option<Draft> {
        let type_name: TypeName = TYPE.parse().ok()?;
        Some(Draft::upsert(type_name, effect.parse().ok()?, Json::of(self).ok()?))
    }

    /// True if it can be the cursor of an effect on a stream that ends there. Strangers may write
    /// anything.
    pub(super) fn is_possible(&self, end: u64) -> bool {
        self.position <= end && self.start <= end && self.epoch < INTEGER_MAX
    }

    /// True if an event was done.
    pub(super) fn is_done(&self, position: u64, key: &Key) -> bool {
        position < self.position || self.done.contains(&(position, key.clone()))
    }

    /// The position of the events that the effect began with.
    pub(super) fn initial(&self) -> u64 {
        self.start.saturating_sub(1)
    }
}
