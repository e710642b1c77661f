//! One wake, from its claim to its end.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent::lifecycle::{
    Checkpoint, CheckpointError, ClaimRefused, Finish, Ran, RunError, Session, run_with_lifecycle,
};
use wake::Subscriptions as _;
use wire::Offset;

use crate::support::{LEASE, World, id, path, simulate};

/// Whether it was dropped before it was disarmed.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn checkpoint(stream: &str, offset: Offset) -> Checkpoint {
    Checkpoint { stream: path(stream), offset }
}

#[test]
fn work_that_is_done_is_acknowledged_and_not_called_for_again() {
    simulate(|world| async move {
        world.subscribe().await;
        let (a, b) = (world.append("events/a").await, world.append("events/b").await);
        let seen = |session: Session| async move {
            assert_eq!(session.streams().len(), 1, "as it was when the wake was made");
            Ok::<_, Infallible>(Finish::Done)
        };
        let ran = run_with_lifecycle(&world.sys, world.worker(), seen).await.unwrap();
        assert_eq!(ran, Ran { finish: Finish::Done, next_wake: true });
        assert_eq!((world.acked("events/a").await, world.acked("events/b").await), (Some(a), None));
        let ran = run_with_lifecycle(&world.sys, world.worker(), seen).await.unwrap();
        assert_eq!(ran, Ran { finish: Finish::Done, next_wake: false });
        assert_eq!(world.acked("events/b").await, Some(b));
        let idle = run_with_lifecycle(&world.sys, world.worker(), seen).await.unwrap_err();
        assert!(matches!(idle, RunError::NotClaimed(ClaimRefused::NoWork(_))));
    });
}

#[test]
fn what_is_left_comes_with_the_next_wake() {
    simulate(|world| async move {
        world.subscribe().await;
        let first = world.append("events/a").await;
        let tail = world.append("events/a").await;
        let half = |session: Session| async move {
            session.checkpoint(vec![checkpoint("events/a", first)]).await?;
            Ok::<_, CheckpointError>(Finish::More)
        };
        let ran = run_with_lifecycle(&world.sys, world.worker(), half).await.unwrap();
        assert_eq!(ran, Ran { finish: Finish::More, next_wake: true });
        assert_eq!(world.acked("events/a").await, Some(first));
        let rest = |session: Session| async move {
            assert_eq!(session.lease().generation, 2);
            assert_eq!(session.streams()[0].link.acked, Some(first));
            assert_eq!(session.streams()[0].tail, tail);
            Ok::<_, Infallible>(Finish::Done)
        };
        let ran = run_with_lifecycle(&world.sys, world.worker(), rest).await.unwrap();
        assert!(!ran.next_wake);
    });
}

#[test]
fn heartbeats_keep_long_work_alive() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let clock = world.sys.clock.clone();
        let long = |_| async move {
            clock.sleep(20 * LEASE).await;
            Ok::<_, Infallible>(Finish::Done)
        };
        let ran = run_with_lifecycle(&world.sys, world.worker(), long).await.unwrap();
        assert!(!ran.next_wake);
        assert!((60..70).contains(&world.reports()), "{} in 20 leases", world.reports());
        let after = world.reports();
        world.pass(3 * LEASE).await;
        assert_eq!(world.reports(), after, "a wake that is over is not kept");
    });
}

#[test]
fn a_report_that_hangs_is_sent_again_within_the_lease() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let clock = world.sys.clock.clone();
        let long = |_| async move {
            clock.sleep(3 * LEASE).await;
            Ok::<_, Infallible>(Finish::Done)
        };
        let running = run_with_lifecycle(&world.sys, world.worker(), long);
        let trouble = async {
            // The first heartbeat meets a connection that is dead; soon after all is well.
            world.pass(LEASE * 3 / 10).await;
            world.delay(1_000 * LEASE);
            world.pass(LEASE / 10).await;
            world.delay(Duration::ZERO);
        };
        let (ran, ()) = futures_util::future::join(running, trouble).await;
        assert!(ran.is_ok(), "{ran:?}");
    });
}

#[test]
fn work_that_says_nothing_new_all_the_time_is_kept_alive_too() {
    simulate(|world| async move {
        world.subscribe().await;
        let tail = world.append("events/a").await;
        let clock = world.sys.clock.clone();
        let work = |session: Session| async move {
            for _ in 0..3_000 {
                session.checkpoint(vec![checkpoint("events/a", tail)]).await?;
                clock.sleep(LEASE / 1_000).await;
            }
            Ok::<_, CheckpointError>(Finish::Done)
        };
        run_with_lifecycle(&world.sys, world.worker(), work).await.unwrap();
        assert!((10..15).contains(&world.reports()), "{} in 3 leases", world.reports());
    });
}

#[test]
fn a_wake_that_somebody_has_runs_nothing() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let _held = world.link.claim(&id("s"), "other".to_owned()).await.unwrap();
        let never = |_| async { panic!("it is not ours") };
        let refused = run_with_lifecycle::<_, _, Infallible>(&world.sys, world.worker(), never);
        let refused = refused.await.unwrap_err();
        let RunError::NotClaimed(ClaimRefused::Taken(fact)) = refused else {
            panic!("{refused}");
        };
        assert_eq!(fact.holder, "other");
    });
}

