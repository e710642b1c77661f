//! Cursors: how far a durable effect has come, as a row of its stream.
//!
//! ```text
//! events   a a a a a a a a a a
//!          ─────────┐   ┌─┐ ┌─┐
//!          all done │   done: what came out of turn, a few
//!                   └ position, and `through` within it
//! ```

use std::collections::{BTreeMap, BTreeSet};

use query::Key;
use serde::{Deserialize, Serialize};
use state::{Draft, Json, TypeName};
use sys::UnixMs;
use wire::{
    Position,
    caps::{INTEGER_MAX, ORDINAL_MAX},
};

use super::mark::Mark;

/// The type of cursor rows. It is reserved: no collection has it, and it triggers nothing.
pub(crate) const TYPE: &str = "headwater.cursor";
/// The type of claims, which is reserved, too.
pub(crate) const CLAIM_TYPE: &str = "headwater.claim";

/// The position that a cursor still needs.
pub(crate) fn position(cursor: &Json) -> Option<Position> {
    let cursor: Cursor = cursor.read().ok()?;
    (cursor.position <= ORDINAL_MAX).then(|| Position::new(cursor.position))
}

/// The changes that forget an effect.
pub(crate) fn forgotten(effect: &str) -> Vec<Draft> {
    let delete = |name: &str| Some(Draft::delete(name.parse().ok()?, effect.parse().ok()?));
    [TYPE, CLAIM_TYPE].into_iter().filter_map(delete).collect()
}

/// When the runner of a cursor or a claim was last seen, by its own clock. Rows of versions that
/// this one cannot read tell it, too.
pub(crate) fn seen_at(row: &Json) -> Option<UnixMs> {
    row.field(SEEN_AT)?.read().ok().map(UnixMs::new)
}

/// The change that lets a cursor or a claim tell this time, and leaves the rest of it alone; none
/// if it is no object.
pub(crate) fn stamped(type_name: &str, effect: &str, row: &Json, now: UnixMs) -> Option<Draft> {
    let stamped = row.set(SEEN_AT, &Json::of(&now.get()).ok()?).ok()?;
    Some(Draft::upsert(type_name.parse().ok()?, effect.parse().ok()?, stamped))
}

/// The field of both that tells when they were written.
const SEEN_AT: &str = "seenAt";

/// Whether a row of the type of claims is one. Strangers may write anything.
pub(crate) fn is_claim(claim: &Json) -> bool {
    claim.read::<Claim>().is_ok()
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
    /// All events of messages before this are done.
    pub(super) position: u64,
    /// Where ticks ended of which some events are done. A foreign writer may go on with the
    /// transaction of one later: what comes then is another tick, in every life.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) ends: BTreeMap<u64, u64>,
    /// Whether `position` counts messages. In cursors that were written before there was this, it
    /// tells that all ticks that began before it are done, wherever they end.
    #[serde(default)]
    pub(super) by_message: bool,
    /// Of the tick there, all events up to and with this one are done, too: where its row was
    /// written first, and its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) through: Option<(Option<u64>, Key)>,
    /// Later events that are done.
    #[serde(default)]
    pub(super) done: BTreeSet<(u64, Key)>,
    /// Which runner wrote it; a later one has a higher number.
    pub(super) epoch: u64,
    /// When, by the clock of that runner. Cursors of earlier versions do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seen_at: Option<u64>,
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
    pub(super) fn is_done(&self, mark: &Mark) -> bool {
        mark.position < self.position
            || mark.position == self.position && self.is_through(mark)
            || self.done.contains(&(mark.position, mark.key.clone()))
    }

    fn is_through(&self, mark: &Mark) -> bool {
        self.through.as_ref().is_some_and(|(row, key)| (mark.row, &mark.key) <= (*row, key))
    }

    /// Where ticks must begin so that they are those that the cursor speaks of.
    pub(super) fn cuts(&self) -> BTreeSet<Position> {
        let ends = self.ends.iter().flat_map(|(start, end)| [*start, *end]);
        let all = ends.chain(self.by_message.then_some(self.position));
        all.filter(|cut| *cut <= ORDINAL_MAX).map(Position::new).collect()
    }

    /// The position of the events that the effect began with.
    pub(super) fn initial(&self) -> u64 {
        self.start.saturating_sub(1)
    }
}

/// A runner that takes an effect over. What runners before it wrote stands before its claim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claim {
    pub(super) epoch: u64,
    /// What tells it from others that had the same idea.
    pub(super) runner: String,
    /// When it was made, by the clock of that runner. Claims of earlier versions do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seen_at: Option<u64>,
}

impl Claim {
    /// Whether it is the same one, whatever time was written into it since.
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.epoch, &self.runner) == (other.epoch, &other.runner)
    }

    /// The claim as a change of its row.
    pub(super) fn draft(&self, effect: &str) -> Option<Draft> {
        let type_name: TypeName = CLAIM_TYPE.parse().ok()?;
        Some(Draft::upsert(type_name, effect.parse().ok()?, Json::of(self).ok()?))
    }
}
