//! Who is started, and who is left alone.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use agent::{Agent, rows::Message};
use futures_util::FutureExt as _;
use log::{Answer, Append, Chunk, Layer, Log, ReadError};
use parking_lot::Mutex;
use providers::scripted::Scripted;
use sessions::{FleetSettings, SessionId};
use wire::{Address, Messages, ReadFrom};

use crate::support::{World, ids};

#[tokio::test(start_paused = true)]
async fn what_waits_and_what_comes_is_answered_by_few_at_a_time() {
    let world = World::new();
    let sessions = ids(5);
    for session in &sessions {
        world.say(session, "hello").await;
    }
    let idle_max = Duration::from_secs(1);
    let settings = FleetSettings { running_max: 2, idle_max, ..FleetSettings::default() };
    let fleet = world.launch(settings, 0);
    for session in &sessions {
        world.answered(session, 1).await;
    }
    // Long after all of them were ended.
    world.sys.clock.sleep(Duration::from_secs(60)).await;
    let before = world.started.load(Ordering::Relaxed);
    assert_eq!(before, 5, "what an agent writes itself starts none");
    world.say(&sessions[3], "again").await;
    world.answered(&sessions[3], 2).await;
    assert_eq!(world.started.load(Ordering::Relaxed), before + 1);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_fails_is_started_again_later() {
    let world = World::new();
    let session = &ids(1)[0];
    let fleet = world.launch(FleetSettings::default(), 3);
    world.say(session, "hello").await;
    let began = world.sys.clock.elapsed();
    world.answered(session, 1).await;
    let took = world.sys.clock.elapsed() - began;
    assert!(took >= Duration::from_secs(1 + 2 + 4), "{took:?}");
    assert_eq!(world.started.load(Ordering::Relaxed), 4);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_done_is_left_alone() {
    let world = World::new();
    let session = &ids(1)[0];
    world.say(session, "hello").await;
    let fleet = world.launch(FleetSettings::default(), 0);
    world.answered(session, 1).await;
    fleet.shutdown().await;
    let fleet = world.launch(FleetSettings::default(), 0);
    world.sys.clock.sleep(Duration::from_secs(60)).await;
    fleet.shutdown().await;
    assert_eq!(world.started.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn agents_that_only_wait_for_others_take_no_turn() {
    let world = Arc::new(World::new());
    let sessions = ids(4);
    for session in &sessions {
        world.say(session, "hello").await;
    }
    let settings = FleetSettings { running_max: 1, ..FleetSettings::default() };
    let (inner, last) = (world.clone(), sessions[3].clone());
    let fleet = world.launch_of(settings, move |session| match *session == last {
        true => Agent::builder("assistant").model(Arc::new(Scripted::demo(inner.sys.clone()))),
        false => inner.measuring(Duration::from_hours(24)),
    });
    world.answered(&sessions[3], 1).await;
    for session in &sessions[..3] {
        world.asked(session).await;
    }
    world.rest(Duration::from_hours(1)).await;
    assert_eq!(world.started(), 4, "those that wait are not started again");
    for session in &sessions[..3] {
        world.measure(session).await;
        world.answered(session, 1).await;
    }
    assert_eq!(world.started(), 4);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn of_too_many_that_wait_the_first_makes_room_and_goes_on_when_its_session_moves() {
    let world = Arc::new(World::new());
    let sessions = ids(3);
    let settings = FleetSettings { running_max: 1, waiting_max: 2, ..FleetSettings::default() };
    let inner = world.clone();
    let build = move |_: &SessionId| inner.measuring(Duration::from_hours(24));
    let fleet = world.launch_of(settings, build);
    for session in &sessions {
        world.say(session, "hello").await;
        world.asked(session).await;
    }
    world.rest(Duration::from_mins(5)).await;
    assert_eq!(world.started(), 3, "what it writes itself does not start it again");
    // The first has made room; the second still waits.
    world.measure(&sessions[1]).await;
    world.answered(&sessions[1], 1).await;
    assert_eq!(world.started(), 3);
    world.measure(&sessions[0]).await;
    world.answered(&sessions[0], 1).await;
    assert_eq!(world.started(), 4);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_made_room_goes_on_when_its_time_is_over() {
    let world = Arc::new(World::new());
    let session = &ids(1)[0];
    let settings = FleetSettings { running_max: 1, waiting_max: 0, ..FleetSettings::default() };
    let inner = world.clone();
    let build = move |_: &SessionId| inner.measuring(Duration::from_mins(3));
    let fleet = world.launch_of(settings, build);
    world.say(session, "hello").await;
    let began = world.sys.clock.elapsed();
    // The model is told that nobody has measured.
    world.answered(session, 1).await;
    let took = world.sys.clock.elapsed() - began;
    assert!((Duration::from_mins(3)..Duration::from_mins(4)).contains(&took), "{took:?}");
    assert_eq!(world.started(), 2);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_deleted_before_anybody_read_it_starts_no_agent() {
    let world = World::new();
    let session = &ids(1)[0];
    world.say(session, "never mind").await;
    let messages = world.open(session).await.rows::<Message>().unwrap();
    let id = messages.rows()[0].id.clone();
    messages.delete(id.as_str()).unwrap().settled().await.unwrap();
    let fleet = world.launch(FleetSettings::default(), 0);
    world.rest(Duration::from_hours(1)).await;
    assert_eq!(world.started(), 0);
    world.say(session, "hello").await;
    world.answered(session, 1).await;
    assert_eq!(world.started(), 1);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_finds_nothing_to_do_is_left_alone_for_longer_each_time() {
    let world = World::new();
    let session = &ids(1)[0];
    world.say(session, "hello").await;
    let sys = world.sys.clone();
    // It never reads what is said to the other.
    let fleet = world.launch_of(FleetSettings::default(), move |_| {
        Agent::builder("somebody-else").model(Arc::new(Scripted::demo(sys.clone())))
    });
    world.rest(Duration::from_mins(9)).await;
    assert_eq!(world.started(), 1);
    world.rest(Duration::from_hours(24)).await;
    assert!((4..=9).contains(&world.started()), "{} in a day", world.started());
    let before = world.started();
    world.say(session, "are you there?").await;
    world.rest(Duration::from_secs(1)).await;
    assert_eq!(world.started(), before + 1, "what moves is looked at");
    fleet.shutdown().await;
}

/// Counts reads of each stream.
#[derive(Debug)]
struct Counting {
    inner: Arc<dyn Log>,
    reads: Mutex<BTreeMap<String, usize>>,
}

impl Layer for Counting {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        *self.reads.lock().entry(address.to_string()).or_default() += 1;
        self.inner.read(address, from, bytes_max)
    }
}

#[tokio::test(start_paused = true)]
async fn after_lost_hints_only_sessions_that_have_moved_are_read() {
    let mut world = World::new();
    let counting = Arc::new(Counting { inner: world.log.clone(), reads: Mutex::default() });
    world.watched = counting.clone();
    let sessions = ids(300);
    for session in &sessions {
        world.say(session, "hello").await;
    }
    let fleet = world.launch(FleetSettings::default(), 0);
    for session in &sessions {
        world.answered(session, 1).await;
    }
    world.rest(Duration::from_mins(5)).await;
    counting.reads.lock().clear();
    // More hints than a watcher may lag behind; it is not asked meanwhile.
    let address = Address::from(sessions[0].path().clone());
    let line = r#"{"type":"note","key":"n","value":{},"headers":{"operation":"upsert"}}"#;
    let appends = (0..3_000).map(|_| {
        let note = Append::messages(Messages::one(line).unwrap());
        world.log.append(&address, note)
    });
    for appended in appends.map(|append| append.now_or_never().unwrap()) {
        let _ = appended.unwrap();
    }
    world.say(&sessions[299], "again").await;
    world.answered(&sessions[299], 2).await;
    world.rest(Duration::from_mins(5)).await;
    let read: Vec<_> = counting.reads.lock().keys().cloned().collect();
    let moved = [&sessions[0], &sessions[299]].map(|session| session.path().to_string());
    assert_eq!(read, moved);
    fleet.shutdown().await;
}
