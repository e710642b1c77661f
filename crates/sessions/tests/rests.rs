//! A session that rests: it keeps what was said, and lets go of how it came to be said.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agent::{
    Agent, Lease,
    rows::{self, Chunk, Generation, GenerationStatus, KeepChunks, Message},
};
use live::StreamDb;
use log::{Log, MemoryLog};
use providers::scripted::{Order, Scripted, Turn};
use sessions::{Actions, Deed, Fleet, FleetSettings, Say, SessionId};
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wire::Address;

struct World {
    sys: Sys,
    log: Arc<dyn Log>,
    actions: Actions,
    session: SessionId,
}

impl World {
    async fn new() -> Self {
        let disk = SimDisk::new(1, SimFaults::default());
        let sys = Sys::simulated(1, disk, UnixMs::new(1_000_000_000_000));
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let actions = Actions::for_agent(&sys, log.clone(), "assistant");
        let session = "demo".parse().unwrap();
        let _ = actions.create(&session).await.unwrap();
        Self { sys, log, actions, session }
    }

    fn launch(&self, keep_chunks: KeepChunks) -> Fleet {
        self.launch_saying(keep_chunks, |_| 40)
    }

    /// With an agent whose answers have so many pieces, first to last.
    fn launch_saying(&self, keep_chunks: KeepChunks, pieces: fn(usize) -> usize) -> Fleet {
        let (sys, log) = (self.sys.clone(), self.log.clone());
        let start = move |session: SessionId, lease: Lease| {
            let (sys, log) = (sys.clone(), log.clone());
            async move {
                let text = |number| "a word and another one, ".repeat(pieces(number));
                let script = (0..99).map(|number| Turn::new().text(text(number))).collect();
                let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
                let model =
                    model.pace(providers::scripted::Pace::per_word(Duration::from_millis(20)));
                let agent = Agent::builder("assistant").model(Arc::new(model)).lease(lease);
                agent.session(log, session.path().clone()).start(&sys).await
            }
        };
        let settings = FleetSettings { keep_chunks, ..FleetSettings::default() };
        Fleet::launch(&self.sys, self.actions.sessions(), "assistant", settings, start).unwrap()
    }

    fn address(&self) -> Address {
        self.session.path().clone().into()
    }

    async fn db(&self) -> StreamDb {
        let db = StreamDb::builder(self.log.clone(), self.address(), &self.sys);
        let db = rows::session(db).with::<Chunk>().open().unwrap();
        db.ready().await.unwrap();
        db
    }

    async fn ask(&self, id: &str) {
        self.actions.act(&self.session, "ada", Deed::Say(Say::named(id, "Well?"))).await.unwrap();
    }

    async fn answered(&self, count: usize) {
        let db = self.db().await;
        let generations = db.rows::<Generation>().unwrap();
        let mut changes = generations.changes().unwrap();
        let is_done = |row: &live::RowRef<Generation>| row.status == GenerationStatus::Completed;
        while generations.rows().iter().filter(|row| is_done(row)).count() < count {
            changes.next().await;
        }
    }

    async fn bytes(&self) -> u64 {
        let head = self.log.head(&self.address()).await.unwrap();
        head.tail.byte.get() - head.earliest.byte.get()
    }

    /// Waits until the session has rested, and its stream does not change any more.
    async fn rested(&self) {
        self.sys.clock.sleep(Duration::from_secs(120)).await;
    }
}

/// What a database shows: messages by their positions, and how many chunks there are.
fn shown(db: &StreamDb) -> (BTreeMap<u64, String>, usize) {
    let messages = db.rows::<Message>().unwrap().rows();
    let place = |row: &live::RowRef<Message>| row.meta().position.unwrap();
    let messages = messages.iter().map(|row| (place(row), row.content.clone())).collect();
    (messages, db.rows::<Chunk>().unwrap().rows().len())
}

#[tokio::test(start_paused = true)]
async fn a_session_that_rests_lets_go_of_chunks_and_of_nothing_else() {
    let world = World::new().await;
    let watching = world.db().await;
    let fleet = world.launch(KeepChunks::UntilMessage);
    for number in 0..3 {
        world.ask(&format!("m{number}")).await;
        world.answered(number + 1).await;
    }
    let before = world.bytes().await;
    world.rested().await;
    let after = world.bytes().await;
    assert!(after * 5 <= before, "{before} bytes became {after}");
    let (messages, chunks) = shown(&world.db().await);
    assert_eq!((shown(&watching).0, chunks), (messages.clone(), 0));
    world.ask("later").await;
    world.answered(4).await;
    let (later, _) = shown(&world.db().await);
    assert_eq!(later.len(), messages.len() + 2);
    assert!(messages.iter().all(|(position, text)| later.get(position) == Some(text)));
    assert_eq!(shown(&watching).0, later, "a reader that stays connected sees the same");
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn chunks_are_kept_for_as_long_as_is_said() {
    for (keep, is_dropped) in [
        (KeepChunks::Forever, false),
        (KeepChunks::For(Duration::from_hours(1)), false),
        (KeepChunks::For(Duration::ZERO), true),
    ] {
        let world = World::new().await;
        let fleet = world.launch(keep);
        world.ask("m").await;
        world.answered(1).await;
        world.rested().await;
        let (_, chunks) = shown(&world.db().await);
        assert_eq!(chunks == 0, is_dropped, "{keep:?}: {chunks} chunks");
        fleet.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_rests_is_left_alone_from_then_on() {
    let world = World::new().await;
    let fleet = world.launch(KeepChunks::UntilMessage);
    world.ask("m").await;
    world.answered(1).await;
    world.rested().await;
    let head = world.log.head(&world.address()).await.unwrap();
    world.sys.clock.sleep(Duration::from_hours(24)).await;
    assert_eq!(world.log.head(&world.address()).await.unwrap(), head);
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn chunks_that_are_kept_for_an_hour_are_dropped_after_it() {
    let world = World::new().await;
    let fleet = world.launch(KeepChunks::For(Duration::from_hours(1)));
    for number in 0..2 {
        world.ask(&format!("m{number}")).await;
        world.answered(number + 1).await;
    }
    let before = shown(&world.db().await);
    world.sys.clock.sleep(Duration::from_mins(50)).await;
    assert_eq!(shown(&world.db().await), before);
    world.sys.clock.sleep(Duration::from_mins(20)).await;
    assert_eq!(shown(&world.db().await), (before.0, 0));
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_is_not_written_again_at_each_rest() {
    let world = World::new().await;
    let pieces = |number| if number < 3 { 400 } else { 2 };
    let fleet = world.launch_saying(KeepChunks::For(Duration::from_hours(1)), pieces);
    let mut written = Vec::new();
    for number in 0..20 {
        world.ask(&format!("m{number}")).await;
        world.answered(number + 1).await;
        let before = world.log.head(&world.address()).await.unwrap().tail.byte.get();
        world.sys.clock.sleep(Duration::from_hours(3)).await;
        let after = world.log.head(&world.address()).await.unwrap().tail.byte.get();
        written.push(after - before);
    }
    let rewritten = written[4..].iter().filter(|bytes| **bytes > 2_000).count();
    assert!(rewritten <= 2, "the session was written again at most rests: {written:?}");
    fleet.shutdown().await;
}
