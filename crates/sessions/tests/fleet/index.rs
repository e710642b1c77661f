//! The index of open work: what a start reads, and what becomes of a fleet that cannot read it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use agent::{Agent, rows::KeepChunks};
use log::{
    Answer, Append, AppendError, Appended, Chunk, Create, Delete, Layer, Log, MessagesDamaged,
    ReadError, Unavailable,
};
use parking_lot::Mutex;
use providers::scripted::{Order, Pace, Scripted, Turn};
use sessions::{Fleet, FleetSettings, SessionId};
use wire::{Address, Messages, Offset, ReadFrom, SystemPath};

use crate::support::{World, ids};

/// How the log fares with the streams of the index.
const WELL: u8 = 0;
const BUSY: u8 = 1;
const DAMAGED: u8 = 2;

/// A log that may be unable to read the index of open work, and tells what else was read.
#[derive(Debug)]
struct Ward {
    inner: Arc<dyn Log>,
    health: AtomicU8,
    reads: Mutex<BTreeSet<String>>,
}

impl Ward {
    fn before(world: &mut World) -> Arc<Self> {
        let inner = world.log.clone();
        let ward = Self { inner, health: AtomicU8::new(WELL), reads: Mutex::default() };
        let ward = Arc::new(ward);
        world.watched = ward.clone();
        ward
    }

    fn set(&self, health: u8) {
        self.health.store(health, Ordering::Relaxed);
    }

    fn trouble(&self, address: &Address) -> Option<Unavailable> {
        if !is_index(address) {
            return None;
        }
        match self.health.load(Ordering::Relaxed) {
            BUSY => Some(Unavailable::Overloaded),
            DAMAGED => {
                let (from, until) = (Offset::START, Offset::START);
                let stream = address.to_string();
                Some(Unavailable::Damaged(MessagesDamaged { stream, from, until }))
            }
            _ => None,
        }
    }

    /// What was read of sessions since this was asked last.
    fn take_reads(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.reads.lock())
    }
}

fn is_index(address: &Address) -> bool {
    address.to_string().contains("wake/open/")
}

