//! What a hostile or unlucky user does.

use std::{sync::Arc, time::Duration};

use live::{Db, Outbox, OutboxState, OutboxStatus, Pace, PacedAction, PersistError, Row, StreamDb};
use log::{Append, Log, MemoryLog};
use serde::{Deserialize, Serialize};
use serde_json::json;
use wire::{Address, Messages, StreamPath};

use crate::{
    Message, Status, log_with_stream, message, open, run,
    wrapped::{Weather, Wrapped},
};

fn box_address() -> StreamPath {
    StreamPath::from_url("outbox").unwrap()
}

async fn append(log: &Arc<dyn Log>, address: &Address, message: serde_json::Value) {
    let messages = Messages::one(message.to_string()).unwrap();
    let _ = log.append(address, Append::messages(messages)).await.unwrap();
}

fn change(kind: &str, key: &str, operation: &str, value: &serde_json::Value) -> serde_json::Value {
    json!({"type": kind, "key": key, "value": value, "headers": {"operation": operation}})
}

/// All messages of a stream.
async fn all(log: &dyn Log, address: &Address) -> Vec<serde_json::Value> {
    let chunk = log.read(address, wire::ReadFrom::Start, 1 << 24).await.unwrap();
    chunk.messages().map(|message| serde_json::from_slice(message).unwrap()).collect()
}

fn keys(messages: &[serde_json::Value]) -> Vec<&str> {
    messages.iter().map(|message| message["key"].as_str().unwrap()).collect()
}

async fn idle(db: &StreamDb) {
    db.outbox().unwrap().wait_for(OutboxStatus::is_idle).await.unwrap();
}

async fn offline(db: &StreamDb) {
    let is_offline = |status: &OutboxStatus| matches!(status.state, OutboxState::Offline { .. });
    db.outbox().unwrap().wait_for(is_offline).await.unwrap();
}

/// Waits until something is true of a database.
async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never comes to that");
}

/// What is posted after an answer was lost is not sent together with what has arrived.
#[test]
fn a_lost_answer_and_a_later_write_double_nothing() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let (network, disk) = (Arc::new(Wrapped::new(&log)), Arc::new(MemoryLog::new(&sys)));
        let builder = StreamDb::builder(network.clone(), address.clone(), &sys);
        let db = builder.outbox(disk, box_address()).with::<Message>().open().unwrap();
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        messages.insert(message("a", Status::Done)).unwrap().settled().await.unwrap();
        network.set(Weather::Deaf);
        messages.insert(message("b", Status::Done)).unwrap().queued().await.unwrap();
        offline(&db).await;
        messages.insert(message("c", Status::Done)).unwrap().queued().await.unwrap();
        for least in 2..4 {
            db.hurry();
            let failed = |status: &OutboxStatus| match status.state {
                OutboxState::Offline { failures, .. } => failures >= least,
                _ => false,
            };
            db.outbox().unwrap().wait_for(failed).await.unwrap();
        }
        network.set(Weather::Fine);
        db.hurry();
        idle(&db).await;
        assert_eq!(keys(&all(&*log, &address).await), ["a", "b", "c"]);
    });
}

