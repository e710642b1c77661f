//! Which writes to a row count: what has ended stays ended, whoever still writes.
//!
//! A writer that has lost its network repeats its bytes until they are taken, however late that
//! is. A rule tells from the row that is there and the one that comes whether it is too late. All
//! who fold a stream apply it in the order of the stream, so all come to the same rows.

use std::{fmt, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use query::{CollectionId, Database, Key, Record, Row, View};
use smol_str::SmolStr;
use state::{Entry, Json, State, Tick};
use wire::Position;

/// Whether a row may take the place of another.
#[derive(Clone)]
pub(crate) struct Rule {
    decode: fn(&str) -> Option<Record>,
    admits: Arc<Admits>,
}

type Admits = dyn Fn(&Record, &Record) -> bool + Send + Sync;

/// The rules of a stream, by type.
pub(crate) type Rules = HashMap<SmolStr, Rule, FixedState>;

impl Rule {
    pub(crate) fn of<R: Row>(admits: fn(&R, &R) -> bool) -> Self {
        let decode = |json: &str| serde_json::from_str::<R>(json).ok().map(Record::typed);
        let admits = move |old: &Record, new: &Record| match (old.as_typed(), new.as_typed()) {
            (Some(old), Some(new)) => admits(old, new),
            // What is none of its rows is none of its business.
            _ => true,
        };
        Self { decode, admits: Arc::new(admits) }
    }

    pub(super) fn admits(&self, old: &Record, new: &Record) -> bool {
        (self.admits)(old, new)
    }

    fn admits_json(&self, old: &Json, new: &Json) -> bool {
        match ((self.decode)(old.as_str()), (self.decode)(new.as_str())) {
            (Some(old), Some(new)) => self.admits(&old, &new),
            _ => true,
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").finish_non_exhaustive()
    }
}

/// What the writes of one tick so far have made of rows that have a rule.
#[derive(Default)]
pub(super) struct Ahead {
    rows: HashMap<(CollectionId, Key), Option<Record>, FixedState>,
    is_reset: bool,
}

impl Ahead {
    /// Takes a write, unless it is too late.
    pub(super) fn admits(
        &mut self,
        rule: &Rule,
        (id, key): (CollectionId, Key),
        new: &Record,
        database: &Database,
    ) -> bool {
        let place = (id, key);
        let old = match self.rows.get(&place) {
            Some(row) => row.as_ref(),
            None if self.is_reset => None,
            None => database.get(id, &place.1, View::Synced).map(|entry| &entry.record),
        };
        let is_admitted = old.is_none_or(|old| rule.admits(old, new));
        if is_admitted {
            self.rows.insert(place, Some(new.clone()));
        }
        is_admitted
    }

    pub(super) fn delete(&mut self, id: CollectionId, key: Key) {
        self.rows.insert((id, key), None);
    }

    pub(super) fn reset(&mut self) {
        self.rows.clear();
        self.is_reset = true;
    }
}

/// The writes of a tick that come too late for the rows of a state, which are JSON.
pub(crate) fn late_in(tick: &Tick, state: &State, rules: &Rules) -> Vec<Position> {
    let mut late = Vec::new();
    if rules.is_empty() {
        return late;
    }
    let mut ahead: HashMap<(&str, &str), Option<&Json>, FixedState> = HashMap::default();
    let mut is_reset = false;
    for (position, entry) in tick.entries() {
        let write = match entry {
            Entry::Write(write) => write,
            Entry::Control(state::Control::Reset, _) => {
                ahead.clear();
                is_reset = true;
                continue;
            }
            Entry::Control(..) | Entry::Skipped(_) => continue,
        };
        let (type_name, key) = (write.type_name.as_str(), write.key.as_str());
        let Some(rule) = rules.get(type_name) else { continue };
        let old = match ahead.get(&(type_name, key)) {
            Some(row) => *row,
            None if is_reset => None,
            None => state.get(type_name, key).map(|row| &row.value),
        };
        match (old, &write.value) {
            (Some(old), Some(new)) if !rule.admits_json(old, new) => late.push(*position),
            (_, new) => drop(ahead.insert((type_name, key), new.as_ref())),
        }
    }
    late
}
