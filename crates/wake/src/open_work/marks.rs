//! Watermarks: up to where each stream was judged, and found to be at rest.

use std::collections::BTreeMap;

use log::Incarnation;
use serde::{Deserialize, Serialize};
use wire::{Offset, caps::ORDINAL_MAX};

/// One watermark, as it is stored: the incarnation of a stream, and the position and byte of the
/// offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub(crate) struct Mark {
    life: Incarnation,
    at: Offset,
}

/// A watermark that lies where no stream reaches.
#[derive(Debug, thiserror::Error)]
#[error("no stream has an offset of {0} messages and {1} bytes")]
pub(crate) struct BadMark(u64, u64);

/// Watermarks by incarnation, which is unique in a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    marks: BTreeMap<Incarnation, Rest>,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    at: Offset,
    /// Whether the pass that is under way, or the last one, has met the stream.
    is_met: bool,
}

impl Mark {
    pub(crate) fn new(life: Incarnation, at: Offset) -> Self {
        Self { life, at }
    }
}

impl TryFrom<(u64, u64, u64)> for Mark {
    type Error = BadMark;

    fn try_from((life, position, byte): (u64, u64, u64)) -> Result<Self, BadMark> {
        if position > ORDINAL_MAX || byte > ORDINAL_MAX {
            return Err(BadMark(position, byte));
        }
        Ok(Self { life: Incarnation::new(life), at: Offset::new(position, byte) })
    }
}

impl From<Mark> for (u64, u64, u64) {
    fn from(mark: Mark) -> Self {
        (mark.life.get(), mark.at.position.get(), mark.at.byte.get())
    }
}

impl Marks {
    pub(crate) fn get(&self, life: Incarnation) -> Option<Offset> {
        self.marks.get(&life).map(|rest| rest.at)
    }

    /// True unless the stream is at rest exactly where it ends. One without messages is.
    pub(crate) fn is_open(&self, life: Incarnation, tail: Offset) -> bool {
        tail != Offset::START && self.get(life) != Some(tail)
    }

    /// True if the watermark is there already.
    pub(crate) fn holds(&self, mark: Mark) -> bool {
        self.get(mark.life) == Some(mark.at)
    }

    /// Takes a watermark in. What was judged further stays judged.
    pub(crate) fn set(&mut self, mark: Mark) {
        let rest = self.marks.entry(mark.life).or_insert(Rest { at: mark.at, is_met: true });
        *rest = Rest { at: rest.at.max(mark.at), is_met: true };
    }

    pub(crate) fn forget(&mut self, life: Incarnation) {
        self.marks.remove(&life);
    }

    pub(crate) fn len(&self) -> usize {
        self.marks.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Mark> {
        self.marks.iter().map(|(life, rest)| Mark::new(*life, rest.at))
    }

    /// Begins a pass over all streams.
    pub(crate) fn begin_pass(&mut self) {
        self.marks.values_mut().for_each(|rest| rest.is_met = false);
    }

    /// The pass has met a stream that is to be remembered.
    pub(crate) fn met(&mut self, life: Incarnation) {
        if let Some(rest) = self.marks.get_mut(&life) {
            rest.is_met = true;
        }
    }

    /// Ends a pass: what it has not met is gone.
    pub(crate) fn end_pass(&mut self) {
        self.marks.retain(|_, rest| rest.is_met);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_open_unless_it_rests_where_it_ends() {
        let [a, b] = [1, 2].map(Incarnation::new);
        let [one, two] = [Offset::new(1, 10), Offset::new(2, 20)];
        let mut marks = Marks::default();
        assert!(!marks.is_open(a, Offset::START), "there is nothing in it");
        assert!(marks.is_open(a, one));
        marks.set(Mark::new(a, one));
        let open = [(a, one), (a, two), (b, one)].map(|(life, tail)| marks.is_open(life, tail));
        assert_eq!(open, [false, true, true]);
        marks.set(Mark::new(a, two));
        marks.set(Mark::new(a, one));
        assert_eq!(marks.get(a), Some(two), "what was judged further stays judged");
    }

    #[test]
    fn a_mark_is_three_numbers_and_none_lies_where_no_stream_reaches() {
        let mark = Mark::new(Incarnation::new(7), Offset::new(2, 30));
        assert_eq!(serde_json::to_string(&mark).unwrap(), "[7,2,30]");
        assert_eq!(serde_json::from_str::<Mark>("[7,2,30]").unwrap(), mark);
        for bad in ["[7,2]", "[7,-2,30]", "[7,18446744073709551615,30]", "{}"] {
            serde_json::from_str::<Mark>(bad).unwrap_err();
        }
    }

    #[test]
    fn a_pass_drops_what_it_did_not_meet_and_keeps_what_came_meanwhile() {
        let at = Offset::new(1, 1);
        let lives = [1, 2, 3].map(Incarnation::new);
        let mut marks = Marks::default();
        lives[..2].iter().for_each(|life| marks.set(Mark::new(*life, at)));
        marks.begin_pass();
        marks.met(lives[1]);
        marks.set(Mark::new(lives[2], at));
        marks.end_pass();
        assert!(marks.iter().map(|mark| mark.life).eq(lives[1..].iter().copied()));
    }
}