/// A clock that was set back does not give numbers that were used.
#[test]
fn a_clock_that_is_set_back_loses_nothing() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let disk: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let earlier =
            sys::Sys { clock: sys::Clock::simulated(sys::UnixMs::new(1_000_000)), ..sys.clone() };
        for (sys, id) in [(&sys, "a"), (&earlier, "b"), (&earlier, "c")] {
            let builder = StreamDb::builder(log.clone(), address.clone(), sys);
            let builder = builder.outbox(disk.clone(), box_address());
            let db = builder.with::<Message>().open().unwrap();
            db.ready().await.unwrap();
            let messages = db.rows::<Message>().unwrap();
            messages.insert(message(id, Status::Done)).unwrap().settled().await.unwrap();
            idle(&db).await;
        }
        assert_eq!(keys(&all(&*log, &address).await), ["a", "b", "c"]);
    });
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[serde(rename_all = "camelCase")]
struct Item {
    id: String,
    #[serde(default, alias = "label")]
    item_name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[row(json)]
    tags: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    price: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn item() -> Item {
    let (id, item_name) = ("i".to_owned(), "cup".to_owned());
    Item { id, item_name, tags: vec!["red".into()], price: 7, note: Some("fragile".into()) }
}

/// Fields that serde leaves out are emptied through an outbox, too.
#[test]
fn fields_that_are_left_out_are_emptied_by_a_patch_that_waits() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let disk: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let network = Arc::new(Wrapped::new(&log));
        let builder = StreamDb::builder(network.clone(), address.clone(), &sys);
        let db = builder.outbox(disk.clone(), box_address()).with::<Item>().open().unwrap();
        db.ready().await.unwrap();
        let items = db.rows::<Item>().unwrap();
        items.insert(item()).unwrap().settled().await.unwrap();
        network.set(Weather::Down);
        let empty = |row: &mut Item| {
            (row.tags, row.price, row.note) = (Vec::new(), 0, None);
        };
        items.update("i", empty).unwrap().queued().await.unwrap();
        let mut expected = item();
        empty(&mut expected);
        assert_eq!(*items.get("i").unwrap(), expected);
        drop((db, items));
        network.set(Weather::Fine);
        let builder = StreamDb::builder(network.clone(), address.clone(), &sys);
        let db = builder.outbox(disk, box_address()).with::<Item>().open().unwrap();
        db.ready().await.unwrap();
        idle(&db).await;
        let reader = StreamDb::builder(log.clone(), address.clone(), &sys);
        let reader = reader.with::<Item>().open().unwrap();
        reader.ready().await.unwrap();
        assert_eq!(*reader.rows::<Item>().unwrap().get("i").unwrap(), expected);
        until(|| *db.rows::<Item>().unwrap().get("i").unwrap() == expected).await;
    });
}

/// A field under an earlier name is not written under both.
#[test]
fn a_row_with_a_field_under_an_alias_can_be_updated() {
    for is_outbox in [false, true] {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            let row = json!({"id": "i", "label": "cup", "color": "blue"});
            append(&log, &address, change("item", "i", "insert", &row)).await;
            let builder = StreamDb::builder(log.clone(), address.clone(), &sys);
            let builder = match is_outbox {
                true => builder.outbox(Arc::new(MemoryLog::new(&sys)), box_address()),
                false => builder,
            };
            let db = builder.with::<Item>().open().unwrap();
            db.ready().await.unwrap();
            let items = db.rows::<Item>().unwrap();
            assert_eq!(items.get("i").unwrap().item_name, "cup");
            let update = items.update("i", |row| row.price = 3).unwrap();
            update.settled().await.unwrap();
            let row = items.get("i").unwrap();
            assert_eq!((row.price, row.item_name.as_str()), (3, "cup"), "{is_outbox}");
            let last = all(&*log, &address).await.pop().unwrap();
            assert_eq!(last["value"]["color"], "blue");
        });
    }
}

/// Whatever a key is, the row can be deleted by it, also by who does not see it any more.
#[test]
fn rows_of_data_are_deleted_whatever_their_key_is() {
    for is_outbox in [false, true] {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            let other = StreamDb::builder(log.clone(), address.clone(), &sys);
            let schema = || live::Schema::open("id");
            let other = other.with_dynamic("thing", schema()).open().unwrap();
            let builder = StreamDb::builder(log.clone(), address.clone(), &sys);
            let builder = match is_outbox {
                true => builder.outbox(Arc::new(MemoryLog::new(&sys)), box_address()),
                false => builder,
            };
            let db = builder.with_dynamic("thing", schema()).open().unwrap();
            db.ready().await.unwrap();
            let things = db.rows_dynamic("thing").unwrap();
            let seen = other.rows_dynamic("thing").unwrap();
            let odd =
                [json!(7), json!("007"), json!("+8"), json!(-3), json!(1.5), json!("ключ.\u{0}\"")];
            for id in odd {
                let key = live::Value::from(id.clone());
                things.insert_json(&json!({"id": id, "n": 1})).unwrap().settled().await.unwrap();
                until(|| seen.get(key.clone()).is_some()).await;
                things.patch(key.clone(), json!({"n": null})).unwrap().settled().await.unwrap();
                things.delete(key.clone()).unwrap().settled().await.unwrap();
                assert!(things.get(key.clone()).is_none(), "{id} {is_outbox}");
                until(|| seen.is_empty()).await;
            }
            // In one transaction.
            append(
                &log,
                &address,
                json!({"type": "thing", "key": "7", "value": {"id": 7},
                "headers": {"operation": "insert", "txid": "t"}}),
            )
            .await;
            append(
                &log,
                &address,
                json!({"type": "thing", "key": "7",
                "headers": {"operation": "delete", "txid": "t"}}),
            )
            .await;
            let fresh = StreamDb::builder(log.clone(), address.clone(), &sys);
            let fresh = fresh.with_dynamic("thing", schema()).open().unwrap();
            fresh.ready().await.unwrap();
            assert!(fresh.rows_dynamic("thing").unwrap().is_empty());
        });
    }
}

