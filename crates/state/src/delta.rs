//! What a tick came to: the rows that differ before and after it.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use wire::Position;

use crate::{Control, End, Key, Row, Skip, Start, TxId, TypeName};

/// The difference that one tick made to one row. At least one side is there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Delta {
    /// The collection.
    pub type_name: TypeName,
    /// The row's key.
    pub key: Key,
    /// The row before the tick.
    pub old: Option<Row>,
    /// The row after the tick.
    pub new: Option<Row>,
}

/// What happened to a row, all in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaKind {
    /// It was not there and is now.
    Insert,
    /// It is another one now, or was written again as it was.
    Update,
    /// It was there and is gone.
    Delete,
}

impl Delta {
    /// What happened, judged by presence before and after, not by the words of the writer.
    #[must_use]
    pub fn kind(&self) -> DeltaKind {
        match (&self.old, &self.new) {
            (None, _) => DeltaKind::Insert,
            (Some(_), Some(_)) => DeltaKind::Update,
            (Some(_), None) => DeltaKind::Delete,
        }
    }
}

/// What one tick came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Applied {
    /// The transaction, if it has a name.
    pub txid: Option<TxId>,
    /// The position of its first event.
    pub first: Position,
    /// The position of its last event.
    pub last: Position,
    /// Whether an earlier tick holds its beginning.
    pub start: Start,
    /// Whether more of it may follow.
    pub end: End,
    /// The controls in it, and the offsets that they name. A reset has already voided the rows
    /// before it; whether to read again from its offset is the caller's choice.
    pub controls: Vec<(Position, Control, Option<Box<str>>)>,
    /// The messages in it that were skipped.
    pub skipped: Vec<(Position, Skip)>,
    pub(crate) deltas: SmallVec<[Delta; 1]>,
}

impl Applied {
    /// The rows that were touched, each one once, in the order of their first touch. Rows that came
    /// and went within the tick are left out.
    #[must_use]
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// The same, to own.
    pub fn into_deltas(self) -> impl ExactSizeIterator<Item = Delta> {
        self.deltas.into_iter()
    }
}

/// Adds up the touches of one tick.
pub(crate) struct Net {
    deltas: SmallVec<[Delta; 1]>,
    places: Option<HashMap<(TypeName, Key), usize, FixedState>>,
}

impl Net {
    /// A tick of one event needs no places, and most ticks are that.
    pub(crate) fn of(events: usize, seed: &FixedState) -> Self {
        let places = (events > 1).then(|| HashMap::with_capacity_and_hasher(events, seed.clone()));
        Self { deltas: SmallVec::new(), places }
    }

    pub(crate) fn touch(
        &mut self,
        type_name: TypeName,
        key: Key,
        old: Option<Row>,
        new: Option<Row>,
    ) {
        if let Some(places) = &mut self.places {
            let next = self.deltas.len();
            let place = *places.entry((type_name.clone(), key.clone())).or_insert(next);
            if let Some(earlier) = self.deltas.get_mut(place) {
                earlier.new = new;
                return;
            }
        }
        self.deltas.push(Delta { type_name, key, old, new });
    }

    pub(crate) fn finish(mut self) -> SmallVec<[Delta; 1]> {
        self.deltas.retain(|delta| delta.old.is_some() || delta.new.is_some());
        self.deltas
    }
}
