//! What is done to a log: operations, and how they are drawn.

use proptest::{collection::vec, option, prelude::*, sample::Index};

/// The streams of a run: few, so that they meet often, and one a prefix of the other.
pub(crate) const NAMES: [&str; 4] = ["a", "a/b", "a/c", "b"];

/// A name, by its number in [`NAMES`].
pub(crate) type Name = usize;

/// One step of a run.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Create { name: Name, settings: Settings, texts: Vec<String>, close: bool },
    Append { name: Name, append: Write },
    Fork { name: Name, source: Name, at: Option<Place>, sub_offset: u64, fork: Branch },
    Read { name: Name, from: From, bytes_max: usize },
    Head { name: Name },
    Tail { name: Name, after: Place },
    Trim { name: Name, before: Place },
    Delete { name: Name, erase: bool },
    List { prefix: &'static str, after: Option<Name>, limit: usize },
    Pass { ms: u64 },
    Reopen,
}

/// What a stream is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) json: bool,
    pub(crate) life: Life,
}

/// How long a stream lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Forever,
    /// Idle for so many seconds.
    Idle(u64),
    /// Until so many milliseconds after the run began.
    Until(u64),
}

/// What an append carries.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) texts: Vec<String>,
    pub(crate) json: Option<bool>,
    pub(crate) producer: Option<Triple>,
    pub(crate) seq: Option<&'static str>,
    pub(crate) expected: Option<Place>,
    pub(crate) close: bool,
}

/// A producer's id, epoch and sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Triple {
    pub(crate) id: &'static str,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
}

/// What a fork carries.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) json: Option<bool>,
    pub(crate) life: Option<Life>,
    pub(crate) texts: Vec<String>,
    pub(crate) close: bool,
}

/// Where a read begins.
#[derive(Clone, Debug)]
pub(crate) enum From {
    Start,
    Now,
    At(Place),
    Last,
    Before(Place),
}

/// A place in whatever the stream is when the operation comes to it.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Before one of its messages, or after the last.
    Boundary(Index),
    /// A byte after the beginning of one of its messages.
    Inside(Index),
    /// A byte before the end of one of its messages, though counted as past it.
    Short(Index),
    Tail,
    /// So many messages past the tail.
    Beyond(u64),
}

/// A run. Now and then a client that got no answer sends one of its last operations again.
pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let step = (operation(), option::weighted(0.15, 1..6usize));
    vec(step, 1..80).prop_map(|steps| {
        let mut run: Vec<Operation> = Vec::new();
        for (fresh, steps_back) in steps {
            let earlier = steps_back.and_then(|steps_back| run.iter().nth_back(steps_back - 1));
            run.push(earlier.cloned().unwrap_or(fresh));
        }
        run
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => create(),
        14 => append(),
        6 => fork(),
        6 => (name(), from(), 0..12usize)
            .prop_map(|(name, from, bytes_max)| Operation::Read { name, from, bytes_max }),
        2 => name().prop_map(|name| Operation::Head { name }),
        2 => (name(), place()).prop_map(|(name, after)| Operation::Tail { name, after }),
        3 => (name(), place()).prop_map(|(name, before)| Operation::Trim { name, before }),
        2 => (name(), prop::bool::weighted(0.2))
            .prop_map(|(name, erase)| Operation::Delete { name, erase }),
        2 => list(),
        2 => (1..3_000u64).prop_map(|ms| Operation::Pass { ms }),
        1 => Just(Operation::Reopen),
    ]
}

fn create() -> impl Strategy<Value = Operation> {
    let settings = (any::<bool>(), life()).prop_map(|(json, life)| Settings { json, life });
    (name(), settings, texts(0), rarely()).prop_map(|(name, settings, texts, close)| {
        Operation::Create { name, settings, texts, close }
    })
}

fn append() -> impl Strategy<Value = Operation> {
    let texts = prop_oneof![12 => texts(1), 1 => Just(Vec::new())];
    let conditions = (producer(), seq(), option::weighted(0.2, place()));
    (name(), texts, option::weighted(0.2, any::<bool>()), conditions, rarely()).prop_map(
        |(name, texts, json, (producer, seq, expected), close)| {
            let append = Write { texts, json, producer, seq, expected, close };
            Operation::Append { name, append }
        },
    )
}

fn fork() -> impl Strategy<Value = Operation> {
    let at = option::weighted(0.8, place());
    let branch = (option::weighted(0.1, any::<bool>()), option::weighted(0.3, life()), texts(0));
    let branch = (branch, rarely()).prop_map(|((json, life, texts), close)| Branch {
        json,
        life,
        texts,
        close,
    });
    let sub_offset = prop_oneof![4 => Just(0), 3 => 1..5u64];
    (name(), name(), at, sub_offset, branch).prop_map(|(name, source, at, sub_offset, fork)| {
        Operation::Fork { name, source, at, sub_offset, fork }
    })
}

fn list() -> impl Strategy<Value = Operation> {
    let prefix = prop::sample::select(vec!["", "a", "a/", "b", "x"]);
    (prefix, option::of(name()), 1..6usize).prop_map(|(prefix, after, limit)| Operation::List {
        prefix,
        after,
        limit,
    })
}

fn name() -> impl Strategy<Value = Name> {
    0..NAMES.len()
}

fn texts(at_least: usize) -> impl Strategy<Value = Vec<String>> {
    vec("[a-z]{1,4}", at_least..4)
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![
        6 => Just(Life::Forever),
        2 => (1..4u64).prop_map(Life::Idle),
        1 => (1..20_000u64).prop_map(Life::Until),
    ]
}

fn producer() -> impl Strategy<Value = Option<Triple>> {
    let id = prop::sample::select(vec!["p", "q"]);
    let triple = (id, 0..3u64, prop_oneof![3 => Just(0), 2 => Just(1), 1 => 2..5u64]);
    option::weighted(0.5, triple.prop_map(|(id, epoch, seq)| Triple { id, epoch, seq }))
}

fn seq() -> impl Strategy<Value = Option<&'static str>> {
    option::weighted(0.2, prop::sample::select(vec!["1", "10", "2", "B", "a"]))
}

fn from() -> impl Strategy<Value = From> {
    prop_oneof![
        2 => Just(From::Start),
        1 => Just(From::Now),
        5 => place().prop_map(From::At),
        2 => Just(From::Last),
        4 => place().prop_map(From::Before),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        6 => any::<Index>().prop_map(Place::Boundary),
        1 => any::<Index>().prop_map(Place::Inside),
        1 => any::<Index>().prop_map(Place::Short),
        3 => Just(Place::Tail),
        1 => (1..4u64).prop_map(Place::Beyond),
    ]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.08)
}
