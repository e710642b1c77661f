//! Ticks: a stream of events split into its transactions.

use std::collections::{BTreeSet, HashSet};

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use wire::Position;

use crate::{
    Body, Change, Control, Event, Json, Key, Operation, Place, Places, Skip, TxId, TypeName,
    caps::{TICK_BYTES_MAX, TICK_EVENTS_GUESSED_MAX, TICK_EVENTS_MAX, TYPES_SHARED_MAX},
    decode,
};

/// One transaction: the longest run of adjacent events with the same txid. An event without a
/// txid is a tick of its own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tick {
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
    pub(crate) entries: SmallVec<[(Position, Entry); 1]>,
}

/// Where a tick starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With its transaction.
    Fresh,
    /// Inside of it: the tick before ended with [`End::UpToDate`] or [`End::Full`].
    Continued,
    /// Anew: it holds the rows of a snapshot, which are all there was up to and with its position.
    /// Its first entries void what the reader had.
    Snapshot,
}

/// Why a tick ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The transaction is whole: another one follows, or it can only have one event.
    Whole,
    /// The reader was up to date. Transactions that are one append are whole then, too.
    UpToDate,
    /// A bound of [`caps`](crate::caps) was reached; the rest is the next tick.
    Full,
}

/// What an event does to the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// It writes a row.
    Write(Write),
    /// It signals something about the stream, and the offset that it names, if any.
    Control(Control, Option<Box<str>>),
    /// Nothing: it was not understood.
    Skipped(Skip),
}

/// A write of one row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Write {
    /// Its collection.
    pub type_name: TypeName,
    /// Its key.
    pub key: Key,
    /// What the writer meant to do.
    pub operation: Operation,
    /// The whole new row; none exactly if the operation is [`Operation::Delete`].
    pub value: Option<Json>,
    /// What a snapshot tells of the row's past; none for all other writes.
    pub past: Option<Box<Past>>,
}

/// The past of a row that a snapshot has written again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Past {
    /// The transaction that wrote it last.
    pub txid: Option<TxId>,
    /// Where it was made.
    pub inserted: Position,
}

impl Tick {
    /// Its events, in their order.
    #[must_use]
    pub fn entries(&self) -> &[(Position, Entry)] {
        &self.entries
    }

    /// Leaves writes out that are not to be applied. Where the tick begins and ends stays.
    pub fn retain_writes(&mut self, mut is_kept: impl FnMut(&Write) -> bool) {
        self.entries.retain(|(_, entry)| match entry {
            Entry::Write(write) => is_kept(write),
            Entry::Control(..) | Entry::Skipped(_) => true,
        });
    }

    /// Leaves events out that are not to be applied. Where the tick begins and ends stays.
    pub fn retain(&mut self, mut is_kept: impl FnMut(Position) -> bool) {
        self.entries.retain(|(position, _)| is_kept(*position));
    }
}

/// Splits a stream into ticks, however its chunks were cut.
///
/// ```text
/// events   a1 a2 | b1 | -  | -  | a3 ...      letters are txids, - has none
/// ticks    [a a]   [b]  [-]  [-]  [a
///                                   ^ open: complete when something else follows,
///                                     or when the reader is up to date
/// ```
///
/// A tick is complete when an event of another txid, or of none, follows. The end of a chunk says
/// nothing: the run may go on in the next one. But a reader that has seen all there is must not
/// wait for a stranger's event to learn of the last one, so [`Ticks::up_to_date`] completes the
/// open tick. That splits no transaction of ours: each is one append ([`transaction`]), and an
/// append is visible whole or not at all. A foreign writer may spread a txid over several
/// appends; then a reader at the tail sees several ticks, marked [`Start::Continued`], where a
/// later reader sees one. What they fold to is the same.
///
/// Where ticks begin and end depends on txids and positions alone, not on what an event means, so
/// that readers of different versions see the same ticks. A message without a readable txid
/// counts as an event without one.
///
/// Messages that a snapshot wrote again stand where they stood ([`Places`]): a reader that has them
/// gets no ticks for them, and one that begins with the snapshot gets its rows as one tick
/// ([`Start::Snapshot`]), however many they are, and then the ticks that there were.
///
/// [`transaction`]: crate::transaction
#[derive(Debug, Default)]
pub struct Ticks {
    open: Option<Open>,
    /// The transaction that the last tick was cut from, and where.
    cut: Option<(TxId, Position)>,
    places: Places,
    types: Types,
    /// How many events the last tick had; the next one is probably like it.
    last_len: usize,
    /// Where ticks begin, whatever the txid before them is.
    cuts: BTreeSet<Position>,
    known_bytes: u64,
}

