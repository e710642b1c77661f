//! A durable effect in a real process that is killed at each of its durable writes: every
//! transition is delivered, and what its handler commits is written once.
//!
//! The child writes messages, lets them enter and leave a query, answers every transition by a row,
//! and compacts the stream now and then.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use live::{ChangeKind, Context, Event, HandlerError, Row, StreamDb};
use log::{Create, Freshness, Log, file::FileLog};
use serde::{Deserialize, Serialize};
use sys::Sys;
use wire::{Address, ReadFrom, StreamPath};

use crate::{as_child, kill_at_every_write};

const MESSAGES: usize = 4;

#[derive(Clone, Debug, Serialize, Deserialize, Row)]
struct Message {
    id: String,
    is_open: bool,
}

/// One for each transition; the key tells which.
#[derive(Clone, Debug, Serialize, Deserialize, Row)]
struct Answer {
    id: String,
}

#[test]
fn killed_at_every_write_and_nothing_is_lost_or_done_twice() {
    kill_at_every_write("effects::child", check);
}

/// The other process.
#[test]
fn child() {
    as_child(live);
}

/// Whatever happened before: all messages are written and closed, all transitions answered.
async fn live(dir: PathBuf, sys: Sys) {
    let data = dir.join("data");
    let log: Arc<dyn Log> = Arc::new(FileLog::open(&sys, &data, Default::default()).await.unwrap());
    let address: Address = StreamPath::from_url("session").unwrap().into();
    let json = "application/json".parse().unwrap();
    let create = Create { content_type: Some(json), ..Create::default() };
    let _ = log.create(&address, create).await.unwrap();
    let db = StreamDb::builder(log.clone(), address.clone(), &sys);
    let db = db.client("child").copy_at(dir.join("copy"));
    let db = db.with::<Message>().with::<Answer>().open().unwrap();
    db.ready().await.unwrap();
    let open = live::from::<Message>().filter(Message::is_open.eq(true));
    let (seen, effect) = (dir.join("seen"), db.durable_effect("answer", open));
    let answer = move |event, context| answer(seen.clone(), event, context);
    let effect = effect.on_enter(answer.clone()).on_exit(answer).start().unwrap();
    write(&db, async || compact(&log, &address, &sys).await).await;
    let answers = db.rows::<Answer>().unwrap();
    let mut changes = answers.changes().unwrap();
    while answers.len() < 2 * MESSAGES {
        changes.next().await;
    }
    effect.dispose().await;
}

/// Forgets how the rows came to be, as often as it takes while others write.
async fn compact(log: &Arc<dyn Log>, address: &Address, sys: &Sys) {
    while let Err(error) = live::compact(log, address.clone(), sys).run().await {
        assert!(matches!(error, live::CompactError::Moved), "{error}");
        tokio::task::yield_now().await;
    }
}

/// Every message is opened, and closed again; now and then, the stream is compacted.
async fn write(db: &StreamDb, compact: impl AsyncFn()) {
    let messages = db.rows::<Message>().unwrap();
    for number in 0..MESSAGES {
        let id = format!("m{number}");
        if messages.get(id.as_str()).is_none() {
            let row = Message { id: id.clone(), is_open: true };
            messages.insert(row).unwrap().settled().await.unwrap();
        }
        if messages.get(id.as_str()).unwrap().is_open {
            let closed = messages.update(id.as_str(), |row| row.is_open = false);
            closed.unwrap().settled().await.unwrap();
        }
        if number % 2 == 1 {
            compact().await;
        }
    }
}

/// Notes that it was called, outside of the stream, and answers.
async fn answer(seen: PathBuf, event: Event<Message>, ctx: Context) -> Result<(), HandlerError> {
    static NOTES: OnceLock<parking_lot::Mutex<fs::File>> = OnceLock::new();
    let open = || fs::OpenOptions::new().create(true).append(true).open(&seen).unwrap();
    let notes = NOTES.get_or_init(|| parking_lot::Mutex::new(open()));
    let kind = if event.kind() == ChangeKind::Enter { "enter" } else { "exit" };
    let (key, position) = (event.row().id.clone(), event.id().position);
    writeln!(notes.lock(), "{kind} {key} {position}").unwrap();
    let answer = Answer { id: format!("{kind} {key} {position}") };
    ctx.commit(|rows| rows.put(&answer)).await?;
    Ok(())
}

/// Looks at what is left, with nobody at work.
fn check(dir: &Path, what: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answers = runtime.block_on(answers(dir));
    // Each transition has one answer, and one id under which it was delivered.
    let mut by_transition: BTreeMap<&str, usize> = BTreeMap::new();
    for answer in &answers {
        let (transition, _) = answer.rsplit_once(' ').unwrap();
        *by_transition.entry(transition).or_default() += 1;
    }
    let expected: BTreeMap<String, usize> = (0..MESSAGES)
        .flat_map(|number| ["enter", "exit"].map(|kind| (format!("{kind} m{number}"), 1)))
        .collect();
    let found: BTreeMap<_, _> =
        by_transition.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    assert_eq!(found, expected, "{what}");
    let seen = fs::read_to_string(dir.join("seen")).unwrap();
    let seen: BTreeSet<&str> = seen.lines().collect();
    let answered: BTreeSet<&str> = answers.iter().map(String::as_str).collect();
    assert_eq!(seen, answered, "{what}: delivered again, an event has the same id");
}

/// All answers that were ever appended, as often as they were: the same one twice folds to one row,
/// but is written by two transactions. What a compaction writes again keeps the name of its own.
async fn answers(dir: &Path) -> Vec<String> {
    let log = FileLog::open(&Sys::real(), &dir.join("data"), Default::default()).await.unwrap();
    let address: Address = StreamPath::from_url("session").unwrap().into();
    let mut times: BTreeSet<(String, String)> = BTreeSet::new();
    let mut from = ReadFrom::Start;
    loop {
        let chunk = log.read(&address, from, 1 << 20).await.unwrap();
        for message in chunk.messages() {
            let json: serde_json::Value = serde_json::from_slice(message).unwrap();
            if json["type"] == Answer::NAME {
                let text = |json: &serde_json::Value| json.as_str().unwrap().to_owned();
                times.insert((text(&json["key"]), text(&json["headers"]["txid"])));
            }
        }
        if chunk.freshness != Freshness::Behind {
            log.close().await;
            return times.into_iter().map(|(answer, _)| answer).collect();
        }
        from = ReadFrom::At(chunk.next);
    }
}
