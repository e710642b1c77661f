//! Wakes that come by a webhook, without the HTTP.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use agent::lifecycle::{DeskSettings, Finish, Session, WakeAnswer, WebhookDesk};
use tokio::sync::Notify;
use wake::WakeNotice;

use crate::support::{LEASE, World, path, simulate};

/// A desk whose work counts its runs and ends when it is told to.
struct Bench {
    desk: Arc<WebhookDesk>,
    runs: Arc<AtomicU32>,
    go_on: Arc<Notify>,
}

impl Bench {
    fn new(world: &World, settings: DeskSettings) -> Self {
        let (runs, go_on) = (Arc::<AtomicU32>::default(), Arc::<Notify>::default());
        let (counted, told) = (runs.clone(), go_on.clone());
        let work = move |_: Session| {
            let (counted, told) = (counted.clone(), told.clone());
            async move {
                counted.fetch_add(1, Ordering::Relaxed);
                told.notified().await;
                Ok::<_, String>(Finish::Done)
            }
        };
        let desk = WebhookDesk::new(&world.sys, world.subscriptions(), settings, work);
        Self { desk, runs, go_on }
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Relaxed)
    }
}

fn answers(world: &World) -> Vec<WakeAnswer> {
    world.courier.answers.lock().clone()
}

/// The wakes that were sent so far.
fn notices(world: &World) -> Vec<WakeNotice> {
    let letters = world.courier.letters.lock();
    letters.iter().map(|letter| WakeNotice::parse(letter.body.as_bytes()).unwrap()).collect()
}

#[test]
fn a_request_bound_wake_is_answered_when_it_is_done() {
    simulate(|world| async move {
        let bench = Bench::new(&world, DeskSettings::request_bound(LEASE));
        world.subscribe_desk(&bench.desk).await;
        let tail = world.append("events/a").await;
        world.pass(LEASE / 2).await;
        assert_eq!((bench.runs(), answers(&world)), (1, vec![]));
        bench.go_on.notify_one();
        world.settle().await;
        assert_eq!(answers(&world), [WakeAnswer::Done]);
        assert_eq!(world.acked("events/a").await, Some(tail));
        world.pass(3 * LEASE).await;
        assert_eq!((bench.runs(), bench.desk.under_way()), (1, 0));
    });
}

#[test]
fn a_request_bound_wake_that_takes_long_goes_on_after_its_request() {
    simulate(|world| async move {
        let bench = Bench::new(&world, DeskSettings::request_bound(LEASE));
        world.subscribe_desk(&bench.desk).await;
        let tail = world.append("events/a").await;
        world.pass(5 * LEASE).await;
        assert_eq!(answers(&world), [WakeAnswer::Accepted]);
        bench.go_on.notify_one();
        world.settle().await;
        assert_eq!(world.acked("events/a").await, Some(tail));
        assert_eq!((bench.runs(), notices(&world).len()), (1, 1));
    });
}

#[test]
fn an_immediate_wake_is_answered_at_once_and_kept() {
    simulate(|world| async move {
        let bench = Bench::new(&world, DeskSettings::ack_immediate(LEASE));
        world.subscribe_desk(&bench.desk).await;
        let tail = world.append("events/a").await;
        assert_eq!(answers(&world), [WakeAnswer::Accepted]);
        world.pass(5 * LEASE).await;
        assert_eq!(bench.runs(), 1);
        bench.go_on.notify_one();
        world.settle().await;
        assert_eq!(world.acked("events/a").await, Some(tail));
        world.append("events/a").await;
        assert_eq!(notices(&world).len(), 2, "the next wake comes");
        assert_eq!(bench.runs(), 2);
    });
}

#[test]
fn a_desk_keeps_the_lease_that_the_wake_tells() {
    for settings in [DeskSettings::request_bound(LEASE), DeskSettings::ack_immediate(LEASE)] {
        simulate(|world| async move {
            let bench = Bench::new(&world, settings);
            let lease = Duration::from_secs(2);
            world.subscribe_desk_leased(&bench.desk, lease).await;
            let tail = world.append("events/a").await;
            world.pass(20 * lease).await;
            assert_eq!((bench.runs(), bench.desk.under_way()), (1, 1));
            assert_eq!(answers(&world), [WakeAnswer::Accepted], "before its caller hangs up");
            bench.go_on.notify_one();
            world.settle().await;
            assert_eq!(world.acked("events/a").await, Some(tail));
            assert_eq!(notices(&world).len(), 1);
        });
    }
}

