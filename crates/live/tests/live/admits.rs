//! What has ended stays ended, whoever writes after it: in every fold of a stream.

use std::sync::Arc;

use live::{StreamDb, StreamDbBuilder, compact};
use log::{Append, Log};
use parking_lot::Mutex;
use sys::Sys;
use wire::{Address, Messages};

use crate::{Message, Reply, Status, log_with_stream, message, run};

/// Done is for ever.
fn rule(old: &Message, _new: &Message) -> bool {
    old.status != Status::Done
}

fn builder(log: &Arc<dyn Log>, address: &Address, sys: &Sys) -> StreamDbBuilder {
    let builder = StreamDb::builder(log.clone(), address.clone(), sys);
    builder.with::<Message>().with::<Reply>().admits::<Message>(rule)
}

async fn open(log: &Arc<dyn Log>, address: &Address, sys: &Sys) -> StreamDb {
    let db = builder(log, address, sys).open().unwrap();
    db.ready().await.unwrap();
    db
}

fn put(id: &str, status: &str, likes: u32) -> String {
    let row = format!(r#"{{"id":"{id}","text":"t","status":"{status}","likes":{likes}}}"#);
    format!(r#"{{"type":"message","key":"{id}","value":{row},"headers":{{"operation":"upsert"}}}}"#)
}

fn deleted(id: &str) -> String {
    format!(r#"{{"type":"message","key":"{id}","headers":{{"operation":"delete"}}}}"#)
}

fn in_transaction(message: &str, txid: &str) -> String {
    message.replace(r#""headers":{"#, &format!(r#""headers":{{"txid":"{txid}","#))
}

async fn append(log: &dyn Log, address: &Address, messages: &[String]) {
    let messages = Messages::copied(messages.iter().map(String::as_bytes)).unwrap();
    let _ = log.append(address, Append::messages(messages)).await.unwrap();
}

/// What is shown of a stream of these messages, and how many of them came too late; by whoever
/// reads it at once, and by whoever follows it message by message.
fn check(messages: &[String], shown: Option<(Status, u32)>, late: u64) {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let follower = open(&log, &address, &sys).await;
        for message in messages {
            append(&*log, &address, std::slice::from_ref(message)).await;
        }
        let reader = open(&log, &address, &sys).await;
        // What is written last is shown last.
        let last = reader.rows::<Reply>().unwrap();
        let mark = last.insert(Reply { id: "last".into(), to: "a".into() }).unwrap();
        mark.settled().await.unwrap();
        let mut changes = follower.rows::<Reply>().unwrap().changes().unwrap();
        while follower.rows::<Reply>().unwrap().is_empty() {
            changes.next().await;
        }
        for db in [&reader, &follower] {
            let row = db.rows::<Message>().unwrap().get("a");
            assert_eq!(row.map(|row| (row.status, row.likes)), shown, "{messages:?}");
            assert_eq!(db.late_writes(), late, "{messages:?}");
        }
    });
}

#[test]
fn a_write_that_comes_too_late_is_counted_and_not_applied() {
    check(&[put("a", "pending", 1), put("a", "done", 2)], Some((Status::Done, 2)), 0);
    let late = [put("a", "done", 1), put("a", "pending", 2), put("a", "done", 3)];
    check(&late, Some((Status::Done, 1)), 2);
    // Whoever deletes a row makes room for another.
    let again = [put("a", "done", 1), deleted("a"), put("a", "pending", 2)];
    check(&again, Some((Status::Pending, 2)), 0);
    let reset = [put("a", "done", 1), state::Control::Reset.encode(), put("a", "pending", 2)];
    check(&reset, Some((Status::Pending, 2)), 0);
    check(&[put("a", "done", 1), put("a", "pending", 2), deleted("a")], None, 1);
}

#[test]
fn writes_of_one_transaction_are_judged_in_their_order() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let messages = [put("a", "done", 1), put("a", "pending", 2), deleted("b")];
        let messages = messages.map(|message| in_transaction(&message, "t1"));
        append(&*log, &address, &messages).await;
        let messages = [deleted("a"), put("a", "pending", 3), put("a", "done", 4)];
        let messages = messages.map(|message| in_transaction(&message, "t2"));
        let db = open(&log, &address, &sys).await;
        let rows = db.rows::<Message>().unwrap();
        assert_eq!((rows.get("a").unwrap().likes, db.late_writes()), (1, 1));
        append(&*log, &address, &messages).await;
        db.await_txid("t2", std::time::Duration::from_secs(1)).await.unwrap();
        assert_eq!((rows.get("a").unwrap().likes, db.late_writes()), (4, 1));
    });
}