#[derive(Debug)]
struct Open {
    tick: Tick,
    bytes: usize,
}

impl Ticks {
    /// A splitter that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A splitter for a reader that has applied everything before this position.
    #[must_use]
    pub fn from(covered: Position) -> Self {
        Self { places: covered.into(), ..Self::default() }
    }

    /// Begins a tick at each of these positions, also inside of a transaction: what a reader at the
    /// tail saw as several ticks is the same to one that comes later.
    #[must_use]
    pub fn cut_at(mut self, cuts: BTreeSet<Position>) -> Self {
        self.cuts = cuts;
        self
    }

    /// Everything before this position was taken. What is open of it may still come.
    #[must_use]
    pub fn covered(&self) -> Position {
        self.places.covered()
    }

    /// Bytes of messages that were passed over, because they were taken where they stood first: a
    /// snapshot behind what it was made of.
    #[must_use]
    pub const fn known_bytes(&self) -> u64 {
        self.known_bytes
    }

    /// Whether a transaction was begun that may go on.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the next message of the stream; returns the tick before it, if that is complete now.
    /// A message whose position does not follow the last one starts a new tick.
    pub fn push(&mut self, position: Position, message: &[u8]) -> Option<Tick> {
        let event = decode(message);
        match self.places.place(position, &event) {
            Place::At(stands) => {
                // A row of a snapshot whose beginning this reader has not seen.
                let is_row = stands != position && event.headers.inserted.is_some();
                let past = is_row.then(|| past_of(stands, &event));
                self.take(stands, event, past, message.len())
            }
            Place::Row(position) => {
                self.row(position, event);
                None
            }
            Place::Anew(reach) => {
                self.begin_anew(reach, event);
                None
            }
            Place::Known => {
                self.known_bytes += message.len() as u64;
                None
            }
        }
    }

    fn take(
        &mut self,
        position: Position,
        event: Event<'_>,
        past: Option<Past>,
        bytes: usize,
    ) -> Option<Tick> {
        let txid = event.headers.txid.as_deref();
        let done = match &self.open {
            None => None,
            Some(open) if !open.goes_on(position, txid) => self.finish(End::Whole),
            Some(_) if self.cuts.contains(&position) => self.finish(End::UpToDate),
            Some(open) if open.is_full(bytes) => self.finish(End::Full),
            Some(_) => None,
        };
        if self.open.is_none() {
            self.open = Some(Open { tick: self.start(position, txid), bytes: 0 });
        }
        let mut entry = self.entry(event);
        if let (Entry::Write(write), Some(past)) = (&mut entry, past) {
            write.past = Some(Box::new(past));
        }
        if let Some(open) = &mut self.open {
            open.tick.last = position;
            open.tick.entries.push((position, entry));
            open.bytes += bytes;
        }
        done
    }

    /// The rows of a snapshot are all there is, so nothing that is open matters any more.
    fn begin_anew(&mut self, reach: Position, event: Event<'_>) {
        let before = Position::new(reach.get().saturating_sub(1));
        let mut tick = self.start(before, None);
        tick.start = Start::Snapshot;
        tick.entries.push((before, self.entry(event)));
        tick.entries.push((before, Entry::Control(Control::Reset, None)));
        self.open = Some(Open { tick, bytes: 0 });
    }

    fn row(&mut self, position: Position, event: Event<'_>) {
        let past = past_of(position, &event);
        let mut entry = self.entry(event);
        if let Entry::Write(write) = &mut entry {
            write.past = Some(Box::new(past));
        }
        if self.open.is_none() {
            self.open = Some(Open { tick: self.start(position, None), bytes: 0 });
        }
        if let Some(open) = &mut self.open {
            open.tick.entries.push((position, entry));
        }
    }