/// The key of the message counts, not what a stranger's row says.
#[test]
fn a_row_stands_under_the_key_of_its_message() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let row = json!({"id": "b", "text": "of b", "status": "done"});
        append(&log, &address, change("message", "b", "insert", &row)).await;
        let lie = json!({"id": "b", "text": "of a", "status": "done"});
        append(&log, &address, change("message", "a", "insert", &lie)).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        assert_eq!(messages.get("b").unwrap().text, "of b");
        append(&log, &address, change("message", "a", "delete", &json!(null))).await;
        until(|| messages.len() == 1).await;
    });
}

/// `$origin` goes by the whole name of a client.
#[test]
fn a_client_is_not_another_whose_name_begins_alike() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let named = |name: &str| {
            let builder = StreamDb::builder(log.clone(), address.clone(), &sys);
            builder.client(name).with::<Message>().open().unwrap()
        };
        let (phone, other) = (named("phone"), named("phone.2"));
        let wrote = other.rows::<Message>().unwrap().insert(message("a", Status::Done));
        wrote.unwrap().settled().await.unwrap();
        let wrote = phone.rows::<Message>().unwrap().insert(message("b", Status::Done));
        wrote.unwrap().settled().await.unwrap();
        for (db, own) in [(phone, "b"), (other, "a")] {
            let messages = db.rows::<Message>().unwrap();
            until(|| messages.len() == 2).await;
            let rows = messages.rows();
            let mine = rows.iter().filter(|row| row.meta().origin == live::Origin::Local);
            assert_eq!(mine.map(|row| row.id.as_str()).collect::<Vec<_>>(), [own]);
        }
    });
}

/// The bound of an outbox holds for what comes at once, too; and it opens again.
#[test]
fn an_outbox_is_bounded_in_bytes_also_for_a_burst() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let disk: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let network = Arc::new(Wrapped::new(&log));
        network.set(Weather::Down);
        let open = || {
            let builder = StreamDb::builder(network.clone(), address.clone(), &sys);
            builder.outbox(disk.clone(), box_address()).with::<Message>().open().unwrap()
        };
        let db = open();
        let messages = db.rows::<Message>().unwrap();
        let text = "x".repeat(1 << 20);
        let wrote: Vec<_> = (0..40)
            .map(|n| {
                let row = Message { text: text.clone(), ..message(&n.to_string(), Status::Done) };
                messages.insert(row).unwrap()
            })
            .collect();
        let mut kept = 0;
        for wrote in &wrote {
            kept += usize::from(wrote.queued().await.is_ok());
        }
        assert_eq!(kept, 7);
        drop((db, messages));
        let db = open();
        db.outbox().unwrap().wait_for(|status| status.waiting == kept).await.unwrap();
        // What will never fit is not asked to come again.
        let row = Message { text: text.repeat(9), ..message("huge", Status::Done) };
        let wrote = db.rows::<Message>().unwrap().insert(row).unwrap();
        assert!(!wrote.settled().await.unwrap_err().is_retryable);
    });
}

