//! A session in a real process that is killed at each of its durable writes, while agents answer
//! and while the session is compacted because it rests: every message is answered once, nothing
//! that was said is lost, and in the end the chunks are gone.

#![allow(clippy::disallowed_methods, reason = "processes, files and time are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "how often it was killed is worth knowing")]

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use agent::{
    Agent, Home, Lease,
    rows::{self, Chunk, Generation, Message, Role},
};
use live::{RowRef, StreamDb};
use log::{
    Log,
    file::{FileLog, Settings},
};
use providers::scripted::{Order, Scripted, Turn};
use sessions::{Actions, Deed, Fleet, FleetSettings, Say, SessionId};
use sys::{
    Sys,
    disk::{Life, kill_at_every_write},
};

const AGENT: &str = "assistant";
/// So small that preparing segments is not most of what is written.
const SEGMENT_BYTES: u32 = 64 * 1024;
const QUESTIONS: usize = 2;
/// Words of an answer, each of them a chunk or a part of one: few, so that there are not many
/// writes to die at, and so long that a compaction is worth it after each answer.
const WORDS: usize = 24;
const WORD_BYTES: usize = 200;

#[test]
fn killed_at_every_write_a_session_that_rests_keeps_all_that_was_said() {
    let scratch = scratch();
    let kills = kill_at_every_write(scratch.path(), "child", check);
    println!("{kills:?}");
    assert!(kills.writes > 20, "{kills:?}: too few to be worth it");
}

/// The other process.
#[test]
fn child() {
    let Some(life) = Life::of_this_process() else { return };
    let sys = Sys { disk: life.disk.clone(), ..Sys::real() };
    block_on(live(&life.dir, &sys));
    life.end();
}

/// Whatever happened before: all questions are asked and answered, and the session has rested.
async fn live(dir: &Path, sys: &Sys) {
    let log = open(dir, sys).await;
    let waist: Arc<dyn Log> = Arc::new(log.clone());
    let actions = Actions::for_agent(sys, waist.clone(), AGENT);
    let session = session();
    let _ = actions.create(&session).await.unwrap();
    let settings = FleetSettings {
        idle_max: Duration::from_millis(30),
        home: Some(Home::draw(&sys.chance)),
        ..FleetSettings::default()
    };
    let (its_sys, its_log) = (sys.clone(), waist.clone());
    let start = move |session: SessionId, lease: Lease| {
        let (sys, log) = (its_sys.clone(), its_log.clone());
        async move {
            let script = (0..QUESTIONS).map(|number| Turn::new().text(answer(number))).collect();
            let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
            let agent = Agent::builder(AGENT).model(Arc::new(model)).lease(lease);
            agent.session(log, session.path().clone()).start(&sys).await
        }
    };
    let fleet = Fleet::launch(sys, actions.sessions(), AGENT, settings, start).unwrap();
    for number in 0..QUESTIONS {
        let question = Say::named(format!("m{number}"), "Well?");
        actions.act(&session, "ada", Deed::Say(question)).await.unwrap();
        // Each answer is compacted away with its chunks before the next one begins.
        rested(&waist, sys, number + 1).await;
    }
    fleet.shutdown().await;
    log.close().await;
}

/// Waits until so many questions are answered, and the stream holds no chunk any more.
async fn rested(log: &Arc<dyn Log>, sys: &Sys, answered: usize) {
    loop {
        let db = database(log, sys).await;
        let is_over = |row: &RowRef<Generation>| row.status.is_terminal();
        let over =
            db.rows::<Generation>().unwrap().rows().iter().filter(|row| is_over(row)).count();
        if over >= answered && db.rows::<Chunk>().unwrap().rows().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Looks at what is left once no process is at work.
fn check(dir: &Path, what: &str) {
    let (messages, chunks) = block_on(async {
        let sys = Sys::real();
        let log = open(dir, &sys).await;
        let waist: Arc<dyn Log> = Arc::new(log.clone());
        let head = waist.head(&session().path().clone().into()).await.unwrap();
        assert!(head.earliest.position.get() > 0, "{what}: it was never compacted");
        let db = database(&waist, &sys).await;
        let said = db.rows::<Message>().unwrap().rows().into_iter().map(|row| {
            let place = row.meta().position.unwrap();
            (place, (row.role, row.content.clone()))
        });
        let found = (said.collect::<BTreeMap<_, _>>(), db.rows::<Chunk>().unwrap().rows().len());
        drop((db, waist));
        log.close().await;
        found
    });
    let expected = (0..QUESTIONS)
        .flat_map(|number| [(Role::User, "Well?".to_owned()), (Role::Assistant, answer(number))]);
    let messages: Vec<_> = messages.into_values().collect();
    assert_eq!(messages, expected.collect::<Vec<_>>(), "{what}");
    assert_eq!(chunks, 0, "{what}");
}

fn answer(number: usize) -> String {
    (0..WORDS * (1 + 2 * number)).map(|word| format!("{number}.{word:x>WORD_BYTES$} ")).collect()
}

fn session() -> SessionId {
    "rests".parse().unwrap()
}

async fn open(dir: &Path, sys: &Sys) -> FileLog {
    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::default() };
    FileLog::open(sys, &dir.join("data"), settings).await.unwrap()
}

async fn database(log: &Arc<dyn Log>, sys: &Sys) -> StreamDb {
    let db = StreamDb::builder(log.clone(), session().path().clone(), sys);
    let db = rows::session(db).with::<Chunk>().open().unwrap();
    db.ready().await.unwrap();
    db
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A directory in memory where there is one: a killed process cannot tell the difference.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}
