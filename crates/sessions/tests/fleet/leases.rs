//! Two supervisors on one log.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agent::{Agent, Home, caps::LEASE_DEFAULT, rows::GenerationStatus};
use providers::scripted::{Order, Pace, Scripted, Turn};
use sessions::{Fleet, FleetSettings, SessionId};

use crate::support::{World, ids};

/// A death is seen within two leases; then the answer is begun anew.
const TAKEOVER_MAX: Duration =
    LEASE_DEFAULT.saturating_mul(2).saturating_add(Duration::from_secs(5));

/// A fleet whose model takes its time over each word.
fn slow(world: &World) -> Fleet {
    slow_at(world, None)
}

fn slow_at(world: &World, home: Option<Home>) -> Fleet {
    let sys = world.sys.clone();
    world.launch_of(FleetSettings { home, ..FleetSettings::default() }, move |_| {
        let turns = (0..3).map(|_| Turn::new().text("word ".repeat(20)));
        let script = turns.collect();
        let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
        let model = model.pace(Pace::per_word(Duration::from_millis(100)));
        Agent::builder("assistant").model(Arc::new(model))
    })
}

#[tokio::test(start_paused = true)]
async fn two_supervisors_on_one_log_share_the_work_and_take_nothing_from_each_other() {
    let world = World::new();
    let sessions = ids(24);
    let fleets = [slow(&world), slow(&world)];
    for round in 1..=3 {
        for session in &sessions {
            world.say(session, "talk").await;
        }
        for session in &sessions {
            world.over(session, round).await;
        }
    }
    let mut failed = 0;
    let mut takeovers = 0;
    let mut shares = BTreeMap::<String, usize>::new();
    for session in &sessions {
        for supervisor in world.supervisors(session).await {
            *shares.entry(supervisor).or_default() += 1;
        }
        let ended = world.generations(session).await;
        failed += ended.iter().filter(|row| row.status != GenerationStatus::Completed).count();
        takeovers += world.takeovers(session).await;
    }
    assert_eq!((failed, takeovers), (0, 0), "of 72 messages");
    // Agents that are kept for the next message stay where they are, so there may be few claims.
    let claims = shares.values().sum::<usize>();
    assert_eq!(shares.len(), 2, "{shares:?}");
    assert!(shares.values().all(|share| share * 3 >= claims), "a third each: {shares:?}");
    for fleet in fleets {
        fleet.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_has_all_the_work_it_may_leaves_the_rest_to_another() {
    let world = World::new();
    let sessions = ids(24);
    let launch = |running_max| {
        let sys = world.sys.clone();
        let settings = FleetSettings { running_max, ..FleetSettings::default() };
        world.launch_of(settings, move |_| {
            let script = [Turn::new().pause_ms(10_000).text("Hi.")].into_iter().collect();
            let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
            Agent::builder("assistant").model(Arc::new(model))
        })
    };
    let began = world.sys.clock.elapsed();
    let fleets = [launch(4), launch(8)];
    for session in &sessions {
        world.say(session, "talk").await;
    }
    world.over_all(&sessions).await;
    let took = world.sys.clock.elapsed() - began;
    assert!(took < Duration::from_secs(25), "two rounds of 12 took {took:?}");
    assert_eq!(ends(&world, &sessions).await, (24, 0, 0));
    for fleet in fleets {
        fleet.shutdown().await;
    }
}

/// How generations have ended, and how many runners were taken over.
async fn ends(world: &World, sessions: &[SessionId]) -> (usize, usize, usize) {
    let (mut completed, mut others, mut takeovers) = (0, 0, 0);
    for session in sessions {
        let ended = world.generations(session).await;
        let is_well = |status| status == GenerationStatus::Completed;
        completed += ended.iter().filter(|row| is_well(row.status)).count();
        others += ended.iter().filter(|row| !is_well(row.status)).count();
        takeovers += world.takeovers(session).await;
    }
    (completed, others, takeovers)
}

#[tokio::test(start_paused = true)]
async fn a_rolling_deploy_fails_nothing_and_hands_over_at_once() {
    let world = World::new();
    let sessions = ids(12);
    let mut old = slow(&world);
    for session in &sessions {
        world.say(session, "talk").await;
    }
    for _ in 0..6 {
        // In the midst of all answers.
        world.rest(Duration::from_secs(1)).await;
        let new = slow(&world);
        world.rest(Duration::from_millis(100)).await;
        old.shutdown().await;
        old = new;
    }
    let began = world.sys.clock.elapsed();
    for session in &sessions {
        world.over(session, 1).await;
    }
    let took = world.sys.clock.elapsed() - began;
    assert!(took < Duration::from_secs(4), "two seconds of talk took {took:?}");
    assert_eq!(ends(&world, &sessions).await, (12, 0, 0));
    old.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_supervisor_has_left_goes_on_elsewhere_within_two_leases() {
    let world = World::new();
    let sessions = ids(8);
    let (first, second) = (slow(&world), slow(&world));
    for session in &sessions {
        world.say(session, "talk").await;
    }
    world.rest(Duration::from_secs(1)).await;
    world.kill(first);
    let began = world.sys.clock.elapsed();
    for session in &sessions {
        world.over(session, 1).await;
    }
    let took = world.sys.clock.elapsed() - began;
    assert!(took < TAKEOVER_MAX, "{took:?}");
    let (completed, others, takeovers) = ends(&world, &sessions).await;
    assert_eq!((completed, others), (8, 0));
    assert!(takeovers <= sessions.len(), "each agent died once: {takeovers}");
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_process_that_has_the_log_for_itself_goes_on_at_once() {
    let world = World::new();
    let sessions = ids(8);
    let first = slow_at(&world, Some(Home::draw(&world.sys.chance)));
    for session in &sessions {
        world.say(session, "talk").await;
    }
    world.rest(Duration::from_secs(1)).await;
    world.kill(first);
    let began = world.sys.clock.elapsed();
    let second = slow_at(&world, Some(Home::draw(&world.sys.chance)));
    for session in &sessions {
        world.over(session, 1).await;
    }
    let took = world.sys.clock.elapsed() - began;
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(ends(&world, &sessions).await, (8, 0, 8));
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_works_in_silence_keeps_its_lease() {
    let world = World::new();
    let session = &ids(1)[0];
    let launch = || {
        let sys = world.sys.clone();
        world.launch_of(FleetSettings::default(), move |_| {
            let script = [Turn::new().pause_ms(200_000).text("Hm.")].into_iter().collect();
            let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
            Agent::builder("assistant").model(Arc::new(model))
        })
    };
    let (first, second) = (launch(), launch());
    world.say(session, "think").await;
    world.over(session, 1).await;
    assert_eq!(ends(&world, std::slice::from_ref(session)).await, (1, 0, 0));
    assert_eq!(world.claims(session).await, 1);
    let beats = world.count_of(session, "runner").await;
    assert!((25..40).contains(&beats), "{beats} rows of a runner in 200 s");
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_waits_for_days_writes_nothing_and_is_not_taken_over() {
    let world = Arc::new(World::new());
    let session = &ids(1)[0];
    let launch = || {
        let inner = world.clone();
        let build = move |_: &SessionId| inner.measuring(Duration::from_hours(240));
        world.launch_of(FleetSettings::default(), build)
    };
    let (first, second) = (launch(), launch());
    world.say(session, "hello").await;
    world.asked(session).await;
    world.rest(Duration::from_hours(72)).await;
    let rows = world.count_of(session, "runner").await;
    assert!(rows <= 4, "{rows} rows of a runner in three days");
    assert_eq!(world.claims(session).await, 1);
    let began = world.sys.clock.elapsed();
    world.measure(session).await;
    world.answered(session, 1).await;
    let took = world.sys.clock.elapsed() - began;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(world.takeovers(session).await, 0);
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_supervisor_waited_for_is_answered_elsewhere() {
    let world = Arc::new(World::new());
    let session = &ids(1)[0];
    let launch = || {
        let inner = world.clone();
        let build = move |_: &SessionId| inner.measuring(Duration::from_hours(240));
        world.launch_of(FleetSettings::default(), build)
    };
    let first = launch();
    world.say(session, "hello").await;
    world.asked(session).await;
    world.rest(Duration::from_mins(1)).await;
    world.kill(first);
    let second = launch();
    world.rest(Duration::from_hours(2)).await;
    assert_eq!(world.started(), 1, "there is nothing to do before somebody has measured");
    let began = world.sys.clock.elapsed();
    world.measure(session).await;
    world.answered(session, 1).await;
    let took = world.sys.clock.elapsed() - began;
    assert!(took < TAKEOVER_MAX, "{took:?}");
    second.shutdown().await;
}
