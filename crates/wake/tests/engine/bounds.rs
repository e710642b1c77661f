//! More streams than a subscription holds links for.

use std::{collections::BTreeSet, ops::Range};

use super::*;

/// A bound that is soon reached; what it means does not depend on how large it is.
const FEW: Bounds = Bounds { links_max: 4_000 };
/// More than that.
const MANY: usize = FEW.links_max + 50;

/// Makes streams with a message each.
async fn open_streams(world: &World, numbers: Range<usize>) {
    for n in numbers {
        let stream = format!("events/{n}");
        world.create(&stream).await;
        world.append(&stream).await;
    }
    world.settle().await;
}

/// Works off what there is; the streams that were worked on, none of them twice.
async fn work_off(world: &World, engine: &Engine, name: &str) -> BTreeSet<StreamPath> {
    let mut seen = BTreeSet::new();
    loop {
        world.pass(1).await;
        let Ok(claim) = engine.claim(&id(name), "one".to_owned()).await else { return seen };
        for work in &claim.streams {
            assert!(seen.insert(work.link.path.clone()), "{} twice", work.link.path);
        }
        engine.report(&id(name), &claim.token, done(&claim)).await.unwrap();
    }
}

#[test]
fn streams_come_and_go_without_end_and_each_is_woken_for() {
    simulate(|world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap();
        let all: Vec<_> = (0..wake::caps::LINKS_MAX + 50).map(|n| format!("events/{n}")).collect();
        for streams in all.chunks(300) {
            for stream in streams {
                world.create(stream).await;
                world.append(stream).await;
            }
            let claim = engine.claim(&id("s"), "one".to_owned()).await;
            let claim = claim.unwrap_or_else(|error| panic!("{}: {error}", streams[0]));
            assert_eq!(claim.streams.len(), streams.len());
            engine.report(&id("s"), &claim.token, done(&claim)).await.unwrap();
            for stream in streams {
                world.log.delete(&address(stream), log::Delete::Stream).await.unwrap();
            }
        }
        world.settle().await;
        assert_eq!(engine.get(&id("s")).await.unwrap().links, []);
    });
}

#[test]
fn more_work_than_a_subscription_holds_links_is_found_later() {
    simulate(|world| async move {
        let engine = world.open_within(FEW).await;
        world.create("wake").await;
        for name in ["s", "t"] {
            engine.create(&id(name), pull("events/*"), String::new()).await.unwrap();
        }
        open_streams(&world, 0..MANY).await;
        for name in ["s", "t"] {
            let seen = work_off(&world, &engine, name).await;
            assert_eq!(seen.len(), MANY, "{name}");
        }
        // All are at rest: what comes now is asked for from there.
        world.append("events/7").await;
        world.pass(1).await;
        let claim = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
        assert_eq!(claim.streams[0].link.acked, Some(wire::Offset::new(1, 1)));
        assert_eq!(claim.streams.len(), 1);
    });
}

#[test]
fn streams_that_wait_are_found_when_those_before_them_were_deleted() {
    for end in [End::Deleted, End::Expired] {
        simulate(|world| async move {
            let engine = world.open_within(FEW).await;
            world.create("wake").await;
            engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap();
            for n in 0..FEW.links_max {
                let stream = format!("events/{n}");
                world.create_mortal(&stream, end).await;
                world.append(&stream).await;
            }
            world.settle().await;
            open_streams(&world, FEW.links_max..MANY).await;
            // All that is linked goes, and nothing of it was acknowledged.
            for n in 0..FEW.links_max {
                if matches!(end, End::Deleted) {
                    let stream = address(&format!("events/{n}"));
                    world.log.delete(&stream, log::Delete::Stream).await.unwrap();
                }
            }
            world.pass(7).await;
            let seen = work_off(&world, &engine, "s").await;
            assert_eq!(seen.len(), MANY - FEW.links_max, "{end:?}");
        });
    }
}

#[test]
fn named_streams_do_not_keep_others_waiting_for_good() {
    simulate(|world| async move {
        let engine = world.open_within(FEW).await;
        world.create("wake").await;
        engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap();
        let named: Vec<_> = (0..FEW.links_max - 100).map(|n| path(&format!("named/{n}"))).collect();
        for streams in named.chunks(wake::caps::STREAMS_PER_REQUEST_MAX) {
            engine.link(&id("s"), streams.to_vec()).await.unwrap();
        }
        open_streams(&world, 0..1_000).await;
        assert_eq!(work_off(&world, &engine, "s").await.len(), 1_000);
    });
}

#[test]
fn a_link_that_a_client_gives_up_makes_room_for_a_stream_that_waits() {
    simulate(|world| async move {
        let engine = world.open_within(FEW).await;
        world.create("wake").await;
        engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap();
        let named: Vec<_> = (0..FEW.links_max).map(|n| path(&format!("named/{n}"))).collect();
        for streams in named.chunks(wake::caps::STREAMS_PER_REQUEST_MAX) {
            engine.link(&id("s"), streams.to_vec()).await.unwrap();
        }
        open_streams(&world, 0..3).await;
        let nothing = engine.claim(&id("s"), "one".to_owned()).await.unwrap_err();
        assert!(matches!(nothing, ClaimError::NoPendingWork(_)), "there is no room");
        engine.unlink(&id("s"), named[0].clone()).await.unwrap();
        assert_eq!(work_off(&world, &engine, "s").await.len(), 3);
    });
}
