//! The fold of a compaction: rows up to the position that somebody needs, copies from there on.

use std::collections::{BTreeMap, HashMap};

use state::{
    Control, Entry, Place, Places, Skip, Start, State, Tick, Ticks, decode, snapshot_copy,
    snapshot_row, snapshot_start,
};
use wire::{Offset, Position};

use super::{CompactError, drops::Drops, pen::Pen};
use crate::{
    effect::CURSOR_TYPE,
    stream::{Rules, late_in},
};

/// What a snapshot takes beside rows and copies: its start and its end.
const MARKS: u64 = 2;

/// Folds a stream as a fresh reader would, and remembers the messages that rows come from.
pub(super) struct Fold {
    /// Nothing from here on may be folded.
    limit: u64,
    tail: Offset,
    /// Which writes are too late.
    rules: Rules,
    /// Which rows are left out.
    drops: Drops,
    stage: Stage,
    state: State,
    ticks: Ticks,
    places: Places,
    /// Messages of ticks that are not complete, by where they stand.
    open: BTreeMap<u64, Box<[u8]>>,
    /// The message that wrote each row last, by where it stands, and where the row was made.
    rows: BTreeMap<u64, (Box<[u8]>, Position)>,
    /// Cursors, by their names: a reset does not void them.
    cursors: HashMap<state::Key, (u64, Box<[u8]>)>,
    /// How many messages were taken.
    taken: u64,
    /// Ticks that are to be copied.
    copies: Vec<Tick>,
    count: u64,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Ticks come to rows.
    Rows,
    /// The rows reach to here, and are to be written.
    Reached(u64),
    /// The rows would take as much room as what they stand for.
    InVain(u64),
    /// Ticks are copied.
    Copies(u64),
}

impl Fold {
    pub(super) fn new(limit: Position, tail: Offset, (rules, drops): (Rules, Drops)) -> Self {
        Self {
            limit: limit.get(),
            tail,
            rules,
            drops,
            stage: Stage::Rows,
            state: State::new(),
            ticks: Ticks::new(),
            places: Places::default(),
            open: BTreeMap::new(),
            rows: BTreeMap::new(),
            cursors: HashMap::new(),
            taken: 0,
            copies: Vec::new(),
            count: 0,
        }
    }

    /// Takes the next message of the stream.
    pub(super) fn take(&mut self, lies: Position, message: &[u8]) {
        let tick = self.ticks.push(lies, message);
        let place = self.places.place(lies, &decode(message));
        if place == Place::Known {
            self.taken += 1;
            return;
        }
        if let Some(tick) = tick {
            self.tick(tick);
        }
        match place {
            // What was open is void, too.
            Place::Anew(_) => self.open.clear(),
            Place::At(position) | Place::Row(position) => {
                self.open.insert(position.get(), message.into());
            }
            Place::Known => {}
        }
        self.taken += 1;
    }

    /// There is nothing more to take.
    pub(super) fn end(&mut self) {
        if let Some(tick) = self.ticks.up_to_date() {
            self.tick(tick);
        }
        if self.stage == Stage::Rows {
            self.reached(self.limit);
        }
    }

    /// How many rows the snapshot has.
    pub(super) fn rows(&self) -> u64 {
        self.count
    }

    /// Up to where the rows reach.
    pub(super) fn reach(&self) -> Position {
        match self.stage {
            Stage::Rows => Position::new(self.limit),
            Stage::Reached(reach) | Stage::InVain(reach) | Stage::Copies(reach) => {
                Position::new(reach)
            }
        }
    }

    /// True if a snapshot would give nothing back.
    pub(super) fn is_in_vain(&self) -> bool {
        matches!(self.stage, Stage::InVain(_))
    }

    /// Writes what is due.
    pub(super) async fn write(&mut self, pen: &mut Pen) -> Result<(), CompactError> {
        if let Stage::Reached(reach) = self.stage {
            let start = Position::new(reach);
            pen.write(start, snapshot_start(start, self.tail).as_bytes()).await?;
            for (position, (message, inserted)) in std::mem::take(&mut self.rows) {
                let position = Position::new(position);
                let row = snapshot_row(&message, position, inserted);
                let row =
                    row.ok_or(CompactError::NotState { position, reason: Skip::NoHeaders })?;
                pen.write(position, row.as_str().as_bytes()).await?;
            }
            self.stage = Stage::Copies(reach);
        }
        if self.is_in_vain() {
            return Ok(());
        }
        for tick in std::mem::take(&mut self.copies) {
            for (position, entry) in tick.entries() {
                // The marks of an earlier snapshot say nothing any more.
                let message = self.open.remove(&position.get());
                let is_mark = matches!(
                    entry,
                    Entry::Control(Control::SnapshotStart | Control::SnapshotEnd, _)
                );
                let copy = message.filter(|_| !is_mark);
                // What has no headers was allowed to be dropped.
                if let Some(copy) = copy.and_then(|copy| snapshot_copy(&copy, *position)) {
                    pen.write(*position, copy.as_str().as_bytes()).await?;
                }
            }
        }
        Ok(())
    }

    fn tick(&mut self, tick: Tick) {
        if tick.start == Start::Snapshot {
            // An earlier compaction kept nothing before this.
            self.limit = self.limit.max(tick.last.get() + 1);
        }
        if self.stage == Stage::Rows && tick.last.get() < self.limit {
            return self.fold(tick);
        }
        if self.stage == Stage::Rows {
            self.reached(self.limit.min(tick.first.get()));
        }
        self.copies.push(tick);
    }

    fn fold(&mut self, mut tick: Tick) {
        for (position, entry) in tick.entries() {
            let Entry::Write(write) = entry else { continue };
            if write.type_name.as_str() != CURSOR_TYPE {
                continue;
            }
            match (&write.value, self.open.get(&position.get())) {
                (Some(_), Some(message)) => {
                    self.cursors.insert(write.key.clone(), (position.get(), message.clone()));
                }
                _ => drop(self.cursors.remove(&write.key)),
            }
        }
        let positions: Vec<_> = tick.entries().iter().map(|(position, _)| position.get()).collect();
        self.drops.take(&mut tick, &self.open);
        let late = late_in(&tick, &self.state, &self.rules);
        tick.retain(|position| !late.contains(&position));
        let applied = self.state.apply(tick);
        for old in applied.deltas().iter().filter_map(|delta| delta.old.as_ref()) {
            self.rows.remove(&old.updated.get());
        }
        for new in applied.deltas().iter().filter_map(|delta| delta.new.as_ref()) {
            if let Some(message) = self.open.get(&new.updated.get()) {
                self.rows.insert(new.updated.get(), (message.clone(), new.inserted));
            }
        }
        positions.iter().for_each(|position| drop(self.open.remove(position)));
        self.drops.sweep(&self.state);
    }

    /// All rows are known.
    fn reached(&mut self, reach: u64) {
        for (position, message) in std::mem::take(&mut self.cursors).into_values() {
            self.rows.entry(position).or_insert((message, Position::new(position)));
        }
        self.rows.extend(self.drops.finish(&self.state));
        self.count = self.rows.len() as u64;
        let folded = self.taken - self.open.len() as u64;
        self.stage = match self.count + MARKS < folded {
            true => Stage::Reached(reach),
            false => Stage::InVain(reach),
        };
    }
}