/// Two databases with one outbox do not send each other's writes.
#[test]
fn an_outbox_belongs_to_one_stream() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let second: Address = StreamPath::from_url("sessions/2").unwrap().into();
        let create = log::Create {
            content_type: Some("application/json".parse().unwrap()),
            ..log::Create::default()
        };
        let _ = log.create(&second, create).await.unwrap();
        let network = Arc::new(Wrapped::new(&log));
        let disk: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let open = |address: &Address| {
            let builder = StreamDb::builder(network.clone(), address.clone(), &sys);
            builder.outbox(disk.clone(), box_address()).with::<Message>().open().unwrap()
        };
        let db = open(&address);
        db.ready().await.unwrap();
        network.set(Weather::Down);
        let wrote = db.rows::<Message>().unwrap().insert(message("a", Status::Done)).unwrap();
        wrote.queued().await.unwrap();
        drop(db);
        network.set(Weather::Fine);
        let wrong = open(&second);
        let mut status = wrong.outbox().unwrap();
        let is_closed = |status: &OutboxStatus| matches!(status.state, OutboxState::Closed { .. });
        let told = status.wait_for(|s| is_closed(s) || s.is_idle()).await.unwrap().clone();
        assert!(is_closed(&told), "{told:?}");
        assert!(all(&*log, &second).await.is_empty());
        drop(wrong);
        let right = open(&address);
        idle(&right).await;
        assert_eq!(keys(&all(&*log, &address).await), ["a"]);
    });
}

/// A mutation that panics is a failure like others.
#[test]
fn a_mutation_that_panics_is_said_and_stops_nothing() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let _messages = db.local::<Message>().unwrap();
        let paced = PacedAction::new(
            &db,
            Pace::Queue,
            |id: &String, writes| writes.insert(message(id, Status::Done)),
            |ids: Vec<String>| async move {
                assert_ne!(ids[0], "bad", "a bad one");
                Ok::<_, PersistError>(())
            },
        );
        let error = paced.run("bad".into()).unwrap().settled().await.unwrap_err();
        assert!(error.why.contains("a bad one"), "{error}");
        paced.run("good".into()).unwrap().settled().await.unwrap();

        let outbox = Outbox::builder(&db, Arc::new(MemoryLog::new(&sys)), box_address())
            .action(
                "add",
                |id: &String, writes| writes.insert(message(id, Status::Done)),
                |id: String, _| async move {
                    assert_ne!(id, "worse", "a worse one");
                    Ok::<_, PersistError>(())
                },
            )
            .open();
        let _waits = outbox.run("add", &"worse".to_owned()).unwrap();
        let mut status = outbox.watch();
        let told = status.wait_for(|status| {
            matches!(&status.state,
            OutboxState::Offline { why, .. } if why.contains("a worse one"))
        });
        let _ = sys.clock.timeout(Duration::from_secs(60), told).await.unwrap().unwrap();
    });
}

/// A handler that panics is tried again, like one that fails.
#[test]
fn a_handler_that_panics_has_failed() {
    for is_durable in [false, true] {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            let db = open(&log, &address, &sys);
            db.ready().await.unwrap();
            let (done, mut dones) = tokio::sync::mpsc::channel(16);
            let query = live::from::<Message>();
            let effect = match is_durable {
                true => db.durable_effect("panics", query),
                false => db.effect(query),
            };
            let effect = effect
                .on_enter(move |event, context| {
                    let done = done.clone();
                    async move {
                        let id = event.row().id.clone();
                        assert!(id != "a" || context.attempt() > 2, "not yet");
                        done.send((id, context.attempt())).await.unwrap();
                        Ok(())
                    }
                })
                .start()
                .unwrap();
            let messages = db.rows::<Message>().unwrap();
            for id in ["a", "b"] {
                messages.insert(message(id, Status::Done)).unwrap().settled().await.unwrap();
            }
            assert_eq!(dones.recv().await, Some(("a".into(), 3)));
            assert_eq!(dones.recv().await, Some(("b".into(), 1)));
            effect.dispose().await;
        });
    }
}