#[test]
fn a_lease_that_nobody_tells_is_that_of_the_settings() {
    simulate(|world| async move {
        let bench = Bench::new(&world, DeskSettings::ack_immediate(LEASE / 10));
        world.subscribe_desk(&bench.desk).await;
        bench.go_on.notify_one();
        world.append("events/a").await;
        let untold = WakeNotice { lease: None, ..notices(&world).remove(0) };
        world.cut(true);
        assert_eq!(bench.desk.receive(untold).await, WakeAnswer::Accepted);
        world.pass(LEASE / 5).await;
        assert_eq!(bench.desk.under_way(), 0, "tried for as long as that lease, not longer");
    });
}

#[test]
fn a_wake_that_comes_twice_runs_once() {
    simulate(|world| async move {
        let bench = Bench::new(&world, DeskSettings::ack_immediate(LEASE));
        world.subscribe_desk(&bench.desk).await;
        world.append("events/a").await;
        let notice = notices(&world).remove(0);
        for _ in 0..3 {
            assert_eq!(bench.desk.receive(notice.clone()).await, WakeAnswer::Accepted);
        }
        world.settle().await;
        assert_eq!((bench.runs(), bench.desk.under_way()), (1, 1));
        bench.go_on.notify_one();
        world.settle().await;
        assert_eq!(bench.runs(), 1);
    });
}

#[test]
fn a_stale_wake_runs_nothing() {
    simulate(|world| async move {
        let bench = Bench::new(&world, DeskSettings::request_bound(LEASE));
        world.subscribe_desk(&bench.desk).await;
        bench.go_on.notify_one();
        world.append("events/a").await;
        let old = notices(&world).remove(0);
        let answer = bench.desk.receive(old.clone()).await;
        assert!(matches!(answer, WakeAnswer::Stale(_)), "{answer:?}");
        let forged = WakeNotice { callback_token: "v1.1.x".to_owned(), ..old };
        let answer = bench.desk.receive(forged).await;
        assert!(matches!(answer, WakeAnswer::Stale(_)), "{answer:?}");
        assert_eq!((bench.runs(), bench.desk.under_way()), (1, 0));
    });
}

#[test]
fn a_busy_desk_refuses_and_the_wake_comes_again() {
    simulate(|world| async move {
        let settings = DeskSettings { wakes_max: 1, ..DeskSettings::ack_immediate(LEASE) };
        let bench = Bench::new(&world, settings);
        world.subscribe_desk(&bench.desk).await;
        world.append("events/a").await;
        let other = WakeNotice { wake_id: "other".to_owned(), ..notices(&world).remove(0) };
        assert_eq!(bench.desk.receive(other).await, WakeAnswer::Busy);
        bench.go_on.notify_one();
        world.settle().await;

        world.cut(true);
        let (patience, settings) = (LEASE / 2, DeskSettings::request_bound(LEASE));
        let bench = Bench::new(&world, settings);
        let notice = notices(&world).remove(0);
        let answered = world.sys.clock.timeout(patience, bench.desk.receive(notice)).await;
        assert_eq!(answered, Ok(WakeAnswer::Busy), "nobody can be told");
        assert_eq!(bench.runs(), 0);
    });
}

#[test]
fn an_immediate_wake_that_cannot_be_claimed_yet_is_claimed_later() {
    simulate(|world| async move {
        let bench = Bench::new(&world, DeskSettings::ack_immediate(LEASE));
        world.subscribe_desk(&bench.desk).await;
        // The keys are known, then the way is cut.
        bench.go_on.notify_one();
        world.append("events/a").await;
        world.cut(true);
        world.append("events/a").await;
        world.pass(LEASE / 2).await;
        assert_eq!((answers(&world).len(), bench.runs()), (2, 1));
        world.cut(false);
        bench.go_on.notify_one();
        world.pass(LEASE / 10).await;
        assert_eq!((bench.runs(), bench.desk.under_way()), (2, 0));
        assert_eq!(notices(&world).len(), 2);
    });
}

