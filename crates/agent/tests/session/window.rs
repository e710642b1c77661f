//! A window shows all that was written from a position on, also in a stream that was compacted.

use std::collections::BTreeMap;

use agent::rows::{self, Message};
use live::{Since, StreamDb};
use log::Fork;
use wire::{Position, ReadFrom};

use crate::support::World;

/// The rows that a database shows from a position on, by their positions.
async fn shown(world: &World, from: u64) -> BTreeMap<u64, String> {
    let window = world.session().window(Position::new(from)).await.unwrap();
    let since = Since { life: window.incarnation, offset: window.offset, position: window.covered };
    let db = rows::session(StreamDb::builder(world.log.clone(), world.address(), &world.sys));
    let db = db.since(since).open().unwrap();
    db.ready().await.unwrap();
    let rows = db.rows::<Message>().unwrap().rows();
    rows.iter().map(|row| (row.meta().position.unwrap(), row.id.clone())).collect()
}

async fn check(world: &World, all: &BTreeMap<u64, String>) {
    for from in [0, 1, 7, 50, 80, 119, 120, 500] {
        let expected: BTreeMap<_, _> =
            all.range(from..).map(|(at, id)| (*at, id.clone())).collect();
        assert_eq!(shown(world, from).await, expected, "from {from}");
    }
}

#[tokio::test]
async fn a_window_shows_what_was_written_from_its_position_on() {
    let world = World::new().await;
    for number in 0..100 {
        world.say(&format!("m{number}"), 3_000).await;
        if number % 10 == 9 {
            world.answer(None).await;
        }
    }
    let all = shown(&world, 0).await;
    assert_eq!(all.len(), 100);
    check(&world, &all).await;
}

#[tokio::test]
async fn a_window_begins_inside_of_what_a_compaction_kept() {
    let world = World::new().await;
    for number in 0..60 {
        world.say(&format!("m{number}"), 3_000).await;
        world.answer(None).await;
    }
    let all = shown(&world, 0).await;
    let compaction = live::compact(&world.log, world.address(), &world.sys);
    let hold = compaction.hold(Position::new(100));
    let compacted = rows::compaction(hold).run().await.unwrap();
    assert!(compacted.after.messages < compacted.before.messages);
    check(&world, &all).await;
    for number in 60..70 {
        world.say(&format!("m{number}"), 3_000).await;
    }
    let all = shown(&world, 0).await;
    assert_eq!(all.len(), 70);
    check(&world, &all).await;
}

#[tokio::test]
async fn a_fork_inside_of_a_snapshot_shows_what_it_copied_and_what_came_since() {
    let world = World::new().await;
    for number in 0..60 {
        world.say(&format!("m{number}"), 300).await;
        world.answer(None).await;
    }
    let end = world.tail().await;
    let compaction = live::compact(&world.log, world.address(), &world.sys);
    let _ = rows::compaction(compaction).run().await.unwrap();
    // A fork begins with the first half of the snapshot.
    let kept = world.log.read(&world.address(), ReadFrom::Start, 1 << 20).await.unwrap();
    let half = kept.messages().take(40);
    let at = half.fold(kept.start, |at, message| at.after(1, message.len() as u64));
    assert!(kept.start >= end, "the snapshot is all there is");
    let fork = Fork { offset: Some(at), ..Fork::of(world.address()) };
    let world = world.forked("fork", fork).await;
    world.say("since", 300).await;
    let all = shown(&world, 0).await;
    assert!(all.len() > 10 && all.values().any(|id| id == "since"), "{all:?}");
    let whole = rows::session(StreamDb::builder(world.log.clone(), world.address(), &world.sys));
    let whole = whole.open().unwrap();
    whole.ready().await.unwrap();
    assert_eq!(whole.rows::<Message>().unwrap().rows().len(), all.len());
    for from in [1, 7, 50, 119, 500] {
        // What was copied is one piece: more of it may be shown, nothing is missing.
        let found = shown(&world, from).await;
        let expected: BTreeMap<_, _> = all.range(from..).collect();
        assert_eq!(found.range(from..).collect::<BTreeMap<_, _>>(), expected, "from {from}");
    }
}

#[tokio::test]
async fn a_compaction_that_came_to_no_end_counts_for_nothing() {
    let world = World::new().await;
    for number in 0..60 {
        world.say(&format!("m{number}"), 3_000).await;
        world.answer(None).await;
    }
    let all = shown(&world, 0).await;
    let tail = world.tail().await;
    let start = state::snapshot_start(tail.position, tail);
    world.append(wire::Messages::one(start).unwrap()).await;
    let first = world.log.read(&world.address(), ReadFrom::Start, 1).await.unwrap();
    let first = first.messages().next().unwrap();
    let row = state::snapshot_row(first, Position::new(0), Position::new(0)).unwrap();
    world.append(wire::Messages::one(row.as_str().to_owned()).unwrap()).await;
    world.say("later", 10).await;
    let mut all = all;
    all.insert(world.tail().await.position.get() - 1, "later".to_owned());
    check(&world, &all).await;
}
