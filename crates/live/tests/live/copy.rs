//! A copy of the rows in a file.

#![allow(clippy::disallowed_methods, reason = "the file is real here")]

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use live::StreamDb;
use log::{Append, Delete, Log};
use sys::Sys;
use wire::{Address, Messages};

use crate::{
    Message, Reply, Status, log_with_stream, message, open, run,
    wrapped::{Weather, Wrapped},
};

struct Place {
    sys: Sys,
    log: Arc<dyn Log>,
    address: Address,
    dir: tempfile::TempDir,
}

impl Place {
    async fn new(sys: &Sys) -> Self {
        let (log, address) = log_with_stream(sys).await;
        Self { sys: sys.clone(), log, address, dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("rows")
    }

    fn open_over(&self, log: Arc<dyn Log>) -> StreamDb {
        let builder = StreamDb::builder(log, self.address.clone(), &self.sys).client("phone");
        builder.with::<Message>().copy_at(self.file()).open().unwrap()
    }

    /// Opens the database, and tells how many messages it has read.
    async fn open(&self) -> (StreamDb, usize) {
        let counted = Arc::new(Wrapped::new(&self.log));
        let db = self.open_over(counted.clone());
        db.ready().await.unwrap();
        (db, counted.read.load(Ordering::SeqCst))
    }

    /// The same place with another log, such as an older copy of the one that was there.
    async fn restored(self) -> Self {
        let (log, address) = log_with_stream(&self.sys).await;
        Self { log, address, ..self }
    }

    async fn write(&self, count: usize) {
        let db = open(&self.log, &self.address, &self.sys);
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        let (from, to) = (messages.len(), messages.len() + count);
        for number in from..to {
            let row = message(&format!("m{number:04}"), Status::Done);
            messages.insert(row).unwrap().settled().await.unwrap();
        }
    }

    /// Lives long enough to leave a copy.
    async fn keep(&self) {
        let (db, _) = self.open().await;
        db.close().await;
        assert!(self.file().exists());
    }

    async fn raw(&self, message: &str) {
        let messages = Messages::copied([message.as_bytes()]).unwrap();
        let _ = self.log.append(&self.address, Append::messages(messages)).await.unwrap();
    }
}

fn inserted(kind: &str, key: &str, row: &str) -> String {
    let headers = r#"{"operation":"insert"}"#;
    format!(r#"{{"type":"{kind}","key":"{key}","value":{row},"headers":{headers}}}"#)
}

fn ids(db: &StreamDb) -> Vec<String> {
    db.rows::<Message>().unwrap().rows().iter().map(|row| row.id.clone()).collect()
}

#[test]
fn the_next_life_reads_only_what_came_since() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        place.write(20).await;
        place.keep().await;
        place.write(3).await;
        let (db, read) = place.open().await;
        assert_eq!((ids(&db).len(), read), (23, 3));
        let row = db.rows::<Message>().unwrap().get("m0007").unwrap();
        assert_eq!(row.meta().position, Some(7));
        assert!(row.is_synced());
    });
}

#[test]
fn a_copy_is_kept_when_nothing_comes_for_a_while() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        place.write(3).await;
        let (db, _) = place.open().await;
        while !place.file().exists() {
            sys.clock.sleep(live::caps::COPY_IDLE).await;
        }
        drop(db);
        let (_, read) = place.open().await;
        assert_eq!(read, 0);
    });
}

#[test]
fn without_a_network_the_rows_are_shown_all_the_same() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        place.write(3).await;
        place.keep().await;
        let network = Arc::new(Wrapped::new(&place.log));
        network.set(Weather::Down);
        let db = place.open_over(network.clone());
        let messages = db.rows::<Message>().unwrap();
        let mut changes = messages.changes().unwrap();
        while messages.len() < 3 {
            changes.next().await;
        }
        assert_eq!(messages.status(), live::Status::Loading);
        network.set(Weather::Fine);
        db.hurry();
        db.ready().await.unwrap();
        assert_eq!(messages.len(), 3);
    });
}

