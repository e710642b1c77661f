//! Which events of an effect are done, and what its cursor says of them.

use std::collections::{BTreeMap, BTreeSet};

use query::Key;

use super::{cursor::Cursor, mark::Mark};

/// What was delivered, what of it is done, and the cursor that was written last.
#[derive(Debug)]
pub(super) struct Progress {
    /// As it is in the stream, without what is done out of turn.
    cursor: Cursor,
    /// Done in an earlier life, and not met again yet.
    inherited: BTreeSet<(u64, Key)>,
    /// Events that are with their handlers.
    outstanding: BTreeSet<Mark>,
    /// Done in this life or met again, and not known to be covered by the cursor.
    done: BTreeSet<Mark>,
    /// Where ticks ended that were delivered and are not covered by the cursor.
    ends: BTreeMap<u64, u64>,
    /// The first message that was not delivered yet.
    frontier: u64,
}

impl Progress {
    pub(super) fn new(mut cursor: Cursor) -> Self {
        let inherited = std::mem::take(&mut cursor.done);
        let ends = std::mem::take(&mut cursor.ends);
        let (frontier, outstanding, done) = (cursor.position, BTreeSet::new(), BTreeSet::new());
        Self { cursor, inherited, outstanding, done, ends, frontier }
    }

    /// All events of some ticks go to their handlers; those that are known were done before.
    pub(super) fn deliver(&mut self, new: Vec<Mark>, known: Vec<Mark>) {
        for mark in new.iter().chain(&known) {
            self.frontier = self.frontier.max(mark.end);
            self.ends.insert(mark.position, mark.end);
        }
        for mark in known {
            if self.inherited.remove(&(mark.position, mark.key.clone())) {
                self.done.insert(mark);
            }
        }
        self.outstanding.extend(new);
    }

    /// Nothing else happened before this position; true if the cursor has more to say.
    pub(super) fn pass(&mut self, position: u64) -> bool {
        self.frontier = self.frontier.max(position);
        let (position, through) = self.watermark();
        (position, &through) != (self.cursor.position, &self.cursor.through)
    }

    /// True if none of these is with its handler.
    pub(super) fn are_done(&self, marks: &[Mark]) -> bool {
        !marks.iter().any(|mark| self.outstanding.contains(mark))
    }

    /// Notes that events are done; false if that was known.
    pub(super) fn finish(&mut self, marks: &[Mark]) -> bool {
        let mut is_changed = false;
        for mark in marks {
            if let Some(mark) = self.outstanding.take(mark) {
                self.done.insert(mark);
                is_changed = true;
            }
        }
        is_changed
    }

    /// Takes that back; it was not written yet.
    pub(super) fn take_back(&mut self, marks: &[Mark]) {
        self.outstanding.extend(marks.iter().filter_map(|mark| self.done.take(mark)));
    }

    /// The cursor that says all this.
    pub(super) fn cursor(&self) -> Cursor {
        let (position, through) = self.watermark();
        let mut cursor = Cursor { position, through, ..self.cursor.clone() };
        let ahead = self.done.iter().filter(|mark| !cursor.is_done(mark));
        let met = ahead.map(|mark| (mark.position, mark.key.clone()));
        let inherited = self.inherited.iter().filter(|(own, _)| *own >= position).cloned();
        cursor.done = met.chain(inherited).collect();
        // A position that has not moved is still what it was.
        cursor.by_message |= position > self.cursor.position;
        let begun = cursor.through.iter().map(|_| position);
        let begun: BTreeSet<_> = begun.chain(cursor.done.iter().map(|(at, _)| *at)).collect();
        let ends = begun.into_iter().filter_map(|at| Some((at, *self.ends.get(&at)?)));
        cursor.ends = ends.collect();
        cursor
    }

    /// Takes note that such a cursor was written.
    pub(super) fn written(&mut self, cursor: &Cursor) {
        let (done, ends) = (BTreeSet::new(), BTreeMap::new());
        self.cursor = Cursor { done, ends, ..cursor.clone() };
        self.ends.retain(|at, _| *at >= cursor.position);
        let covered = &self.cursor;
        self.done.retain(|mark| !covered.is_done(mark));
        self.inherited.retain(|(own, _)| *own >= covered.position);
    }