/// Runs work that ends by itself only after a day; how the run ended and after how long.
async fn lose(
    world: &World,
    spoil: impl AsyncFnOnce(Session),
) -> (Result<Ran, RunError<Infallible>>, Duration) {
    let (is_dropped, is_told) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (sent, received) = tokio::sync::oneshot::channel();
    let (guard, told) = (Dropped(is_dropped.clone()), is_told.clone());
    let sys = world.sys.clone();
    let work = move |session: Session| async move {
        let cancellation = session.cancellation();
        assert!(!cancellation.is_cancelled());
        sys.spawn.task("spawned work", async move {
            cancellation.cancelled().await;
            assert!(cancellation.is_cancelled());
            told.store(true, Ordering::Relaxed);
        });
        let _ = sent.send(session);
        sys.clock.sleep(Duration::from_hours(24)).await;
        drop(guard);
        Ok(Finish::Done)
    };
    let begun = world.sys.clock.elapsed();
    let run = run_with_lifecycle(&world.sys, world.worker(), work);
    let (ran, ()) = tokio::join!(
        async {
            let ran = run.await;
            (ran, world.sys.clock.elapsed() - begun)
        },
        async { spoil(received.await.unwrap()).await }
    );
    world.settle().await;
    assert!(is_dropped.load(Ordering::Relaxed), "the work is dropped");
    assert!(is_told.load(Ordering::Relaxed), "what it spawned is told");
    ran
}

#[test]
fn a_lost_lease_cancels_the_work() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let (ran, after) = lose(&world, async |session| {
            // The subscription is deleted, so whoever works on it is fenced.
            world.link.delete(&id("s")).await.unwrap();
            drop(session);
        })
        .await;
        assert!(matches!(ran, Err(RunError::Lost(_))));
        assert!(after <= LEASE / 3 + Duration::from_millis(10), "by the next heartbeat: {after:?}");
    });
}

#[test]
fn a_lease_that_may_be_over_is_lost_and_not_before() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let (ran, after) = lose(&world, async |session| {
            world.cut(true);
            world.pass(LEASE - Duration::from_secs(1)).await;
            assert!(!session.cancellation().is_cancelled(), "somebody may still answer");
        })
        .await;
        assert!(matches!(ran, Err(RunError::Lost(_))));
        assert!(after >= LEASE && after <= LEASE + Duration::from_millis(10), "{after:?}");
        world.cut(false);
        world.pass(Duration::from_secs(1)).await;
        let other = world.link.claim(&id("s"), "other".to_owned()).await.unwrap();
        assert_eq!(other.generation, 2);
    });
}

#[test]
fn a_lease_is_counted_from_when_it_was_asked_for() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        world.delay(LEASE / 3);
        let (ran, after) = lose(&world, async |_| world.cut(true)).await;
        assert!(matches!(ran, Err(RunError::Lost(_))));
        assert!(after >= LEASE && after <= LEASE + Duration::from_millis(10), "{after:?}");
    });
}

#[test]
fn a_server_that_never_answers_loses_its_runner() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let (ran, after) = lose(&world, async |_| world.delay(1000 * LEASE)).await;
        assert!(matches!(ran, Err(RunError::Lost(_))));
        assert!(after >= LEASE && after <= LEASE + Duration::from_millis(10), "{after:?}");
    });
}

#[test]
fn a_short_outage_is_survived() {
    simulate(|world| async move {
        world.subscribe().await;
        let tail = world.append("events/a").await;
        let (link, clock) = (world.link.clone(), world.sys.clock.clone());
        let work = |session: Session| async move {
            link.is_cut.store(true, Ordering::Relaxed);
            let (back, link) = (clock.sleep(LEASE / 2), link.clone());
            let checkpoint = session.checkpoint(vec![checkpoint("events/a", tail)]);
            let (made, ()) = tokio::join!(checkpoint, async {
                back.await;
                link.is_cut.store(false, Ordering::Relaxed);
            });
            made?;
            link.is_cut.store(true, Ordering::Relaxed);
            clock.sleep(LEASE * 2 / 3).await;
            link.is_cut.store(false, Ordering::Relaxed);
            clock.sleep(LEASE).await;
            session.heartbeat().await?;
            Ok::<_, CheckpointError>(Finish::Done)
        };
        let ran = run_with_lifecycle(&world.sys, world.worker(), work).await.unwrap();
        assert!(!ran.next_wake);
        assert_eq!(world.acked("events/a").await, Some(tail));
    });
}