    fn entry(&mut self, event: Event<'_>) -> Entry {
        match event.body {
            Body::Change(change) => Entry::Write(self.types.write(&change)),
            Body::Control(control) => {
                Entry::Control(control, event.headers.offset.as_deref().map(Box::from))
            }
            Body::Skipped(reason) => Entry::Skipped(reason),
        }
    }

    /// Takes note that the reader has seen all messages there are; returns the tick that was open.
    pub fn up_to_date(&mut self) -> Option<Tick> {
        self.finish(End::UpToDate)
    }

    fn finish(&mut self, end: End) -> Option<Tick> {
        let Open { mut tick, .. } = self.open.take()?;
        self.last_len = tick.entries.len();
        match &tick.txid {
            Some(txid) => {
                tick.end = end;
                self.cut = (end != End::Whole).then(|| (txid.clone(), tick.last));
            }
            None => self.cut = None,
        }
        Some(tick)
    }

    fn start(&mut self, position: Position, txid: Option<&str>) -> Tick {
        let cut = self
            .cut
            .take()
            .filter(|(cut, last)| txid == Some(cut.as_str()) && follows(*last, position));
        let (txid, start) = match cut {
            Some((txid, _)) => (Some(txid), Start::Continued),
            None => (txid.map(TxId::checked), Start::Fresh),
        };
        let entries = SmallVec::with_capacity(self.last_len.min(TICK_EVENTS_GUESSED_MAX));
        Tick { txid, first: position, last: position, start, end: End::Whole, entries }
    }
}

impl Open {
    fn goes_on(&self, position: Position, txid: Option<&str>) -> bool {
        let same = self.tick.txid.as_ref().is_some_and(|own| txid == Some(own.as_str()));
        same && follows(self.tick.last, position)
    }

    fn is_full(&self, more_bytes: usize) -> bool {
        self.tick.entries.len() >= TICK_EVENTS_MAX || self.bytes + more_bytes > TICK_BYTES_MAX
    }
}

/// What a row of a snapshot tells of its past.
fn past_of(stands: Position, event: &Event<'_>) -> Past {
    let txid = event.headers.txid.as_deref().map(TxId::checked);
    Past { txid, inserted: event.headers.inserted.unwrap_or(stands) }
}

fn follows(last: Position, next: Position) -> bool {
    next.get().checked_sub(last.get()) == Some(1)
}

/// The names of types, one copy of each: a stream has few, and repeats them with every event.
#[derive(Debug, Default)]
struct Types {
    last: Option<TypeName>,
    shared: HashSet<TypeName, FixedState>,
}

impl Types {
    fn write(&mut self, change: &Change<'_>) -> Write {
        Write {
            type_name: self.share(&change.type_name),
            key: Key::checked(&change.key),
            operation: change.operation,
            value: change.value.map(Json::from),
            past: None,
        }
    }