#[test]
fn a_copy_that_is_damaged_anywhere_is_of_no_use() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        place.write(2).await;
        place.keep().await;
        let whole = fs::read(place.file()).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            for bytes in [&flipped[..], &whole[..at]] {
                fs::write(place.file(), bytes).unwrap();
                let (db, read) = place.open().await;
                assert_eq!((ids(&db).len(), read), (2, 2), "byte {at}");
                db.close().await;
                assert_eq!(fs::read(place.file()).unwrap(), whole, "a good copy is left again");
            }
        }
    });
}

#[test]
fn a_copy_of_another_life_of_the_stream_is_of_no_use() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        place.write(5).await;
        place.keep().await;
        place.log.delete(&place.address, Delete::Stream).await.unwrap();
        let json = "application/json".parse().unwrap();
        let create = log::Create { content_type: Some(json), ..Default::default() };
        let _ = place.log.create(&place.address, create).await.unwrap();
        let row = r#"{"id":"z","text":"","status":"done"}"#;
        place.raw(&inserted("message", "z", row)).await;
        let (db, _) = place.open().await;
        assert_eq!(ids(&db), ["z"]);
        drop(db);
        place.write(9).await;
        let (db, _) = place.open().await;
        assert_eq!(ids(&db).len(), 10);
    });
}

#[test]
fn a_stream_that_was_compacted_meanwhile_is_read_from_its_snapshot() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        place.write(5).await;
        place.keep().await;
        let other = open(&place.log, &place.address, &place.sys);
        other.ready().await.unwrap();
        place.write(2).await;
        other.rows::<Message>().unwrap().delete("m0001").unwrap().settled().await.unwrap();
        live::compact(&place.log, place.address.clone(), &sys).run().await.unwrap();
        let (db, _) = place.open().await;
        assert_eq!(ids(&db), ids(&other));
        assert!(!ids(&db).contains(&"m0001".to_owned()));
    });
}

#[test]
fn types_that_the_copy_does_not_have_make_it_useless() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        place.write(2).await;
        place.keep().await;
        place.raw(&inserted("reply", "r", r#"{"id":"r","to":"a"}"#)).await;
        place.keep().await;
        let builder = StreamDb::builder(place.log.clone(), place.address.clone(), &sys);
        let builder = builder.with::<Message>().with::<Reply>().copy_at(place.file());
        let db = builder.open().unwrap();
        db.ready().await.unwrap();
        assert_eq!((ids(&db).len(), db.rows::<Reply>().unwrap().len()), (2, 1));
    });
}

#[test]
fn fields_that_only_others_know_are_in_the_copy() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        let row = r#"{"id":"a","text":"","status":"done","mood":"blue"}"#;
        place.raw(&inserted("message", "a", row)).await;
        place.keep().await;
        let (db, read) = place.open().await;
        assert_eq!(read, 0);
        let liked = db.rows::<Message>().unwrap().update("a", |row| row.likes = 1);
        liked.unwrap().settled().await.unwrap();
        let chunk = place.log.read(&place.address, wire::ReadFrom::Start, 1 << 20).await.unwrap();
        let last = String::from_utf8_lossy(chunk.messages().last().unwrap()).into_owned();
        assert!(last.contains(r#""mood":"blue""#) && last.contains(r#""likes":1"#), "{last}");
    });
}

#[test]
fn a_row_that_did_not_fit_is_looked_for_again() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        place.write(1).await;
        place.raw(&inserted("message", "b", r#"{"id":"b"}"#)).await;
        let (db, _) = place.open().await;
        drop(db);
        let (_, read) = place.open().await;
        assert_eq!(read, 2, "a program with another type may understand it");
    });
}

#[test]
fn a_copy_that_is_ahead_of_a_restored_stream_is_given_up() {
    run(|sys| async move {
        let place = Place::new(&sys).await;
        place.write(30).await;
        let (db, read) = place.open().await;
        assert_eq!((db.rows::<Message>().unwrap().len(), read), (30, 30));
        db.close().await;
        let place = place.restored().await;
        place.write(10).await;
        let (db, read) = place.open().await;
        assert_eq!((db.rows::<Message>().unwrap().len(), read), (10, 10));
    });
}
