//! Writes that are not confirmed yet, on the row they were made to.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use smallvec::SmallVec;

use crate::{
    record::{Entry, Key, Meta, Origin, Record, Shape},
    transaction::TransactionId,
    value::Value,
};

/// What a write does to a row.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    /// The row is this.
    Insert(Record),
    /// These columns are other values; all else stays what it is, whoever changes it meanwhile.
    Update(Arc<[(usize, Value)]>, Arc<Shape>),
    /// There is no row.
    Delete,
}

impl Patch {
    /// The row with this on it; nothing if it does not fit.
    fn on(&self, record: Option<Record>) -> Option<Option<Record>> {
        match (self, record) {
            (Self::Insert(inserted), _) => Some(Some(inserted.clone())),
            (Self::Update(columns, shape), Some(record)) => record.with(columns, shape).map(Some),
            (Self::Update(..), None) | (Self::Delete, _) => Some(None),
        }
    }

    /// This, and then the other, as one.
    fn then(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Update(columns, shape), Self::Update(later, later_shape)) => {
                let is_kept = |(own, _): &&(usize, Value)| later.iter().all(|(at, _)| at != own);
                let columns = columns.iter().filter(is_kept).chain(later.iter()).cloned().collect();
                let is_longer = later_shape.len() >= shape.len();
                Self::Update(columns, if is_longer { later_shape } else { shape }.clone())
            }
            (Self::Insert(record), Self::Update(columns, shape)) => {
                Self::Insert(record.with(columns, shape).unwrap_or_else(|| record.clone()))
            }
            // What was deleted is not there to be updated.
            (Self::Delete, Self::Update(..)) => Self::Delete,
            (_, Self::Insert(_) | Self::Delete) => other.clone(),
        }
    }
}

/// All writes on one row, in the order of their transactions, and what they come to.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    patches: VecDeque<(TransactionId, Patch)>,
    sums: Sums,
    shown: Option<Arc<Entry>>,
    /// The synced row that is shown with the writes on it; none if they have changed since.
    shown_on: Option<Option<Arc<Entry>>>,
}

/// What the writes come to, so that one more or one less at either end costs one sum.
///
/// ```text
/// patches   a b c | d e
/// front     abc bc c        (the last of the vector is all of them)
/// back              d de
/// ```
#[derive(Debug, Default)]
struct Sums {
    front: Vec<Patch>,
    /// Mostly there is one write.
    back: SmallVec<[Patch; 1]>,
}

impl Overlay {
    pub(super) fn shown(&self) -> Option<&Arc<Entry>> {
        self.shown.as_ref()
    }

    pub(super) fn lay(&mut self, transaction: TransactionId, patch: Patch) {
        let at = self.patches.partition_point(|(own, _)| *own <= transaction);
        if at == self.patches.len() {
            self.sums.push(&patch);
            self.patches.push_back((transaction, patch));
        } else {
            self.patches.insert(at, (transaction, patch));
            self.sums = Sums::of(&self.patches);
        }
        self.shown_on = None;
    }

    pub(super) fn laid(&self, transaction: TransactionId) -> usize {
        self.places(transaction).len()
    }

    /// Takes off all but the first `keep` writes of a transaction; true if nothing is left.
    pub(super) fn lift(&mut self, transaction: TransactionId, keep: usize) -> bool {
        let mut places = self.places(transaction);
        places.start = places.end.min(places.start + keep);
        if !places.is_empty() {
            let is_done = self.sums.cut(&places, self.patches.len());
            self.patches.drain(places);
            if !is_done {
                self.sums = Sums::of(&self.patches);
            }
            self.shown_on = None;
        }
        self.patches.is_empty()
    }

    fn places(&self, transaction: TransactionId) -> Range<usize> {
        let start = self.patches.partition_point(|(own, _)| *own < transaction);
        start..self.patches.partition_point(|(own, _)| *own <= transaction)
    }

    /// Whether it must be refreshed to show all writes on this synced row.
    pub(super) fn is_stale(&self, base: Option<&Arc<Entry>>) -> bool {
        match (&self.shown_on, base) {
            (Some(Some(own)), Some(base)) => !Arc::ptr_eq(own, base),
            (Some(None), None) => false,
            _ => true,
        }
    }