#[test]
fn a_desk_that_closes_lets_work_end_and_refuses_more() {
    simulate(|world| async move {
        let bench = Bench::new(&world, DeskSettings::ack_immediate(LEASE));
        world.subscribe_desk(&bench.desk).await;
        let tail = world.append("events/a").await;
        let other = WakeNotice { wake_id: "other".to_owned(), ..notices(&world).remove(0) };
        tokio::join!(bench.desk.close(LEASE), async {
            world.pass(LEASE / 2).await;
            assert_eq!(bench.desk.receive(other).await, WakeAnswer::Busy);
            bench.go_on.notify_one();
        });
        assert_eq!((bench.runs(), bench.desk.under_way()), (1, 0));
        assert_eq!(world.acked("events/a").await, Some(tail));
    });
}

#[test]
fn a_desk_that_is_closed_has_given_its_wakes_back() {
    for settings in [DeskSettings::request_bound(LEASE), DeskSettings::ack_immediate(LEASE)] {
        simulate(|world| async move {
            let bench = Bench::new(&world, settings);
            world.subscribe_desk(&bench.desk).await;
            world.append("events/a").await;
            let begun = world.sys.clock.elapsed();
            bench.desk.close(LEASE / 10).await;
            let took = world.sys.clock.elapsed() - begun;
            assert!(took >= LEASE / 10 && took < LEASE / 5, "{took:?}");
            assert_eq!((bench.runs(), bench.desk.under_way()), (1, 0));
            world.settle().await;
            assert_eq!(notices(&world).len(), 2, "it is called for again, long before its lease");
            assert_eq!(bench.runs(), 1, "and not here");
        });
    }
}

#[test]
fn a_slow_session_holds_no_other_back() {
    simulate(|world| async move {
        let (runs, slow) = (Arc::<AtomicU32>::default(), path("events/slow"));
        let counted = runs.clone();
        let work = move |session: Session| {
            let is_slow = session.streams()[0].link.path == slow;
            counted.fetch_add(1, Ordering::Relaxed);
            async move {
                if is_slow { std::future::pending().await } else { Ok::<_, String>(Finish::Done) }
            }
        };
        let settings = DeskSettings::ack_immediate(LEASE);
        let desk = WebhookDesk::new(&world.sys, world.subscriptions(), settings, work);
        world.subscribe_desk_one_by_one(&desk).await;
        world.append("events/slow").await;
        for n in 1..=3 {
            let tail = world.append("events/quick").await;
            assert_eq!(world.acked("events/quick").await, Some(tail));
            assert_eq!((runs.load(Ordering::Relaxed), desk.under_way()), (n + 1, 1));
        }
        world.pass(10 * LEASE).await;
        assert_eq!((runs.load(Ordering::Relaxed), desk.under_way()), (4, 1), "and it is kept");
    });
}

#[test]
fn work_that_fails_or_panics_comes_again_with_a_new_wake() {
    simulate(|world| async move {
        let runs = Arc::<AtomicU32>::default();
        let counted = runs.clone();
        let work = move |session: Session| {
            let run = counted.fetch_add(1, Ordering::Relaxed) + 1;
            async move {
                assert_eq!(session.lease().generation, u64::from(run));
                match run {
                    1 => Err("out of luck"),
                    2 => panic!("expected"),
                    _ => Ok(Finish::Done),
                }
            }
        };
        let settings = DeskSettings::request_bound(LEASE);
        let desk = WebhookDesk::new(&world.sys, world.subscriptions(), settings, work);
        world.subscribe_desk(&desk).await;
        let tail = world.append("events/a").await;
        world.pass(Duration::from_secs(3)).await;
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        let told = answers(&world);
        let failed = |answer: &WakeAnswer| matches!(answer, WakeAnswer::Failed(_));
        assert_eq!(told.iter().filter(|answer| failed(answer)).count(), 2, "{told:?}");
        assert!(told.contains(&WakeAnswer::Done));
        let ids: std::collections::BTreeSet<_> =
            notices(&world).into_iter().map(|notice| notice.wake_id).collect();
        assert_eq!(ids.len(), 3);
        assert_eq!(world.acked("events/a").await, Some(tail));
        assert_eq!(desk.under_way(), 0);
    });
}
