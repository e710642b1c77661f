//! Watermarks: up to where each stream was judged, and found to be at rest.

use std::{collections::BTreeMap, ops::Bound};

use log::Incarnation;
use serde::{Deserialize, Serialize};
use wire::{Offset, caps::ORDINAL_MAX};

use crate::caps::{FRESH_MARKS_MIN, FRESH_MARKS_SHARE};

/// Places that the array grows by: so many, or such a part of it.
const GROWTH_MIN: usize = 64;
const GROWTH_SHARE: usize = 8;

const _: () = assert!(size_of::<Mark>() == 24);

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
///
/// There may be millions, so most of them stand in a sorted array, at 25 bytes each. Incarnations
/// grow, so those of new streams come at its end; others are gathered in a tree beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    settled: Vec<Mark>,
    /// How each of these stands.
    standings: Vec<Standing>,
    /// How many of these are gone.
    gone: usize,
    /// Those that have no place in the array yet, but belong between others.
    fresh: BTreeMap<Incarnation, (Offset, Standing)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The pass that is under way, or the last one, has met the stream.
    Met,
    Unmet,
    /// It is forgotten, and its place in the array not given back yet.
    Gone,
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
        match self.place(life) {
            Ok(at) => Some(self.settled[at].at).filter(|_| self.standings[at] != Standing::Gone),
            Err(_) => self.fresh.get(&life).map(|(at, _)| *at),
        }
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
        match self.place(mark.life) {
            Ok(place) => {
                let (known, standing) = (&mut self.settled[place], &mut self.standings[place]);
                match std::mem::replace(standing, Standing::Met) {
                    Standing::Gone => (self.gone, known.at) = (self.gone - 1, mark.at),
                    Standing::Met | Standing::Unmet => known.at = known.at.max(mark.at),
                }
            }
            Err(place) if place == self.settled.len() && self.fresh.is_empty() => self.push(mark),
            Err(_) => {
                let (at, standing) =
                    self.fresh.entry(mark.life).or_insert((mark.at, Standing::Met));
                (*at, *standing) = (mark.at.max(*at), Standing::Met);
                if self.fresh.len() > FRESH_MARKS_MIN.max(self.settled.len() / FRESH_MARKS_SHARE) {
                    self.settle();
                }
            }
        }
    }

    pub(crate) fn forget(&mut self, life: Incarnation) {
        match self.place(life) {
            Ok(place) => {
                let standing = std::mem::replace(&mut self.standings[place], Standing::Gone);
                self.gone += usize::from(standing != Standing::Gone);
            }
            Err(_) => _ = self.fresh.remove(&life),
        }
        if self.gone > FRESH_MARKS_MIN.max(self.settled.len() / 2) {
            self.keep(|standing| standing != Standing::Gone);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.settled.len() - self.gone + self.fresh.len()
    }

    /// At most so many of those after this one, in the order of their incarnations.
    pub(crate) fn part(&self, after: Option<Mark>, count_max: usize) -> Vec<Mark> {
        let start =
            after.map_or(0, |after| self.settled.partition_point(|it| it.life <= after.life));
        let settled = self.settled[start..].iter().zip(&self.standings[start..]);
        let settled = settled.filter(|(_, standing)| **standing != Standing::Gone);
        let start = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.life));
        let fresh = self.fresh.range((start, Bound::Unbounded));
        let fresh = fresh.map(|(life, (at, _))| Mark::new(*life, *at));
        let mut part: Vec<Mark> = settled.map(|(mark, _)| *mark).take(count_max).collect();
        part.extend(fresh.take(count_max));
        part.sort_unstable_by_key(|mark| mark.life);
        part.truncate(count_max);
        part
    }

    /// Begins a pass over all streams.
    pub(crate) fn begin_pass(&mut self) {
        let fresh = self.fresh.values_mut().map(|(_, standing)| standing);
        for standing in self.standings.iter_mut().chain(fresh) {
            if *standing == Standing::Met {
                *standing = Standing::Unmet;
            }
        }
    }

    /// The pass has met a stream that is to be remembered.
    pub(crate) fn met(&mut self, life: Incarnation) {
        let standing = match self.place(life) {
            Ok(place) => Some(&mut self.standings[place]),
            Err(_) => self.fresh.get_mut(&life).map(|(_, standing)| standing),
        };
        if let Some(standing) = standing.filter(|standing| **standing == Standing::Unmet) {
            *standing = Standing::Met;
        }
    }

    /// Ends a pass: what it has not met is gone.
    pub(crate) fn end_pass(&mut self) {
        self.keep(|standing| standing == Standing::Met);
        self.fresh.retain(|_, (_, standing)| *standing == Standing::Met);
    }

    /// Where a watermark stands in the array, or would.
    fn place(&self, life: Incarnation) -> Result<usize, usize> {
        self.settled.binary_search_by_key(&life, |mark| mark.life)
    }

    fn push(&mut self, mark: Mark) {
        if self.settled.len() == self.settled.capacity() {
            // In small steps, for half of what doubling takes may never be used.
            let more = GROWTH_MIN.max(self.settled.len() / GROWTH_SHARE);
            self.settled.reserve_exact(more);
            self.standings.reserve_exact(more);
        }
        self.settled.push(mark);
        self.standings.push(Standing::Met);
    }

    fn keep(&mut self, which: impl Fn(Standing) -> bool) {
        let mut standings = self.standings.iter();
        self.settled.retain(|_| standings.next().is_some_and(|standing| which(*standing)));
        self.standings.retain(|standing| which(*standing));
        self.gone = 0;
    }

    /// Gives those beside the array their places in it.
    fn settle(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        let mut settled = std::mem::take(&mut self.settled).into_iter();
        let mut standings = std::mem::take(&mut self.standings).into_iter();
        let count = settled.len() - self.gone + fresh.len();
        self.settled.reserve_exact(count);
        self.standings.reserve_exact(count);
        let mut fresh = fresh.into_iter().peekable();
        let mut next = settled.next().zip(standings.next());
        loop {
            let is_before = match (&next, fresh.peek()) {
                (Some((mark, _)), Some((life, _))) => mark.life < *life,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let (mark, standing) = match (is_before, &next) {
                (true, Some(placed)) => *placed,
                _ => {
                    let Some((life, (at, standing))) = fresh.next() else { break };
                    (Mark::new(life, at), standing)
                }
            };
            if is_before {
                next = settled.next().zip(standings.next());
            }
            if standing != Standing::Gone {
                self.settled.push(mark);
                self.standings.push(standing);
            }
        }
        self.gone = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        let left: Vec<_> = marks.part(None, 9).iter().map(|mark| mark.life).collect();
        assert_eq!(left, lives[1..]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u64, u64),
        Forget(u64),
        Meet(u64),
        Begin,
        End,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let life = || prop_oneof![1_u64..40, 1_u64..4_000];
        let one = prop_oneof![
            12 => (life(), 1_u64..9).prop_map(|(life, at)| Step::Set(life, at)),
            4 => life().prop_map(Step::Forget),
            4 => life().prop_map(Step::Meet),
            1 => Just(Step::Begin),
            1 => Just(Step::End),
        ];
        prop::collection::vec(one, 0..200)
    }

    proptest! {
        #[test]
        fn the_array_and_the_tree_beside_it_tell_what_a_plain_map_does(
            first in prop::collection::vec(1_u64..4_000, 0..3_000),
            steps in steps(),
        ) {
            let (mut marks, mut plain) = (Marks::default(), BTreeMap::new());
            let first = first.into_iter().map(|life| Step::Set(life, life % 7 + 1));
            for step in first.chain(steps) {
                match step {
                    Step::Set(life, at) => {
                        marks.set(Mark::new(Incarnation::new(life), Offset::new(at, at)));
                        let known = plain.entry(life).or_insert((at, true));
                        *known = (known.0.max(at), true);
                    }
                    Step::Forget(life) => {
                        marks.forget(Incarnation::new(life));
                        plain.remove(&life);
                    }
                    Step::Meet(life) => {
                        marks.met(Incarnation::new(life));
                        plain.entry(life).and_modify(|known| known.1 = true);
                    }
                    Step::Begin => {
                        marks.begin_pass();
                        plain.values_mut().for_each(|known| known.1 = false);
                    }
                    Step::End => {
                        marks.end_pass();
                        plain.retain(|_, known| known.1);
                    }
                }
                prop_assert_eq!(marks.len(), plain.len());
            }
            let plain: Vec<_> = plain.into_iter().map(|(life, (at, _))| (life, at, at)).collect();
            let (mut parts, mut after) = (Vec::new(), None);
            loop {
                let part = marks.part(after, 100);
                let Some(last) = part.last() else { break };
                after = Some(*last);
                parts.extend(part.into_iter().map(<(u64, u64, u64)>::from));
            }
            prop_assert_eq!(&parts, &plain);
            for (life, at, _) in plain {
                let at = Offset::new(at, at);
                prop_assert_eq!(marks.get(Incarnation::new(life)), Some(at));
            }
        }
    }
}