    /// The synced row with all writes on it.
    pub(super) fn refresh(&mut self, key: &Key, base: Option<&Arc<Entry>>) {
        let record = || base.map(|entry| entry.record.clone());
        let summed = self.sums.on(record()).unwrap_or_else(|| self.one_by_one(record()));
        let position = base.and_then(|entry| entry.meta.position);
        let meta = Meta { position, is_pending: true, origin: Origin::Local };
        self.shown_on = Some(base.cloned());
        self.shown = summed.map(|record| Arc::new(Entry { key: key.clone(), record, meta }));
    }

    /// The synced row with the writes of some transactions on it.
    pub(super) fn partly(
        &self,
        base: Option<&Arc<Entry>>,
        is_on: &dyn Fn(TransactionId) -> bool,
    ) -> Option<Record> {
        let mut record = base.map(|entry| entry.record.clone());
        for (_, patch) in self.patches.iter().filter(|(own, _)| is_on(*own)) {
            record = patch.on(record.clone()).unwrap_or(record);
        }
        record
    }

    /// A patch that does not fit the row any more changes nothing.
    fn one_by_one(&self, mut record: Option<Record>) -> Option<Record> {
        for (_, patch) in &self.patches {
            record = patch.on(record.clone()).unwrap_or(record);
        }
        record
    }
}

impl Sums {
    /// Both halves alike, so that many more can be taken from either end.
    fn of(patches: &VecDeque<(TransactionId, Patch)>) -> Self {
        let (mut sums, middle) = (Self::default(), patches.len() / 2);
        for (_, patch) in patches.range(..middle).rev() {
            let sum = sums.front.last().map_or_else(|| patch.clone(), |after| patch.then(after));
            sums.front.push(sum);
        }
        patches.range(middle..).for_each(|(_, patch)| sums.push(patch));
        sums
    }

    fn push(&mut self, patch: &Patch) {
        let sum = self.back.last().map_or_else(|| patch.clone(), |before| before.then(patch));
        self.back.push(sum);
    }

    /// Takes these of `len` patches out if they lie at an end; false if they do not, or lie on
    /// both halves.
    fn cut(&mut self, places: &Range<usize>, len: usize) -> bool {
        if places.start == 0 && places.end <= self.front.len() {
            self.front.truncate(self.front.len() - places.len());
            return true;
        }
        if places.end == len && places.len() <= self.back.len() {
            self.back.truncate(self.back.len() - places.len());
            return true;
        }
        false
    }

    /// The row with everything on it; nothing if something does not fit.
    fn on(&self, record: Option<Record>) -> Option<Option<Record>> {
        let both = self.front.last().into_iter().chain(self.back.last());
        both.into_iter().try_fold(record, |record, sum| sum.on(record))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Tuple;

    fn patch(kind: u8, column: usize, value: i64) -> Patch {
        let shape = Arc::new(Shape::of(["a", "b", "c"]));
        match kind {
            0 => Patch::Delete,
            1 => Patch::Insert(Record::Tuple(Tuple::new(shape, vec![Value::Int(value); 3]))),
            _ => Patch::Update([(column, Value::Int(value))].into(), shape),
        }
    }

    proptest! {
        /// Whatever comes and goes in whatever order, the sums say what each in turn would.
        #[test]
        fn sums_are_what_the_writes_come_to(
            steps in prop::collection::vec((0..9u8, 0..3usize, 0..12u64, 0..3usize), 1..80),
        ) {
            let base = Record::Tuple(Tuple::new(Arc::new(Shape::of(["a"])), vec![Value::Null]));
            let mut overlay = Overlay::default();
            for (n, (kind, column, transaction, keep)) in steps.into_iter().enumerate() {
                let transaction = TransactionId(transaction);
                match kind {
                    8 => drop(overlay.lift(transaction, keep)),
                    7 => drop(overlay.lift(TransactionId(0), 0)),
                    _ => overlay.lay(transaction, patch(kind, column, n as i64)),
                }
                for base in [None, Some(base.clone())] {
                    let expected = overlay.one_by_one(base.clone());
                    prop_assert_eq!(overlay.sums.on(base), Some(expected));
                }
                let count = overlay.sums.front.len() + overlay.sums.back.len();
                prop_assert_eq!(count, overlay.patches.len());
            }
        }
    }
}