#[test]
fn fields_of_a_late_write_that_nobody_knows_are_not_kept() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let late = put("a", "pending", 2).replace(r#""likes":2"#, r#""likes":2,"theirs":1"#);
        append(&*log, &address, &[put("a", "done", 1), late]).await;
        let db = open(&log, &address, &sys).await;
        let _ = db.rows::<Message>().unwrap().update("a", |row| row.likes = 3).unwrap();
        let other = db.rows::<Message>().unwrap().insert(message("b", Status::Done)).unwrap();
        other.settled().await.unwrap();
        let chunk = log.read(&address, wire::ReadFrom::Start, 1 << 20).await.unwrap();
        let written: Vec<_> = chunk.messages().map(String::from_utf8_lossy).collect();
        assert!(written[2].contains(r#""likes":3"#) && !written[2].contains("theirs"));
    });
}

#[test]
fn a_durable_effect_sees_what_the_database_shows() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys).await;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let start = |db: &StreamDb| {
            let noted = seen.clone();
            let pending = live::from::<Message>().filter(Message::status.eq(Status::Pending));
            let effect = db.durable_effect("watch", pending).on_enter(move |event, _| {
                noted.lock().push(event.row().id.clone());
                async { Ok(()) }
            });
            effect.start().unwrap()
        };
        let until = async |count: usize| {
            while seen.lock().len() < count {
                sys.clock.sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let effect = start(&db);
        append(&*log, &address, &[put("a", "pending", 1)]).await;
        until(1).await;
        let ended = [put("a", "done", 1), put("a", "pending", 2), put("b", "pending", 0)];
        append(&*log, &address, &ended).await;
        until(2).await;
        effect.dispose().await;
        append(&*log, &address, &[put("a", "pending", 3), put("c", "pending", 0)]).await;
        let effect = start(&open(&log, &address, &sys).await);
        until(3).await;
        assert_eq!(*seen.lock(), ["a", "b", "c"]);
        effect.dispose().await;
    });
}

#[test]
fn a_compaction_with_the_rule_keeps_what_its_readers_see() {
    for is_held in [false, true] {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            let mut messages: Vec<_> = (0..20).map(|n| put("a", "pending", n)).collect();
            messages.extend([put("a", "done", 99), put("a", "pending", 100), put("b", "done", 1)]);
            messages.extend([put("b", "pending", 2), put("a", "pending", 101)]);
            append(&*log, &address, &messages).await;
            let follower = open(&log, &address, &sys).await;
            let compaction = compact(&log, address.clone(), &sys).admits::<Message>(rule);
            let compaction = match is_held {
                true => compaction.hold(wire::Position::new(22)),
                false => compaction,
            };
            let compacted = compaction.run().await.unwrap();
            assert!(compacted.after.messages < compacted.before.messages);
            let fresh = open(&log, &address, &sys).await;
            for db in [&follower, &fresh] {
                let rows = db.rows::<Message>().unwrap();
                let likes = |id: &str| rows.get(id).map(|row| (row.status, row.likes));
                assert_eq!(likes("a"), Some((Status::Done, 99)));
                assert_eq!(likes("b"), Some((Status::Done, 1)));
            }
        });
    }
}

#[test]
fn a_copy_that_was_folded_without_the_rule_is_of_no_use() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rows");
        append(&*log, &address, &[put("a", "done", 1), put("a", "pending", 2)]).await;
        let before = StreamDb::builder(log.clone(), address.clone(), &sys).with::<Message>();
        let before = before.with::<Reply>().copy_at(&file).open().unwrap();
        before.ready().await.unwrap();
        assert_eq!(before.rows::<Message>().unwrap().get("a").unwrap().likes, 2);
        before.close().await;
        for _ in 0..2 {
            let db = builder(&log, &address, &sys).copy_at(&file).open().unwrap();
            db.ready().await.unwrap();
            assert_eq!(db.rows::<Message>().unwrap().get("a").unwrap().likes, 1);
            append(&*log, &address, &[put("a", "pending", 3)]).await;
            db.close().await;
        }
    });
}