    /// Begins elsewhere, with nothing done.
    pub(super) fn begin_at(&mut self, start: u64) {
        let position = start.saturating_sub(1);
        let (through, by_message) = (None, true);
        let cursor = Cursor { start, position, through, by_message, ..self.cursor.clone() };
        *self = Self::new(cursor);
    }

    /// Up to where all events are done: before a position, and through one of its events.
    fn watermark(&self) -> (u64, Option<(Option<u64>, Key)>) {
        let written = || (self.cursor.position, self.cursor.through.clone());
        let Some(oldest) = self.outstanding.first() else {
            let is_ahead = self.frontier > self.cursor.position;
            return if is_ahead { (self.frontier, None) } else { written() };
        };
        let last = self.done.range(..oldest).next_back();
        let through = last
            .filter(|last| last.position == oldest.position)
            .map(|last| (last.row, last.key.clone()));
        match oldest.position.cmp(&self.cursor.position) {
            std::cmp::Ordering::Greater => (oldest.position, through),
            std::cmp::Ordering::Equal => {
                (oldest.position, through.max(self.cursor.through.clone()))
            }
            std::cmp::Ordering::Less => written(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(position: u64, key: u64) -> Mark {
        Mark { position, row: Some(key / 3), key: Key::from(key as i64), end: position + 1 }
    }

    proptest! {
        /// Whatever is done in whatever order, the cursor says of each event whether it is.
        #[test]
        fn a_cursor_says_exactly_what_is_done(
            sizes in prop::collection::vec(1..6u64, 1..6),
            order in prop::collection::vec((0..36usize, any::<bool>(), any::<bool>()), 0..60),
        ) {
            let marks: Vec<Mark> = (0u64..).zip(&sizes)
                .flat_map(|(at, size)| (0..*size).map(move |key| mark(at * 2, key))).collect();
            let mut progress = Progress::new(Cursor::default());
            progress.deliver(marks.clone(), Vec::new());
            let mut done = BTreeSet::new();
            for (index, is_written, lives_on) in order {
                let mark = &marks[index % marks.len()];
                let is_new = done.insert(mark.clone());
                prop_assert_eq!(progress.finish(std::slice::from_ref(mark)), is_new);
                let cursor = progress.cursor();
                for mark in &marks {
                    let is_done = cursor.is_done(mark);
                    prop_assert_eq!(is_done, done.contains(mark), "{:?} {:?}", mark, cursor);
                }
                if is_written {
                    progress.written(&cursor);
                    prop_assert_eq!(&progress.cursor(), &cursor);
                }
                if is_written && !lives_on {
                    progress = Progress::new(cursor.clone());
                    let (known, new) = marks.iter().cloned().partition(|mark| cursor.is_done(mark));
                    progress.deliver(new, known);
                }
            }
        }
    }

    #[test]
    fn what_is_done_in_order_is_one_place() {
        let mut progress = Progress::new(Cursor::default());
        let marks: Vec<Mark> = (0..100).map(|key| mark(7, key)).collect();
        progress.deliver(marks.clone(), Vec::new());
        for mark in &marks[..99] {
            progress.finish(std::slice::from_ref(mark));
            let cursor = progress.cursor();
            assert!(cursor.done.is_empty());
            assert_eq!(
                (cursor.position, cursor.through.clone()),
                (7, Some((mark.row, mark.key.clone())))
            );
            progress.written(&cursor);
        }
        progress.finish(&marks[99..]);
        let cursor = progress.cursor();
        assert_eq!((cursor.position, cursor.through), (8, None));
    }

    #[test]
    fn what_could_not_be_written_is_not_done() {
        let mut progress = Progress::new(Cursor::default());
        progress.deliver(vec![mark(3, 1), mark(3, 2)], Vec::new());
        let before = progress.cursor();
        assert!(progress.finish(&[mark(3, 1)]));
        progress.take_back(&[mark(3, 1)]);
        assert_eq!(progress.cursor(), before);
        assert!(!progress.are_done(&[mark(3, 1)]));
    }
}