/// Cursors, positions and snapshots that lie stop nobody.
#[test]
fn strangers_who_write_reserved_rows_stop_no_effect() {
    for lie in [
        json!({"start": u64::MAX, "position": u64::MAX, "epoch": u64::MAX}),
        json!({"start": 0, "position": u64::MAX, "epoch": 3}),
        json!({"start": u64::MAX, "position": 0, "epoch": u64::MAX}),
        json!({"start": -1}),
        json!("cursor"),
        json!({"start": 1, "position": 1_u64 << 53, "epoch": 1_u64 << 53}),
    ] {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            append(&log, &address, change("headwater.cursor", "e", "upsert", &lie)).await;
            let row = json!({"id": "a", "text": "", "status": "done"});
            append(&log, &address, change("message", "a", "insert", &row)).await;
            let db = open(&log, &address, &sys);
            db.ready().await.unwrap();
            let (done, mut dones) = tokio::sync::mpsc::channel(16);
            let effect = db
                .durable_effect("e", live::from::<Message>())
                .on_enter(move |event, _| {
                    let _ = done.try_send(event.row().id.clone());
                    async { Ok(()) }
                })
                .start()
                .unwrap();
            let messages = db.rows::<Message>().unwrap();
            messages.insert(message("b", Status::Done)).unwrap().settled().await.unwrap();
            let heard = async { while dones.recv().await.unwrap() != "b" {} };
            let heard = sys.clock.timeout(Duration::from_secs(60), heard).await;
            assert!(heard.is_ok(), "{lie}");
            effect.dispose().await;
        });
    }
}

/// What is not committed is not written by others.
#[test]
fn an_open_transaction_is_not_written_by_another_one() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        messages.insert(message("a", Status::Done)).unwrap().settled().await.unwrap();
        let mut draft = db.begin();
        draft.update::<Message>("a", |row| row.text = "a draft".into()).unwrap();
        messages.update("a", |row| row.likes = 1).unwrap().settled().await.unwrap();
        draft.roll_back();
        let row = messages.get("a").unwrap();
        assert_eq!((row.likes, row.text.as_str()), (1, "text of a"));
    });
}

/// A source that panics or ends has failed, and nobody waits for it.
#[test]
fn who_waits_for_a_source_that_is_gone_is_told() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let fetch = |subset: live::Subset| async move {
            assert!(subset.filters.is_empty(), "no filters here");
            Ok::<_, PersistError>(vec![message("a", Status::Done)])
        };
        let _messages = db.collection::<Message>(live::OnDemand::new(fetch)).unwrap();
        assert_eq!(db.once_ready(live::from::<Message>()).await.unwrap().len(), 1);
        for likes in [1, 2] {
            let query = live::from::<Message>().filter(Message::likes.eq(likes));
            let told = sys.clock.timeout(Duration::from_secs(60), db.once_ready(query)).await;
            assert!(told.unwrap().is_err(), "{likes}");
        }
    });
}

/// What arrived in an earlier life, and was compacted away since, does not hide what others did.
#[test]
fn a_write_that_was_compacted_away_hides_nothing() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let (network, disk) = (Arc::new(Wrapped::new(&log)), Arc::new(MemoryLog::new(&sys)));
        let phone = || {
            let builder = StreamDb::builder(network.clone(), address.clone(), &sys);
            let builder = builder.client("phone").outbox(disk.clone(), box_address());
            builder.with::<Message>().open().unwrap()
        };
        let first = phone();
        first.ready().await.unwrap();
        network.set(Weather::Deaf);
        let wrote = first.rows::<Message>().unwrap().insert(message("a", Status::Done)).unwrap();
        wrote.queued().await.unwrap();
        offline(&first).await;
        drop(first);
        let other = open(&log, &address, &sys);
        other.ready().await.unwrap();
        let theirs = other.rows::<Message>().unwrap();
        for likes in 1..=9 {
            theirs.update("a", |row| row.likes = likes).unwrap().settled().await.unwrap();
        }
        live::compact(&log, address.clone(), &sys).run().await.unwrap();
        network.set(Weather::Fine);
        let second = phone();
        idle(&second).await;
        let messages = second.rows::<Message>().unwrap();
        until(|| messages.get("a").is_some_and(|row| row.likes == 9 && row.is_synced())).await;
        assert_eq!(all(&*log, &address).await.len(), 3, "it is not sent again");
    });
}
