//! An outbox in a real process that is killed at each of its durable writes: what it said was
//! queued is there in the next life, and is in the stream once.
//!
//! One log plays both the disk of the child and the server, so that every write of either counts.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use live::{OutboxStatus, Row, StreamDb};
use log::{Create, Log, file::FileLog};
use serde::{Deserialize, Serialize};
use sys::Sys;
use wire::{Address, ReadFrom, StreamPath};

use crate::{as_child, kill_at_every_write};

const NOTES: usize = 2;

#[derive(Clone, Debug, Serialize, Deserialize, Row)]
struct Note {
    id: String,
    likes: i64,
}

#[test]
fn killed_at_every_write_and_what_was_queued_is_sent_once() {
    kill_at_every_write("outbox::child", check);
}

/// The other process.
#[test]
fn child() {
    as_child(live);
}

async fn log(dir: &Path, sys: &Sys) -> FileLog {
    FileLog::open(sys, &dir.join("data"), Default::default()).await.unwrap()
}

fn stream() -> Address {
    StreamPath::from_url("notes").unwrap().into()
}

/// Whatever happened before: all notes are written and liked, and nothing waits.
async fn live(dir: PathBuf, sys: Sys) {
    let log: Arc<dyn Log> = Arc::new(log(&dir, &sys).await);
    let json = "application/json".parse().unwrap();
    let create = Create { content_type: Some(json), ..Create::default() };
    let _ = log.create(&stream(), create).await.unwrap();
    let builder = StreamDb::builder(log.clone(), stream(), &sys).client("phone");
    let builder = builder.outbox(log, StreamPath::from_url("outbox").unwrap());
    let db = builder.with::<Note>().open().unwrap();
    db.ready().await.unwrap();
    let mut status = db.outbox().unwrap();
    status.wait_for(|status| status.state != live::OutboxState::Opening).await.unwrap();
    let notes = db.rows::<Note>().unwrap();
    let queued = fs::read_to_string(dir.join("queued")).unwrap_or_default();
    for id in queued.lines() {
        assert!(notes.get(id).is_some(), "{id} was queued and is not shown");
    }
    let mut said =
        fs::OpenOptions::new().create(true).append(true).open(dir.join("queued")).unwrap();
    for number in 0..NOTES {
        let id = format!("n{number}");
        if notes.get(id.as_str()).is_none() {
            let wrote = notes.insert(Note { id: id.clone(), likes: 0 }).unwrap();
            wrote.queued().await.unwrap();
            writeln!(said, "{id}").unwrap();
        }
        if notes.get(id.as_str()).unwrap().likes == 0 {
            let liked = notes.update(id.as_str(), |note| note.likes = 1).unwrap();
            liked.queued().await.unwrap();
        }
    }
    status.wait_for(OutboxStatus::is_idle).await.unwrap();
}

/// Looks at what is left, with nobody at work.
fn check(dir: &Path, what: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let written: Vec<String> = runtime.block_on(async {
        let server = log(dir, &Sys::real()).await;
        let chunk = server.read(&stream(), ReadFrom::Start, 1 << 20).await.unwrap();
        server.close().await;
        let text = |message: &[u8]| {
            let json: serde_json::Value = serde_json::from_slice(message).unwrap();
            let likes = &json["value"]["likes"];
            format!("{} {} {likes}", json["headers"]["operation"], json["key"])
        };
        chunk.messages().map(text).collect()
    });
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    written.iter().for_each(|text| *times.entry(text).or_default() += 1);
    let (mut inserts, mut updates) = (0, 0);
    for (text, count) in times {
        assert_eq!(count, 1, "{what}: {text} is in the stream {count} times");
        inserts += usize::from(text.starts_with("\"insert\""));
        updates += usize::from(text.starts_with("\"update\"") && text.ends_with(" 1"));
    }
    assert_eq!((inserts, updates, written.len()), (NOTES, NOTES, 2 * NOTES), "{what}: {written:?}");
}
