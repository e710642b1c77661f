//! Wakes that are pulled, one after the other.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use agent::lifecycle::{
    BadWorker, ClaimRefused, FeedError, Finish, FollowError, PullWakeLifecycle, WakeFeed,
    follow_wakes, follow_wakes_until, run_wakes,
};
use log::{Append, ReadError};
use parking_lot::Mutex;
use wake::Subscriptions as _;
use wire::{Address, Messages};

use crate::support::{LEASE, id, path, simulate};

#[test]
fn the_next_wake_is_followed_until_there_is_none() {
    simulate(|world| async move {
        world.subscribe().await;
        // The first wake lists one stream, what comes while it is worked on is for the next.
        let streams = ["events/a", "events/b", "events/c"];
        world.append(streams[0]).await;
        let turn = AtomicU32::new(0);
        let (world, turn) = (&world, &turn);
        let work = |_| async move {
            let turn = turn.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(stream) = streams.get(turn as usize) {
                world.append(stream).await;
            }
            Ok::<_, Infallible>(Finish::Done)
        };
        let worker = world.worker();
        assert_eq!(run_wakes(&world.sys, &worker, 2, work).await.unwrap(), 2, "as many as it may");
        assert_eq!(run_wakes(&world.sys, &worker, 10, work).await.unwrap(), 1);
        assert_eq!(run_wakes(&world.sys, &worker, 10, work).await.unwrap(), 0);
        assert_eq!(turn.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn a_feed_wakes_its_worker_and_nothing_falls_between() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let mut feed = WakeFeed::open(world.log.clone(), path("wake")).await.unwrap();
        let worker = world.worker();
        let done = |_| async { Ok::<_, Infallible>(Finish::Done) };
        assert_eq!(run_wakes(&world.sys, &worker, 10, done).await.unwrap(), 1, "it was there");
        assert!(world.sys.clock.timeout(LEASE, feed.next()).await.is_err(), "there is no other");

        for stranger in ["1", r#"{"type":"hello"}"#] {
            let append = Append::messages(Messages::one(stranger).unwrap());
            let _ = world.log.append(&Address::from(path("wake")), append).await.unwrap();
        }
        world.append("events/a").await;
        let announced = feed.next().await.unwrap();
        assert_eq!((announced.subscription, announced.generation), (id("s"), 2));
        assert_eq!(run_wakes(&world.sys, &worker, 10, done).await.unwrap(), 1);
    });
}

#[test]
fn a_worker_that_falls_silent_is_followed_by_another() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let mut feed = WakeFeed::open(world.log.clone(), path("wake")).await.unwrap();
        let _silent = world.link.claim(&id("s"), "silent".to_owned()).await.unwrap();
        let worker = world.worker();
        let done = |_| async { Ok::<_, Infallible>(Finish::Done) };
        assert_eq!(run_wakes(&world.sys, &worker, 10, done).await.unwrap(), 0, "it is taken");
        let announced = feed.next().await.unwrap();
        assert_eq!(announced.generation, 2);
        assert_eq!(run_wakes(&world.sys, &worker, 10, done).await.unwrap(), 1);
    });
}

#[test]
fn a_worker_goes_on_after_failures_and_outages_until_its_subscription_is_gone() {
    simulate(|world| async move {
        world.subscribe().await;
        let mut feed = WakeFeed::open(world.log.clone(), path("wake")).await.unwrap();
        let (runs, worker) = (Arc::new(AtomicU32::new(0)), world.worker());
        let (counted, sys) = (runs.clone(), world.sys.clone());
        let stopped = Arc::new(Mutex::new(None));
        let told = stopped.clone();
        world.sys.spawn.task("worker", async move {
            let work = |_| {
                let run = counted.fetch_add(1, Ordering::Relaxed) + 1;
                async move { if run == 2 { Err("out of luck") } else { Ok(Finish::Done) } }
            };
            let Err(why) = follow_wakes(&sys, &worker, &mut feed, work).await;
            *told.lock() = Some(why);
        });
        let runs = || runs.load(Ordering::Relaxed);
        let tail = world.append("events/a").await;
        assert_eq!((runs(), world.acked("events/a").await), (1, Some(tail)));
        let tail = world.append("events/a").await;
        assert_eq!((runs(), world.acked("events/a").await), (3, Some(tail)), "once in vain");

        world.cut(true);
        world.append("events/a").await;
        world.pass(3 * LEASE).await;
        assert_eq!(runs(), 3);
        world.cut(false);
        world.pass(LEASE).await;
        assert_eq!(runs(), 4);

        world.link.delete(&id("s")).await.unwrap();
        assert!(stopped.lock().is_none());
        world.pass(Duration::from_mins(1)).await;
        let why = stopped.lock().clone().unwrap();
        assert!(matches!(why, FollowError::Claim(ClaimRefused::NotFound(_))), "{why}");
    });
}