    fn share(&mut self, text: &str) -> TypeName {
        if let Some(last) = self.last.as_ref().filter(|last| last.as_str() == text) {
            return last.clone();
        }
        let name = match self.shared.get(text) {
            Some(name) => name.clone(),
            None => TypeName::checked(text),
        };
        if self.shared.len() < TYPES_SHARED_MAX {
            self.shared.insert(name.clone());
        }
        self.last = Some(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_messages, at, change, split};

    /// Pushes one event for each letter, `-` for one without txid; `!` is up to date.
    fn ticks(script: &str) -> Vec<Tick> {
        let (mut ticks, mut position) = (Ticks::new(), 0);
        let mut done = Vec::new();
        for letter in script.chars() {
            if letter == '!' {
                done.extend(ticks.up_to_date());
                continue;
            }
            let txid = (letter != '-').then(|| letter.to_string());
            let message = change("a", "k", "insert", Some("1"), txid.as_deref());
            done.extend(ticks.push(at(position), message.as_bytes()));
            position += 1;
        }
        done
    }

    #[track_caller]
    fn check(script: &str, expected: &str) {
        let gist = |tick: &Tick| {
            let start = if tick.start == Start::Fresh { "[" } else { "+[" };
            let end = if tick.end == End::Whole { "]" } else { ")" };
            let name = tick.txid.as_ref().map_or("-", TxId::as_str);
            assert_eq!(tick.last.get() - tick.first.get() + 1, tick.entries().len() as u64);
            format!("{start}{}{end}", name.repeat(tick.entries().len()))
        };
        assert_eq!(ticks(script).iter().map(gist).collect::<String>(), expected, "{script}");
    }

    #[test]
    fn a_tick_is_a_run_of_one_txid() {
        check("", "");
        check("a", "");
        check("aab", "[aa]");
        check("aabba!", "[aa][bb][a)");
        check("--a-", "[-][-][a]");
        check("-!", "[-]");
        check("aa!", "[aa)");
        check("!!a!!", "[a)");
    }

    #[test]
    fn what_goes_on_after_up_to_date_is_marked() {
        check("a!a!b!", "[a)+[a)[b)");
        check("a!aab", "[a)+[aa]");
        check("a!b!a!", "[a)[b)[a)");
        check("a!-a!", "[a)[-][a)");
    }

    #[test]
    fn a_cut_makes_of_a_run_what_a_reader_at_the_tail_saw() {
        let message = change("a", "k", "insert", Some("1"), Some("t"));
        let mut ticks = Ticks::new().cut_at([at(2), at(3), at(9)].into());
        let mut done = Vec::new();
        (0..5).for_each(|position| done.extend(ticks.push(at(position), message.as_bytes())));
        done.extend(ticks.up_to_date());
        let gist = |tick: &Tick| (tick.first.get(), tick.last.get(), tick.start);
        let gists: Vec<_> = done.iter().map(gist).collect();
        let continued = Start::Continued;
        assert_eq!(gists, [(0, 1, Start::Fresh), (2, 2, continued), (3, 4, continued)]);
    }

    #[test]
    fn a_gap_ends_a_tick() {
        let mut ticks = Ticks::new();
        let message = change("a", "k", "insert", Some("1"), Some("t"));
        assert_eq!(ticks.push(at(4), message.as_bytes()), None);
        for position in [6, 5, 5, 0] {
            let tick = ticks.push(at(position), message.as_bytes()).unwrap();
            assert_eq!((tick.entries().len(), tick.end), (1, End::Whole));
        }
    }

    /// A snapshot of two rows that reaches to 4, and a copy of the transaction after it.
    fn snapshot() -> Vec<String> {
        let put = |key: &str, at: u64, txid: &str| {
            let plain = change("a", key, "upsert", Some("1"), Some(txid));
            plain.replace("}}", &format!(r#","headwater.position":"{at}"}}}}"#))
        };
        let start = crate::snapshot_start(at(4), wire::Offset::new(6, 60));
        let rows = [put("x", 1, "t1"), put("y", 3, "t2")];
        let copies = [put("x", 4, "t3"), put("z", 5, "t3")];
        [vec![start], rows.into(), copies.into(), vec![Control::SnapshotEnd.encode()]].concat()
    }

    fn read(mut ticks: Ticks, messages: &[String]) -> Vec<Tick> {
        let lies = (6..).map(at).zip(messages);
        let mut done: Vec<_> =
            lies.filter_map(|(lies, message)| ticks.push(lies, message.as_bytes())).collect();
        done.extend(ticks.up_to_date());
        assert_eq!(ticks.covered(), at(6 + messages.len() as u64));
        done
    }

    #[test]
    fn the_rows_of_a_snapshot_are_one_tick_and_its_copies_are_what_they_were() {
        let ticks = read(Ticks::from(at(2)), &snapshot());
        let places: Vec<_> = ticks.iter().map(|tick| (tick.first.get(), tick.start)).collect();
        assert_eq!(places, [(3, Start::Snapshot), (4, Start::Fresh), (11, Start::Fresh)]);
        let (rows, copies) = (ticks[0].entries(), ticks[1].entries());
        assert!(matches!(rows[1].1, Entry::Control(Control::Reset, None)));
        let Entry::Write(row) = &rows[2].1 else { panic!("{rows:?}") };
        assert_eq!(row.past.as_ref().unwrap().txid.as_ref().unwrap().as_str(), "t1");
        assert_eq!(rows.iter().map(|(place, _)| place.get()).collect::<Vec<_>>(), [3, 3, 1, 3]);
        assert_eq!(copies.iter().map(|(place, _)| place.get()).collect::<Vec<_>>(), [4, 5]);
    }

    #[test]
    fn who_has_it_all_passes_over_a_snapshot() {
        let firsts = |covered| {
            let ticks = read(Ticks::from(at(covered)), &snapshot());
            ticks.iter().map(|tick| tick.first.get()).collect::<Vec<_>>()
        };
        assert_eq!(firsts(6), [11]);
        assert_eq!(firsts(5), [5, 11], "half of a transaction was taken");
        assert_eq!(firsts(4), [4, 11]);
    }

    #[test]
    fn skipped_events_belong_to_their_transaction() {
        let messages = [
            change("a", "k", "insert", Some("1"), Some("t")),
            change("a", "k", "increment", Some("1"), Some("t")),
            r#"{"headers":{"control":"reset","offset":"7","txid":"t"}}"#.into(),
            "garbage".into(),
            change("a", "k", "insert", Some("1"), Some("t")),
        ];
        let ticks = split(&messages, &[]);
        let lens: Vec<_> = ticks.iter().map(|tick| tick.entries().len()).collect();
        assert_eq!(lens, [3, 1, 1]);
        let entries = ticks[0].entries();
        assert_eq!(entries[1], (at(1), Entry::Skipped(Skip::UnknownOperation)));
        assert_eq!(entries[2], (at(2), Entry::Control(Control::Reset, Some("7".into()))));
    }

    #[test]
    fn a_transaction_beyond_the_bounds_is_cut_and_marked() {
        let small = change("a", "k", "insert", Some("1"), Some("t"));
        let ticks = split(&vec![small.clone(); TICK_EVENTS_MAX + 1], &[]);
        assert_eq!((ticks[0].entries().len(), ticks[0].end), (TICK_EVENTS_MAX, End::Full));
        assert_eq!((ticks[1].entries().len(), ticks[1].start), (1, Start::Continued));

        let text = format!("\"{}\"", "x".repeat(TICK_BYTES_MAX / 2));
        let large = change("a", "k", "insert", Some(&text), Some("t"));
        let ticks = split(&[small, large.clone(), large.clone(), large], &[]);
        let lens: Vec<_> = ticks.iter().map(|tick| (tick.entries().len(), tick.end)).collect();
        assert_eq!(lens, [(2, End::Full), (1, End::Full), (1, End::UpToDate)]);
    }

    #[test]
    fn type_names_are_shared_up_to_a_bound() {
        let mut types = Types::default();
        for round in 0..2 {
            for number in 0..TYPES_SHARED_MAX + 10 {
                assert_eq!(types.share(&format!("t{number}")).as_str(), format!("t{number}"));
            }
            assert_eq!(types.shared.len(), TYPES_SHARED_MAX, "round {round}");
        }
    }

    proptest! {
        #[test]
        fn ticks_hold_every_message_once(
            messages in any_messages(),
            pauses in prop::collection::vec(0..60usize, 0..6),
        ) {
            let ticks = split(&messages, &pauses);
            let entries = ticks.iter().flat_map(Tick::entries);
            prop_assert!(entries.map(|(position, _)| position.get()).eq(0..messages.len() as u64));
        }

        #[test]
        fn readers_see_the_same_ticks_if_they_pause_between_transactions(
            messages in any_messages(),
            pauses in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        ) {
            let whole = split(&messages, &[]);
            let between: Vec<usize> = pauses
                .iter()
                .filter_map(|pause| whole.get(pause.index(whole.len() + 1)))
                .map(|tick| tick.first.get() as usize)
                .collect();
            let mut paused = split(&messages, &between);
            for (paused, whole) in paused.iter_mut().zip(&whole) {
                paused.end = whole.end;
            }
            prop_assert_eq!(paused, whole);
        }
    }
}