impl Layer for Ward {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        match self.trouble(address) {
            Some(why) => Box::pin(std::future::ready(Err(why.into()))),
            None => self.inner.append(address, append),
        }
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        if address.to_string().contains("main/sessions/") {
            self.reads.lock().insert(address.to_string());
        }
        match self.trouble(address) {
            Some(why) => Box::pin(std::future::ready(Err(why.into()))),
            None => self.inner.read(address, from, bytes_max),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_that_cannot_be_read_for_good_stops_no_answer() {
    let mut world = World::new();
    let ward = Ward::before(&mut world);
    let sessions = ids(3);
    world.say(&sessions[0], "hello").await;
    let fleet = world.launch(FleetSettings::default(), 0);
    world.answered(&sessions[0], 1).await;
    world.rest(Duration::from_mins(5)).await;
    fleet.shutdown().await;

    ward.set(DAMAGED);
    world.say(&sessions[1], "hello").await;
    let fleet = world.launch(FleetSettings::default(), 0);
    let began = world.sys.clock.elapsed();
    world.answered(&sessions[1], 1).await;
    fleet.surveyed().await;
    world.say(&sessions[2], "hello").await;
    world.answered(&sessions[2], 1).await;
    let took = world.sys.clock.elapsed() - began;
    assert!(took < Duration::from_secs(5), "{took:?}");
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_moves_is_answered_while_the_index_cannot_be_read_and_all_else_after_that() {
    let mut world = World::new();
    let ward = Ward::before(&mut world);
    let sessions = ids(2);
    world.say(&sessions[0], "hello").await;
    ward.set(BUSY);
    let fleet = world.launch(FleetSettings::default(), 0);
    world.rest(Duration::from_secs(10)).await;
    let began = world.sys.clock.elapsed();
    world.say(&sessions[1], "hello").await;
    world.answered(&sessions[1], 1).await;
    let took = world.sys.clock.elapsed() - began;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(world.started(), 1, "of the other nothing can be known yet");
    ward.set(WELL);
    world.answered(&sessions[0], 1).await;
    fleet.surveyed().await;
    // Also what came to rest meanwhile is not read again by the next process.
    world.rest(Duration::from_mins(20)).await;
    fleet.shutdown().await;
    ward.take_reads();
    let fleet = world.launch(FleetSettings::default(), 0);
    fleet.surveyed().await;
    world.rest(Duration::from_mins(5)).await;
    assert_eq!(ward.take_reads(), BTreeSet::new());
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_waits_for_its_index_can_be_shut_down() {
    let mut world = World::new();
    let ward = Ward::before(&mut world);
    ward.set(BUSY);
    let fleet = world.launch(FleetSettings::default(), 0);
    world.rest(Duration::from_mins(1)).await;
    let began = world.sys.clock.elapsed();
    fleet.shutdown().await;
    assert_eq!(world.sys.clock.elapsed(), began);
}

#[tokio::test(start_paused = true)]
async fn a_start_reads_no_session_that_rests() {
    let mut world = World::new();
    let ward = Ward::before(&mut world);
    let sessions = ids(100);
    for session in &sessions {
        world.say(session, "hello").await;
    }
    let fleet = world.launch(FleetSettings::default(), 0);
    for session in &sessions {
        world.answered(session, 1).await;
    }
    world.rest(Duration::from_mins(5)).await;
    fleet.shutdown().await;

    ward.take_reads();
    let fleet = world.launch(FleetSettings::default(), 0);
    fleet.surveyed().await;
    world.rest(Duration::from_mins(5)).await;
    assert_eq!(ward.take_reads(), BTreeSet::new());
    fleet.shutdown().await;

    world.say(&sessions[42], "again").await;
    let fleet = world.launch(FleetSettings::default(), 0);
    world.answered(&sessions[42], 2).await;
    world.rest(Duration::from_mins(5)).await;
    let read = ward.take_reads();
    assert!(!read.is_empty(), "one has moved while no fleet was there");
    let moved = sessions[42].path().as_str();
    assert!(read.iter().all(|path| path.ends_with(moved)), "{read:?}");
    fleet.shutdown().await;
}

/// A fleet whose agents say much, in small pieces.
fn talkative(world: &World, keep_chunks: KeepChunks) -> Fleet {
    let sys = world.sys.clone();
    world.launch_of(FleetSettings { keep_chunks, ..FleetSettings::default() }, move |_| {
        let text = "a word and another one, ".repeat(100);
        let script = [Turn::new().text(text)].into_iter().collect();
        let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
        let model = model.pace(Pace::per_word(Duration::from_millis(20)));
        Agent::builder("assistant").model(Arc::new(model))
    })
}

#[tokio::test(start_paused = true)]
async fn chunks_that_were_kept_for_ever_are_dropped_once_the_setting_says_so() {
    let world = World::new();
    let session = &ids(1)[0];
    world.say(session, "hello").await;
    let fleet = talkative(&world, KeepChunks::Forever);
    world.answered(session, 1).await;
    world.rest(Duration::from_mins(5)).await;
    fleet.shutdown().await;
    let chunks = world.count_of(session, "chunk").await;
    assert!(chunks > 10, "{chunks} chunks");

    let fleet = talkative(&world, KeepChunks::UntilMessage);
    fleet.surveyed().await;
    world.rest(Duration::from_mins(5)).await;
    assert_eq!(world.count_of(session, "chunk").await, 0);
    assert_eq!(world.started(), 1, "there is nothing to answer");
    fleet.shutdown().await;
}

/// Whether the session has an index stream.
async fn has_index(world: &World, session: &SessionId) -> bool {
    let index: SystemPath = format!("session-index/{}", session.path()).parse().unwrap();
    world.log.head(&index.into()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn the_index_of_a_session_that_was_deleted_while_no_fleet_was_there_is_removed() {
    let world = World::new();
    let sessions = ids(3);
    for session in &sessions {
        world.say(session, "hello").await;
    }
    let fleet = talkative(&world, KeepChunks::Forever);
    for session in &sessions {
        world.answered(session, 1).await;
    }
    world.rest(Duration::from_mins(5)).await;
    for session in &sessions {
        assert!(has_index(&world, session).await, "{session} is large enough for one");
    }
    // Killed before it has heard of the deletion.
    world.kill(fleet);
    let [deleted, erased, left] = &sessions[..] else { panic!() };
    for (session, delete) in [(deleted, Delete::Stream), (erased, Delete::Erase)] {
        world.log.delete(&session.path().clone().into(), delete).await.unwrap();
    }
    assert!(has_index(&world, deleted).await, "no one has removed it");
    let fleet = talkative(&world, KeepChunks::Forever);
    fleet.surveyed().await;
    world.rest(Duration::from_mins(5)).await;
    let have = [deleted, erased, left].map(|session| has_index(&world, session));
    assert_eq!(futures_util::future::join_all(have).await, [false, false, true]);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_index_of_a_session_that_is_deleted_before_this_fleet_has_read_it_is_removed() {
    let world = World::new();
    let session = &ids(1)[0];
    world.say(session, "hello").await;
    let fleet = talkative(&world, KeepChunks::Forever);
    world.answered(session, 1).await;
    world.rest(Duration::from_mins(5)).await;
    fleet.shutdown().await;
    let fleet = talkative(&world, KeepChunks::Forever);
    fleet.surveyed().await;
    assert!(has_index(&world, session).await);
    world.log.delete(&session.path().clone().into(), Delete::Erase).await.unwrap();
    world.rest(Duration::from_millis(100)).await;
    assert!(!has_index(&world, session).await);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_ledger_of_indexes_is_bounded_by_sessions_that_are_there() {
    let world = World::new();
    let ledger: Address = "sessions/indexed".parse::<SystemPath>().unwrap().into();
    let json = Some("application/json".parse().unwrap());
    let create = Create { content_type: json, ..Create::default() };
    let _ = world.log.create(&ledger, create).await.unwrap();
    // Sessions that are gone, one that is there and is named often, and what makes no sense.
    let session = &ids(1)[0];
    world.say(session, "hello").await;
    let kept = format!("\"{}\"", session.path());
    for number in 0..3_000 {
        let gone = format!("\"main/sessions/gone-{number}\"");
        for line in [&*gone, &*kept, "7"] {
            let append = Append::messages(Messages::one(line.to_owned()).unwrap());
            let _ = world.log.append(&ledger, append).await.unwrap();
        }
    }
    let fleet = world.launch(FleetSettings::default(), 0);
    fleet.surveyed().await;
    world.rest(Duration::from_mins(10)).await;
    fleet.shutdown().await;
    let chunk = world.log.read(&ledger, ReadFrom::Start, usize::MAX).await.unwrap();
    assert_eq!(chunk.messages().collect::<Vec<_>>(), [kept.as_bytes()]);
}