#[test]
fn checkpoints_never_go_back() {
    simulate(|world| async move {
        world.subscribe().await;
        let first = world.append("events/a").await;
        let second = world.append("events/a").await;
        let other = world.append("events/b").await;
        let work = |session: Session| async move {
            let at = |offset| checkpoint("events/a", offset);
            session.checkpoint(vec![at(second)]).await?;
            let both = vec![checkpoint("events/b", other), at(first)];
            let refused = session.checkpoint(both).await.unwrap_err();
            let CheckpointError::Regression(fact) = refused else { panic!("{refused}") };
            assert_eq!((fact.last, fact.given), (second, first));
            session.checkpoint(vec![at(second)]).await?;
            session.checkpoint(Vec::new()).await?;
            let within = vec![checkpoint("events/b", other), checkpoint("events/b", Offset::START)];
            let refused = session.checkpoint(within).await.unwrap_err();
            assert!(matches!(refused, CheckpointError::Regression(_)));
            let beyond = session.checkpoint(vec![at(Offset::new(9, 9))]).await.unwrap_err();
            assert!(matches!(beyond, CheckpointError::Refused(_)));
            let many = vec![at(second); 1_001];
            assert!(matches!(session.checkpoint(many).await, Err(CheckpointError::TooMany)));
            Ok::<_, CheckpointError>(Finish::More)
        };
        run_with_lifecycle(&world.sys, world.worker(), work).await.unwrap();
        assert_eq!(world.acked("events/a").await, Some(second));
        assert_eq!(world.acked("events/b").await, None, "all of it or nothing");
    });
}

#[test]
fn work_that_fails_is_given_back_and_waits_longer_each_time() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let worker = world.worker();
        let mut waits = Vec::new();
        for generation in 1..=7 {
            let begun = world.sys.clock.elapsed();
            let fail = |session: Session| async move {
                assert_eq!(session.lease().generation, generation);
                Err::<Finish, _>("out of luck")
            };
            let failed = run_with_lifecycle(&world.sys, worker.clone(), fail).await.unwrap_err();
            assert!(matches!(failed, RunError::Work("out of luck")));
            waits.push((world.sys.clock.elapsed() - begun).as_secs());
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 10, 10]);
        let done = |_| async { Ok::<_, Infallible>(Finish::Done) };
        run_with_lifecycle(&world.sys, worker, done).await.unwrap();
    });
}

#[test]
fn work_that_failed_once_waits_as_if_once_however_long_nobody_hears_of_it() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let (worker, link) = (world.worker(), world.link.clone());
        let fail = |_| async move {
            link.is_cut.store(true, Ordering::Relaxed);
            Err::<Finish, _>("out of luck")
        };
        let (failed, ()) =
            tokio::join!(run_with_lifecycle(&world.sys, worker.clone(), fail), async {
                world.pass(LEASE / 3).await;
                world.cut(false);
            });
        assert!(matches!(failed, Err(RunError::Work(_))));
        let begun = world.sys.clock.elapsed();
        let fail = |_| async { Err::<Finish, _>("out of luck") };
        let failed = run_with_lifecycle(&world.sys, worker, fail).await;
        assert!(matches!(failed, Err(RunError::Work(_))));
        assert_eq!((world.sys.clock.elapsed() - begun).as_secs(), 1);
    });
}

#[test]
fn a_runner_that_is_dropped_gives_its_wake_back() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let forever = |_| std::future::pending::<Result<Finish, Infallible>>();
        let run = run_with_lifecycle(&world.sys, world.worker(), forever);
        assert!(world.sys.clock.timeout(LEASE * 2, run).await.is_err());
        world.settle().await;
        let next = world.link.claim(&id("s"), "other".to_owned()).await.unwrap();
        assert_eq!(next.generation, 2);
    });
}

#[test]
fn a_stream_that_is_not_followed_any_more_does_not_spoil_the_end() {
    simulate(|world| async move {
        world.subscribe().await;
        world.create("others/a").await;
        world.link.link(&id("s"), vec![path("others/a")]).await.unwrap();
        // Another worker has the first wake, so that the second lists both streams.
        world.append("events/a").await;
        let held = world.link.claim(&id("s"), "other".to_owned()).await.unwrap();
        let tail = world.append("events/b").await;
        world.append("others/a").await;
        let given_back = world.link.release(&id("s"), &held.token, held.wake_id.clone(), 1).await;
        given_back.unwrap();
        let link = world.link.clone();
        let work = |session: Session| async move {
            assert_eq!(session.streams().len(), 3);
            link.unlink(&id("s"), path("others/a")).await.unwrap();
            Ok::<_, Infallible>(Finish::Done)
        };
        let ran = run_with_lifecycle(&world.sys, world.worker(), work).await.unwrap();
        assert!(!ran.next_wake);
        assert_eq!(world.acked("events/b").await, Some(tail));
    });
}

#[test]
fn an_end_that_nobody_hears_is_not_taken_for_one() {
    simulate(|world| async move {
        world.subscribe().await;
        world.append("events/a").await;
        let link = world.link.clone();
        let work = |_| async move {
            link.is_cut.store(true, Ordering::Relaxed);
            Ok::<_, Infallible>(Finish::Done)
        };
        let ran = run_with_lifecycle(&world.sys, world.worker(), work).await;
        assert!(matches!(ran, Err(RunError::Unconfirmed)));
    });
}