#[test]
fn a_worker_stops_where_waiting_does_not_help() {
    simulate(|world| async move {
        world.subscribe().await;
        let mut feed = WakeFeed::open(world.log.clone(), path("wake")).await.unwrap();
        let worker = world.worker();
        let done = |_| async { Ok::<_, Infallible>(Finish::Done) };
        world.link.is_denied.store(true, Ordering::Relaxed);
        let follow = follow_wakes(&world.sys, &worker, &mut feed, done);
        let Err(why) = world.sys.clock.timeout(LEASE, follow).await.unwrap();
        assert!(matches!(why, FollowError::Claim(ClaimRefused::Unavailable(_))), "{why}");

        world.link.is_denied.store(false, Ordering::Relaxed);
        let _ = world.log.close(&Address::from(path("wake"))).await.unwrap();
        let follow = follow_wakes(&world.sys, &worker, &mut feed, done);
        let Err(why) = world.sys.clock.timeout(LEASE, follow).await.unwrap();
        assert!(matches!(why, FollowError::Feed(FeedError::Closed)), "{why}");
    });
}

#[test]
fn a_worker_that_waits_asks_now_and_then_and_not_all_the_time() {
    simulate(|world| async move {
        world.subscribe().await;
        let mut feed = WakeFeed::open(world.log.clone(), path("wake")).await.unwrap();
        let worker = world.worker();
        let done = |_| async { Ok::<_, Infallible>(Finish::Done) };
        let follow = follow_wakes(&world.sys, &worker, &mut feed, done);
        assert!(world.sys.clock.timeout(Duration::from_mins(60), follow).await.is_err());
        let claims = world.link.claims.load(Ordering::Relaxed);
        assert!((80..=240).contains(&claims), "{claims} in an hour");
    });
}

#[test]
fn a_worker_that_is_stopped_has_given_its_wake_back() {
    simulate(|world| async move {
        world.subscribe().await;
        let mut feed = WakeFeed::open(world.log.clone(), path("wake")).await.unwrap();
        world.append("events/a").await;
        let (worker, begun) = (world.worker(), world.sys.clock.elapsed());
        let forever = |_| std::future::pending::<Result<Finish, Infallible>>();
        let (stop, grace) = (world.pass(LEASE / 2), LEASE / 6);
        let followed =
            follow_wakes_until(&world.sys, &worker, &mut feed, forever, stop, grace).await;
        followed.unwrap();
        let took = world.sys.clock.elapsed() - begun;
        assert!(took >= LEASE * 2 / 3 && took < LEASE, "{took:?}");
        let next = world.link.claim(&id("s"), "other".to_owned()).await.unwrap();
        assert_eq!(next.generation, 2, "at once: nothing is left to do when it returns");
    });
}

#[test]
fn a_worker_that_is_stopped_ends_its_work_in_the_time_it_has_and_takes_no_more() {
    simulate(|world| async move {
        world.subscribe().await;
        let mut feed = WakeFeed::open(world.log.clone(), path("wake")).await.unwrap();
        let tail = world.append("events/a").await;
        world.append("events/b").await;
        let (worker, world) = (world.worker(), &world);
        let slow = |_| async move {
            world.pass(LEASE).await;
            Ok::<_, Infallible>(Finish::Done)
        };
        let stop = world.pass(LEASE / 2);
        let followed = follow_wakes_until(&world.sys, &worker, &mut feed, slow, stop, LEASE).await;
        followed.unwrap();
        assert_eq!(world.acked("events/a").await, Some(tail));
        assert_eq!(world.acked("events/b").await, None, "that is for others");
        assert_eq!(world.link.claims.load(Ordering::Relaxed), 1);

        let begun = world.sys.clock.elapsed();
        let idle = follow_wakes_until(&world.sys, &worker, &mut feed, slow, async {}, LEASE);
        idle.await.unwrap();
        assert_eq!(world.sys.clock.elapsed(), begun, "who has no work need not wait");
    });
}

#[test]
fn a_feed_says_when_there_is_nothing_to_wait_for() {
    simulate(|world| async move {
        assert!(WakeFeed::open(world.log.clone(), path("wake")).await.is_err());
        world.subscribe().await;
        let mut feed = WakeFeed::open(world.log.clone(), path("wake")).await.unwrap();
        world.append("events/a").await;
        let _ = world.log.close(&Address::from(path("wake"))).await.unwrap();
        assert_eq!(feed.next().await.unwrap().generation, 1, "what was announced is told");
        assert!(matches!(feed.next().await, Err(FeedError::Closed)));
        let delete = log::Delete::default();
        world.log.delete(&Address::from(path("wake")), delete).await.unwrap();
        assert!(matches!(feed.next().await, Err(FeedError::Read(ReadError::NotFound(_)))));
    });
}

#[test]
fn a_worker_has_a_name() {
    simulate(|world| async move {
        for name in ["", &"x".repeat(257)] {
            let made = PullWakeLifecycle::new(world.subscriptions(), id("s"), name);
            assert_eq!(made.unwrap_err(), BadWorker);
        }
    });
}
