//! The fold: ticks in, rows kept, differences out.

use std::collections::{HashMap, hash_map::Entry as Place};

use foldhash::fast::FixedState;
use wire::Position;

use crate::{Applied, Control, Entry, Json, Key, Tick, TypeName, Write, delta::Net};

/// The rows that a stream has come to, by type and key.
///
/// A state holds whole ticks only, so whoever looks at it never sees half a transaction. Every
/// type is kept, known to a [`Schema`](crate::Schema) or not, and rows stay the JSON that they
/// came as. Two states are equal if they hold the same rows.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// None of them is empty.
    collections: HashMap<TypeName, Rows, FixedState>,
    seed: FixedState,
    bytes: usize,
    skipped: u64,
}

type Rows = HashMap<Key, Row, FixedState>;

/// A row, and where in the stream it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its JSON, as it came.
    pub value: Json,
    /// The position of the event that made it.
    pub inserted: Position,
    /// The position of the event that wrote it last.
    pub updated: Position,
}

impl State {
    /// A state without rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A state without rows whose hash tables are seeded, for streams that a stranger may write to:
    /// who does not know the seed cannot easily choose keys that collide.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        let seed = FixedState::with_seed(seed);
        Self { collections: HashMap::with_hasher(seed.clone()), seed, ..Self::default() }
    }

    /// Applies one tick, whole.
    ///
    /// Insert, update and upsert all put the row in place, whether or not there was one; a delete
    /// of a row that is not there does nothing. A reset takes all rows away and the fold goes on
    /// behind it. Snapshot markers change nothing by themselves. All of it is told in the answer.
    pub fn apply(&mut self, tick: Tick) -> Applied {
        let Tick { txid, first, last, start, end, entries } = tick;
        let (mut controls, mut skipped) = (Vec::new(), Vec::new());
        let mut net = Net::of(entries.len(), &self.seed);
        for (position, entry) in entries {
            match entry {
                Entry::Write(write) => self.write(position, write, &mut net),
                Entry::Control(control, offset) => {
                    if control == Control::Reset {
                        self.clear(&mut net);
                    }
                    controls.push((position, control, offset));
                }
                Entry::Skipped(reason) => skipped.push((position, reason)),
            }
        }
        self.skipped += skipped.len() as u64;
        Applied { txid, first, last, start, end, controls, skipped, deltas: net.finish() }
    }

    /// One row.
    #[must_use]
    pub fn get(&self, type_name: &str, key: &str) -> Option<&Row> {
        self.collections.get(type_name)?.get(key)
    }

    /// The rows of one type, in no order that means anything.
    pub fn rows(&self, type_name: &str) -> impl Iterator<Item = (&Key, &Row)> {
        self.collections.get(type_name).into_iter().flatten()
    }

    /// The types that have rows, in no order that means anything.
    pub fn types(&self) -> impl Iterator<Item = &TypeName> {
        self.collections.keys()
    }

    /// How many rows there are, of all types.
    #[must_use]
    pub fn len(&self) -> usize {
        self.collections.values().map(HashMap::len).sum()
    }

    /// True if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.collections.is_empty()
    }

    /// The bytes of all keys and values; what it takes to hold them is some more.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many messages were skipped so far.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn write(&mut self, position: Position, write: Write, net: &mut Net) {
        let Write { type_name, key, value, past, .. } = write;
        let inserted = past.map_or(position, |past| past.inserted);
        match value {
            Some(value) => {
                let row = Row { value, inserted, updated: position };
                self.put(type_name, key, row, net);
            }
            None => self.remove(type_name, key, net),
        }
    }

    fn put(&mut self, type_name: TypeName, key: Key, mut new: Row, net: &mut Net) {
        let seed = &self.seed;
        let rows = self
            .collections
            .entry(type_name.clone())
            .or_insert_with(|| HashMap::with_hasher(seed.clone()));
        self.bytes += new.value.as_str().len();
        let old = match rows.entry(key.clone()) {
            Place::Occupied(mut place) => {
                new.inserted = place.get().inserted;
                let old = place.insert(new.clone());
                self.bytes -= old.value.as_str().len();
                Some(old)
            }
            Place::Vacant(place) => {
                self.bytes += key.as_str().len();
                place.insert(new.clone());
                None
            }
        };
        net.touch(type_name, key, old, Some(new));
    }

    fn remove(&mut self, type_name: TypeName, key: Key, net: &mut Net) {
        let Some(rows) = self.collections.get_mut(&type_name) else { return };
        let Some(old) = rows.remove(&key) else { return };
        if rows.is_empty() {
            self.collections.remove(&type_name);
        }
        self.bytes -= key.as_str().len() + old.value.as_str().len();
        net.touch(type_name, key, Some(old), None);
    }

    /// Rows leave in the order in which they came, so that every reader hears the same.
    fn clear(&mut self, net: &mut Net) {
        let mut gone: Vec<_> = self
            .collections
            .drain()
            .flat_map(|(name, rows)| {
                rows.into_iter().map(move |(key, row)| (name.clone(), key, row))
            })
            .collect();
        gone.sort_unstable_by_key(|(_, _, row)| row.inserted);
        for (type_name, key, row) in gone {
            net.touch(type_name, key, Some(row), None);
        }
        self.bytes = 0;
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.collections == other.collections
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        Body, Delta, DeltaKind, Skip, decode,
        testing::{any_messages, at, change, split},
    };

    fn fold(messages: &[String], pauses: &[usize]) -> (State, Vec<Applied>) {
        let mut state = State::new();
        let applied = split(messages, pauses).into_iter().map(|tick| state.apply(tick)).collect();
        (state, applied)
    }

    fn put(key: &str, value: &str, txid: &str) -> String {
        change("a", key, "upsert", Some(value), Some(txid))
    }

    fn delete(key: &str, txid: &str) -> String {
        change("a", key, "delete", None, Some(txid))
    }

    fn reset() -> String {
        Control::Reset.encode()
    }

    type Model = BTreeMap<(String, String), String>;

    fn contents(state: &State) -> Model {
        let rows =
            state.types().flat_map(|name| state.rows(name.as_str()).map(move |row| (name, row)));
        rows.map(|(name, (key, row))| ((name.to_string(), key.to_string()), row.value.to_string()))
            .collect()
    }

    /// What the deltas of a tick come to, in short.
    fn gist(applied: &Applied) -> Vec<String> {
        let side = |row: &Option<Row>| row.as_ref().map_or("-".into(), |row| row.value.to_string());
        let line =
            |delta: &Delta| format!("{} {}>{}", delta.key, side(&delta.old), side(&delta.new));
        applied.deltas().iter().map(line).collect()
    }

    #[test]
    fn the_protocols_example_comes_to_its_rows() {
        let (state, _) = fold(
            &[
                change("user", "1", "insert", Some(r#"{"name":"Alice"}"#), None),
                change("user", "2", "insert", Some(r#"{"name":"Bob"}"#), None),
                change("user", "1", "update", Some(r#"{"name":"Alice Smith"}"#), None),
            ],
            &[],
        );
        let alice = state.get("user", "1").unwrap();
        assert_eq!(alice.value.as_str(), r#"{"name":"Alice Smith"}"#);
        assert_eq!((alice.inserted, alice.updated), (at(0), at(2)));
        assert_eq!(state.get("user", "2").unwrap().value.as_str(), r#"{"name":"Bob"}"#);
        assert_eq!((state.len(), state.get("users", "1")), (2, None));
    }

    #[test]
    fn a_tick_tells_net_changes_only() {
        let (_, applied) = fold(
            &[
                put("x", "1", "t1"),
                put("y", "1", "t1"),
                put("x", "2", "t1"),
                put("z", "1", "t1"),
                delete("z", "t1"),
                delete("nothing", "t1"),
                delete("x", "t2"),
                put("x", "3", "t2"),
                put("y", "1", "t2"),
                delete("y", "t3"),
            ],
            &[],
        );
        assert_eq!(gist(&applied[0]), ["x ->2", "y ->1"]);
        assert_eq!(gist(&applied[1]), ["x 2>3", "y 1>1"]);
        assert_eq!(gist(&applied[2]), ["y 1>-"]);
        let kinds = applied.iter().map(|applied| applied.deltas()[0].kind());
        assert!(kinds.eq([DeltaKind::Insert, DeltaKind::Update, DeltaKind::Delete]));
        assert_eq!(applied[1].deltas()[0].new.as_ref().unwrap().inserted, at(7));
    }

    #[test]
    fn words_of_writers_are_not_held_against_them() {
        let write = |operation| change("a", "k", operation, Some("1"), None);
        let (state, applied) = fold(&[write("update"), write("insert"), write("insert")], &[]);
        assert_eq!(gist(&applied[0]), ["k ->1"]);
        assert_eq!(gist(&applied[2]), ["k 1>1"]);
        assert_eq!(state.len(), 1);
    }

    #[test]
    fn a_reset_voids_rows_in_the_order_they_came() {
        let (state, applied) =
            fold(&[put("b", "1", "t"), put("a", "2", "t"), put("b", "3", "t"), reset()], &[]);
        assert!(state.is_empty());
        assert_eq!((state.bytes(), state.types().count()), (0, 0));
        assert_eq!(gist(&applied[1]), ["b 3>-", "a 2>-"]);
        assert_eq!(applied[1].controls, [(at(3), Control::Reset, None)]);
    }

    #[test]
    fn a_reset_within_a_transaction_nets_out() {
        let reset = r#"{"headers":{"control":"reset","txid":"t2"}}"#.to_owned();
        let (state, applied) = fold(
            &[
                put("x", "1", "t1"),
                put("y", "1", "t1"),
                put("z", "9", "t2"),
                reset,
                put("x", "2", "t2"),
            ],
            &[],
        );
        assert_eq!(gist(&applied[1]), ["x 1>2", "y 1>-"]);
        assert_eq!(state.len(), 1);
    }

    #[test]
    fn snapshot_markers_are_told_and_change_nothing() {
        let marks = [Control::SnapshotStart, Control::SnapshotEnd];
        let (state, applied) = fold(
            &[put("x", "1", "t"), marks[0].encode(), put("y", "1", "t"), marks[1].encode()],
            &[],
        );
        assert_eq!(state.len(), 2);
        let told =
            applied.iter().flat_map(|applied| &applied.controls).map(|(_, control, _)| *control);
        assert!(told.eq(marks));
    }

    #[test]
    fn what_is_skipped_is_counted_and_the_fold_goes_on() {
        let (state, applied) =
            fold(&[put("x", "1", "t"), "?".into(), "[]".into(), put("y", "1", "t")], &[]);
        assert_eq!((state.len(), state.skipped()), (2, 2));
        assert_eq!(applied[1].skipped, [(at(1), Skip::NotJson)]);
        assert_eq!(applied[2].skipped, [(at(2), Skip::NotAnObject)]);
    }

    /// Rows as the protocol's text has them, one message after the other.
    fn model(messages: &[String]) -> Model {
        let mut rows = Model::new();
        for message in messages {
            match decode(message.as_bytes()).body {
                Body::Change(change) => {
                    let place = (change.type_name.into_owned(), change.key.into_owned());
                    match change.value {
                        Some(value) => rows.insert(place, value.to_string()),
                        None => rows.remove(&place),
                    };
                }
                Body::Control(Control::Reset) => rows.clear(),
                _ => {}
            }
        }
        rows
    }

    /// Checks each old side against the mirror, then moves the mirror.
    fn mirror(rows: &mut Model, delta: &Delta) -> Result<(), TestCaseError> {
        let place = (delta.type_name.to_string(), delta.key.to_string());
        let text = |row: &Option<Row>| row.as_ref().map(|row| row.value.to_string());
        prop_assert_eq!(rows.get(&place).cloned(), text(&delta.old));
        prop_assert!(delta.old.is_some() || delta.new.is_some());
        match text(&delta.new) {
            Some(value) => rows.insert(place, value),
            None => rows.remove(&place),
        };
        Ok(())
    }

    proptest! {
        #[test]
        fn the_last_write_wins(messages in any_messages()) {
            let (state, _) = fold(&messages, &[]);
            let model = model(&messages);
            let bytes: usize = model.iter().map(|((_, key), value)| key.len() + value.len()).sum();
            prop_assert_eq!((state.len(), state.bytes()), (model.len(), bytes));
            prop_assert_eq!(contents(&state), model);
        }

        #[test]
        fn pauses_anywhere_come_to_the_same_rows(
            messages in any_messages(),
            pauses in prop::collection::vec(0..60usize, 0..9),
        ) {
            let (whole, _) = fold(&messages, &[]);
            let (paused, _) = fold(&messages, &pauses);
            prop_assert_eq!(&paused, &whole);
            prop_assert_eq!((paused.skipped(), paused.bytes()), (whole.skipped(), whole.bytes()));
        }

        #[test]
        fn deltas_rebuild_the_rows(
            messages in any_messages(),
            pauses in prop::collection::vec(0..60usize, 0..3),
        ) {
            let (state, applied) = fold(&messages, &pauses);
            let mut rows = Model::new();
            for delta in applied.iter().flat_map(Applied::deltas) {
                mirror(&mut rows, delta)?;
            }
            prop_assert_eq!(contents(&state), rows);
        }

        #[test]
        fn a_reset_empties_whatever_was_there(messages in any_messages(), seed: u64) {
            let mut state = State::with_seed(seed);
            for tick in split(&[messages, vec![reset()]].concat(), &[]) {
                state.apply(tick);
            }
            prop_assert!(state.is_empty());
            prop_assert_eq!((state.bytes(), state.len()), (0, 0));
        }

        #[test]
        fn the_seed_does_not_show(messages in any_messages(), seed: u64) {
            let (plain, answers) = fold(&messages, &[]);
            let mut seeded = State::with_seed(seed);
            let ticks = split(&messages, &[]).into_iter();
            prop_assert_eq!(ticks.map(|tick| seeded.apply(tick)).collect::<Vec<_>>(), answers);
            prop_assert_eq!(seeded, plain);
        }
    }
}
