//! Every damage there is: each kind of file, what is done to it, and which class of byte is hit.

use std::{collections::BTreeMap, fmt};

use super::anatomy::Class;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Format,
    Checkpoint,
    Pack,
    /// A segment before the newest.
    Segment,
    NewestSegment,
    /// A file of the write-ahead log that holds no segment of the log.
    Spare,
    Other,
    /// A file that an earlier repair has set aside.
    SetAside,
}

/// Which of two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Copies {
    One,
    /// Both, at the same place.
    BothAlike,
    /// Both, each at a place of its own.
    BothApart,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    Flip,
    Zero,
    Scramble,
    Cut,
    /// Reads fail.
    Spoil,
    Extend,
    Remove,
    Double,
}

/// One damage, but for the very byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) copies: Copies,
    pub(super) act: Act,
    pub(super) class: Class,
}

/// How often each cell was met.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Cells {
    met: BTreeMap<Cell, u64>,
}

/// What is done to a byte, or from a byte on.
const PLACED: [Act; 5] = [Act::Flip, Act::Zero, Act::Scramble, Act::Cut, Act::Spoil];
/// And to a whole file.
const WHOLE: [Act; 3] = [Act::Extend, Act::Remove, Act::Double];

impl Kind {
    fn classes(self) -> &'static [Class] {
        use Class::{FrameHead, Head, Payload, RecordHead, Rest, Stream, Trailer};
        match self {
            Self::Format => &[Head, Payload, Trailer],
            Self::Checkpoint => &[Head, RecordHead, Payload, Trailer],
            Self::Pack => &[Head, RecordHead, Payload, Stream, Trailer],
            Self::Segment | Self::NewestSegment => &[Head, FrameHead, RecordHead, Payload, Rest],
            Self::Spare | Self::Other | Self::SetAside => &[Rest],
        }
    }

    fn copies(self) -> &'static [Copies] {
        match self {
            Self::Format | Self::Checkpoint => &[Copies::One, Copies::BothAlike, Copies::BothApart],
            _ => &[Copies::One],
        }
    }
}

/// Every damage to a log that was never repaired.
pub(super) fn of_log() -> Vec<Cell> {
    use Kind::{Checkpoint, Format, NewestSegment, Other, Pack, Segment, Spare};
    let kinds = [Format, Checkpoint, Pack, Segment, NewestSegment, Spare, Other];
    kinds.into_iter().flat_map(of_kind).collect()
}

/// The damage whose turn it is, so that all are met.
pub(super) fn of_turn(turn: u64) -> Cell {
    let cells = of_log();
    cells[(turn % cells.len() as u64) as usize]
}

/// Every damage to what a repair has set aside.
pub(super) fn of_set_aside() -> Vec<Cell> {
    of_kind(Kind::SetAside)
}

fn of_kind(kind: Kind) -> Vec<Cell> {
    let mut cells = Vec::new();
    for copies in kind.copies() {
        for class in kind.classes() {
            cells.extend(PLACED.map(|act| Cell { kind, copies: *copies, act, class: *class }));
        }
        if *copies != Copies::BothApart {
            let class = Class::File;
            cells.extend(WHOLE.map(|act| Cell { kind, copies: *copies, act, class }));
        }
    }
    cells
}

impl Cells {
    pub(super) fn count(&mut self, cell: Cell) {
        *self.met.entry(cell).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (cell, count) in &other.met {
            *self.met.entry(*cell).or_default() += count;
        }
    }

    /// The cells that were never met.
    pub(super) fn missing(&self) -> Vec<Cell> {
        let all = of_log().into_iter().chain(of_set_aside());
        all.filter(|cell| !self.met.contains_key(cell)).collect()
    }
}

/// There are hundreds, so that only those are named that were met least.
impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fewest = self.met.iter().min_by_key(|(_, count)| **count);
        let missing = self.missing();
        write!(f, "{} classes of damage, of which fewest {fewest:?}", self.met.len())?;
        if !missing.is_empty() {
            write!(f, ", and never {missing:?}")?;
        }
        Ok(())
    }
}
