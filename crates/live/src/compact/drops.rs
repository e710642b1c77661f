//! Rows that a compaction leaves out: those that no reader needs once other rows are there.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use query::Row;
use smol_str::SmolStr;
use state::{Control, Entry, Json, Key, State, Tick};
use wire::Position;

use crate::caps::DROPPABLE_ROWS_MAX;

/// Which rows of a type are not needed any more.
#[derive(Clone)]
pub(super) struct Rule {
    type_name: SmolStr,
    is_over: Arc<IsOver>,
}

type IsOver = dyn Fn(&Json, &State) -> bool + Send + Sync;

/// Rows that may be left out, kept apart from all others, so that they can be let go of early: they
/// are most of what a stream holds.
pub(super) struct Drops {
    types: HashMap<SmolStr, Droppable>,
    rows: usize,
    /// Rows at which it is tried again to let go of some.
    sweep_at: usize,
}

struct Droppable {
    is_over: Arc<IsOver>,
    rows: HashMap<Key, Held>,
}

/// A row that may be left out.
struct Held {
    updated: u64,
    inserted: Position,
    value: Json,
    message: Box<[u8]>,
}

impl Rule {
    pub(super) fn of<R: Row>(is_over: impl Fn(&R, &State) -> bool + Send + Sync + 'static) -> Self {
        let is_over = move |row: &Json, state: &State| {
            let row = serde_json::from_str::<R>(row.as_str());
            // What is none of its rows is none of its business.
            row.is_ok_and(|row| is_over(&row, state))
        };
        Self { type_name: R::NAME.into(), is_over: Arc::new(is_over) }
    }
}

impl Drops {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let types = rules.iter().map(|rule| {
            let droppable = Droppable { is_over: rule.is_over.clone(), rows: HashMap::new() };
            (rule.type_name.clone(), droppable)
        });
        Self { types: types.collect(), rows: 0, sweep_at: DROPPABLE_ROWS_MAX }
    }

    /// Takes what is its own of a tick; the messages stand where their events do.
    pub(super) fn take(&mut self, tick: &mut Tick, messages: &BTreeMap<u64, Box<[u8]>>) {
        if self.types.is_empty() {
            return;
        }
        for (position, entry) in tick.entries() {
            match entry {
                Entry::Control(Control::Reset, _) => {
                    self.types.values_mut().for_each(|droppable| droppable.rows.clear());
                }
                Entry::Write(write) => {
                    let Some(droppable) = self.types.get_mut(write.type_name.as_str()) else {
                        continue;
                    };
                    let message = messages.get(&position.get());
                    let (Some(value), Some(message)) = (&write.value, message) else {
                        droppable.rows.remove(&write.key);
                        continue;
                    };
                    let before = droppable.rows.get(&write.key).map(|held| held.inserted);
                    let past = write.past.as_ref().map(|past| past.inserted);
                    let held = Held {
                        updated: position.get(),
                        inserted: before.or(past).unwrap_or(*position),
                        value: value.clone(),
                        message: message.clone(),
                    };
                    droppable.rows.insert(write.key.clone(), held);
                }
                Entry::Control(..) | Entry::Skipped(_) => {}
            }
        }
        tick.retain_writes(|write| !self.types.contains_key(write.type_name.as_str()));
        self.rows = self.types.values().map(|droppable| droppable.rows.len()).sum();
    }

    /// Lets go of rows that are not needed any more, if there are many.
    pub(super) fn sweep(&mut self, state: &State) {
        if self.rows >= self.sweep_at {
            self.drop_all(state);
            self.sweep_at = self.rows * 2 + DROPPABLE_ROWS_MAX;
        }
    }

    /// What is left when all is known: where each row was written last and made, and its message.
    pub(super) fn finish(
        &mut self,
        state: &State,
    ) -> impl Iterator<Item = (u64, (Box<[u8]>, Position))> {
        self.drop_all(state);
        let rows = self.types.values_mut().flat_map(|droppable| droppable.rows.drain());
        rows.map(|(_, held)| (held.updated, (held.message, held.inserted)))
    }

    fn drop_all(&mut self, state: &State) {
        for droppable in self.types.values_mut() {
            droppable.rows.retain(|_, held| !(droppable.is_over)(&held.value, state));
        }
        self.rows = self.types.values().map(|droppable| droppable.rows.len()).sum();
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("type_name", &self.type_name).finish_non_exhaustive()
    }
}
