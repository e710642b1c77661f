//! Local collections, live queries, polled sources.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use live::{
    Action, ChangeKind, Db, DbError, Pace, PacedAction, Polled, Status as SourceStatus, StreamDb,
    TransactionState, WriteError,
};

use crate::{Message, Reply, Status, log_with_stream, message, run};

#[test]
fn what_is_written_is_read_at_once() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        let pending =
            db.live(live::from::<Message>().filter(Message::status.eq(Status::Pending))).unwrap();
        let wrote = messages.insert(message("b", Status::Pending)).unwrap();
        assert_eq!(wrote.state(), TransactionState::Completed);
        let _ = messages.insert(message("a", Status::Pending)).unwrap();
        assert_eq!(
            messages.rows().iter().map(|row| row.id.as_str()).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert!(messages.get("a").unwrap().is_synced());
        let _ = messages.update("a", |row| row.status = Status::Done).unwrap();
        let _ = messages.delete("b").unwrap();
        assert_eq!((pending.len(), messages.len()), (0, 1));
        assert_eq!(messages.status(), SourceStatus::Ready);
    });
}

#[test]
fn bad_writes_change_nothing_and_say_why() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        let _ = messages.insert(message("a", Status::Done)).unwrap();
        let told = |outcome: Result<live::Transaction, DbError>| outcome.unwrap_err().to_string();
        assert!(
            told(messages.insert(message("a", Status::Done))).contains("already has a row \"a\"")
        );
        assert!(told(messages.update("x", |_| ())).contains("no row \"x\" to update"));
        assert!(told(messages.update("a", |row| row.id = "b".into())).contains("cannot become"));
        assert!(told(messages.delete("x")).contains("no row \"x\" to delete"));
        let mixed = db.transaction(|writes| {
            writes.insert(message("c", Status::Done))?;
            writes.insert(Reply { id: "r".into(), to: "c".into() })
        });
        assert!(told(mixed).contains("no collection \"reply\""));
        assert!(matches!(db.local::<Message>(), Err(DbError::DuplicateCollection { .. })));
        assert_eq!(messages.len(), 1);
    });
}

#[test]
fn a_transaction_is_one_change() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let (messages, replies) = (db.local::<Message>().unwrap(), db.local::<Reply>().unwrap());
        let joined = live::from::<Reply>().left_join::<Message>(Reply::to, Message::id);
        let mut changes = db.changes(joined.select("text", Message::text)).unwrap();
        let wrote = db.transaction(|writes| {
            writes.insert(Reply { id: "r".into(), to: "a".into() })?;
            writes.insert(message("a", Status::Done))
        });
        assert_eq!(wrote.unwrap().state(), TransactionState::Completed);
        assert_eq!((messages.len(), replies.len()), (1, 1));
        let told = changes.next().await;
        assert_eq!((told.len(), told[0].kind()), (1, ChangeKind::Enter));
    });
}

#[test]
fn changes_that_nobody_takes_are_merged() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        let mut changes = messages.changes().unwrap();
        for likes in 0..100 {
            let id = format!("m{}", likes % 3);
            if messages.get(id.as_str()).is_none() {
                let _ = messages.insert(message(&id, Status::Done)).unwrap();
            }
            let _ = messages.update(id.as_str(), |row| row.likes = likes).unwrap();
        }
        let _ = messages.delete("m0").unwrap();
        let told = changes.next().await;
        let mut keys: Vec<_> = told.iter().map(|change| change.key.to_string()).collect();
        keys.sort();
        assert_eq!(keys, [r#""m1""#, r#""m2""#]);
        assert!(told.iter().all(|change| change.kind() == ChangeKind::Enter));
    });
}

#[test]
fn a_polled_source_shows_what_it_fetched_last() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let fetches = Arc::new(AtomicU32::new(0));
        let count = fetches.clone();
        let source = Polled::new(&sys, move || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move {
                match number {
                    0 => Ok(vec![message("a", Status::Done), message("b", Status::Done)]),
                    1 => Err("the server is down"),
                    _ => Ok(vec![message("b", Status::Pending)]),
                }
            }
        })
        .every(Duration::from_secs(60));
        let handle = source.handle();
        let messages = db.collection::<Message>(source).unwrap();
        messages.ready().await.unwrap();
        assert_eq!(messages.len(), 2);
        let mut changes = messages.changes().unwrap();
        changes.take();
        handle.refetch();
        let changed = changes.next().await;
        assert_eq!(changed.len(), 2);
        assert_eq!(fetches.load(Ordering::Relaxed), 3);
        assert_eq!(messages.rows()[0].status, Status::Pending);
        let refused = messages.delete("b").unwrap_err();
        assert_eq!(refused, DbError::ReadOnly { name: "message".into() });
    });
}

#[test]
fn a_lazy_source_fetches_only_what_somebody_watches() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let fetches = Arc::new(AtomicU32::new(0));
        let fetched = || fetches.load(Ordering::Relaxed);
        let count = fetches.clone();
        let source = Polled::new(&sys, move || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            async move {
                match number {
                    3 => Err("the server is down"),
                    _ => Ok(vec![message(&number.to_string(), Status::Done)]),
                }
            }
        })
        .every(Duration::from_secs(60))
        .lazy();
        let handle = source.handle();
        let messages = db.collection::<Message>(source).unwrap();
        sys.clock.sleep(Duration::from_secs(600)).await;
        assert_eq!((messages.status(), fetched()), (SourceStatus::Idle, 0));

        let watched = db.live(live::from::<Message>()).unwrap();
        watched.ready().await.unwrap();
        assert_eq!((messages.status(), fetched()), (SourceStatus::Ready, 1));
        let second = db.live(live::from::<Message>().order_by(Message::id).limit(1)).unwrap();
        second.ready().await.unwrap();
        assert_eq!(fetched(), 1, "what is fresh is not fetched again");

        let mut changes = messages.changes().unwrap();
        changes.take();
        handle.invalidate();
        changes.next().await;
        assert_eq!((fetched(), watched.rows()[0].id.as_str()), (2, "1"));

        drop((watched, second, changes));
        sys.clock.sleep(Duration::from_secs(600)).await;
        handle.invalidate();
        sys.clock.sleep(Duration::from_secs(1)).await;
        assert_eq!((fetched(), messages.len()), (2, 1), "nobody watches, and the rows stay");
        messages.ready().await.unwrap();
        assert_eq!((fetched(), messages.rows()[0].id.as_str()), (3, "2"));

        handle.invalidate();
        let watched = db.live(live::from::<Message>()).unwrap();
        let down = watched.ready().await.unwrap_err().to_string();
        assert!(down.contains("the server is down"), "{down}");
        drop(watched);
        let again = db.once_ready(live::from::<Message>()).await.unwrap();
        assert_eq!((fetched(), again[0].id.as_str()), (5, "4"), "who comes later fares better");
        handle.refetch();
        sys.clock.sleep(Duration::from_secs(1)).await;
        assert_eq!((fetched(), messages.rows()[0].id.as_str()), (6, "5"));
    });
}

/// What a paced action asked a server for.
#[derive(Clone, Default)]
struct Asked(Arc<parking_lot::Mutex<Vec<Vec<u32>>>>);

impl Asked {
    fn action(&self, db: &Db, sys: &sys::Sys, pace: Pace) -> PacedAction<u32> {
        let (this, sys) = (self.clone(), sys.clone());
        PacedAction::new(
            db,
            pace,
            |likes: &u32, writes| writes.update::<Message>("a", |row| row.likes = *likes),
            move |all| {
                this.0.lock().push(all.clone());
                let is_refused = all.contains(&13);
                let slow = sys.clone();
                async move {
                    slow.clock.sleep(Duration::from_millis(10)).await;
                    if is_refused { Err(live::PersistError::fatal("unlucky")) } else { Ok(()) }
                }
            },
        )
    }

    fn calls(&self) -> Vec<Vec<u32>> {
        self.0.lock().clone()
    }
}

async fn paced(sys: &sys::Sys, pace: Pace) -> (Vec<Vec<u32>>, u32) {
    let db = Db::new(sys);
    let messages = db.local::<Message>().unwrap();
    let _ = messages.insert(message("a", Status::Done)).unwrap();
    let asked = Asked::default();
    let like = asked.action(&db, sys, pace);
    let first = like.run(1).unwrap();
    assert_eq!((messages.get("a").unwrap().likes, first.state()), (1, TransactionState::Pending));
    tokio::task::yield_now().await;
    let second = like.run(2).unwrap();
    assert_eq!(messages.get("a").unwrap().likes, 2);
    let third = like.run(3).unwrap();
    third.settled().await.unwrap();
    assert!(first.state().is_settled() && second.state().is_settled());
    let refused = like.run(13).unwrap();
    assert_eq!(messages.get("a").unwrap().likes, 13);
    assert_eq!(refused.settled().await.unwrap_err().why, "unlucky");
    (asked.calls(), messages.get("a").unwrap().likes)
}

#[test]
fn paced_actions_are_shown_at_once_and_carried_out_in_their_time() {
    run(|sys| async move {
        let second = Duration::from_secs(1);
        let debounced = paced(&sys, Pace::Debounce(second)).await;
        assert_eq!(debounced.0, [vec![1, 2, 3], vec![13]]);
        let throttled = paced(&sys, Pace::Throttle(second)).await;
        assert_eq!(throttled.0, [vec![1], vec![2, 3], vec![13]]);
        let queued = paced(&sys, Pace::Queue).await;
        assert_eq!(queued.0, [vec![1], vec![2], vec![3], vec![13]]);
        // What was refused is not shown any more; nobody made the others last in this story.
        assert_eq!((debounced.1, throttled.1, queued.1), (0, 0, 0));
    });
}

#[test]
fn calls_that_wait_are_bounded() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        let _ = messages.insert(message("a", Status::Done)).unwrap();
        let like = Asked::default().action(&db, &sys, Pace::Queue);
        let taken: Vec<_> = (0..2_000).map(|likes| like.run(likes)).collect();
        let refused = taken.iter().find_map(|call| call.as_ref().err()).unwrap();
        assert!(refused.is_retryable());
        assert_eq!(taken.iter().filter(|call| call.is_ok()).count(), live::caps::PACED_MAX);
    });
}

/// A schema that is known at run time, a query that arrives as JSON.
#[test]
fn rows_that_are_data_work_in_the_same_queries() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        let column = |name, kind| live::ColumnDef::new(name, kind).required();
        let columns = [column("of", live::Kind::Text), column("stars", live::Kind::Number)];
        let schema = live::Schema::declared("id", columns);
        let ratings = db.local_dynamic("rating", schema).unwrap();
        let _ = messages.insert(message("a", Status::Done)).unwrap();
        let rated = ratings.insert_json(&serde_json::json!({"id": 1, "of": "a", "stars": 4}));
        rated.unwrap().settled().await.unwrap();
        let query = live::Query::from_json(
            r#"{"from":{"col":"message","as":"m"},
                "join":[{"type":"inner","col":"rating","as":"r",
                    "on":[[{"ref":["m","id"]},{"ref":["r","of"]}]]}],
                "select":{"text":{"ref":["m","text"]},"stars":{"ref":["r","stars"]}}}"#,
        );
        let rated = db.live(live::Find::<live::Dynamic>::from(query.unwrap())).unwrap();
        assert_eq!(rated.first().unwrap().get("stars").as_int(), Some(4));
        let _ = ratings.patch(1, serde_json::json!({"stars": 5})).unwrap();
        assert_eq!(rated.first().unwrap().get("stars").as_int(), Some(5));
        let _ = messages.patch("a", serde_json::json!({"likes": 9})).unwrap();
        assert_eq!(messages.get("a").unwrap().likes, 9);

        let told = |outcome: Result<live::Transaction, DbError>| outcome.unwrap_err().to_string();
        let bad =
            told(ratings.insert_json(&serde_json::json!({"id": 2, "of": "a", "stars": "many"})));
        assert!(bad.contains("stars") && bad.contains("a number") && bad.contains('2'), "{bad}");
        let bad = told(ratings.insert_json(&serde_json::json!([1])));
        assert!(bad.contains("rating"), "{bad}");
        let bad = told(messages.patch("a", serde_json::json!({"likes": "many"})));
        assert!(bad.contains("likes") && bad.contains("\"a\""), "{bad}");
        let bad = told(messages.patch("a", serde_json::json!({"nothing": 1})));
        assert!(bad.contains("nothing"), "{bad}");
        let bad = told(messages.patch("a", serde_json::json!(7)));
        assert!(bad.contains("JSON object"), "{bad}");
        let _ = ratings.delete(1).unwrap();
        assert!(rated.is_empty() && ratings.is_empty());
        assert_eq!(messages.get("a").unwrap().likes, 9);
    });
}

#[test]
fn rows_are_put_whether_they_are_there_or_not() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        for likes in [1, 2] {
            let _ = messages.put(Message { likes, ..message("a", Status::Done) }).unwrap();
        }
        assert_eq!((messages.len(), messages.get("a").unwrap().likes), (1, 2));
        let first = db.first(live::from::<Message>().order_by(Message::likes.desc())).unwrap();
        assert_eq!(first.unwrap().id, "a");
    });
}

#[test]
fn a_query_is_read_as_the_rows_it_shows() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        let _replies = db.local::<Reply>().unwrap();
        let _ = messages.insert(message("a", Status::Done)).unwrap();
        let all = live::Query::from_json(r#"{"from":{"col":"message","as":"m"}}"#).unwrap();
        let rows = db.once(live::Find::<Message>::from(all.clone())).unwrap();
        assert_eq!(rows[0].text, "text of a");
        let wrong = db.live(live::Find::<Reply>::from(all.clone())).unwrap_err();
        assert!(wrong.to_string().contains("Reply"), "{wrong}");
        assert!(db.changes(live::from_as::<Reply>("message", "m")).is_err());
        assert!(db.effect(live::Find::<Reply>::from(all)).start().is_err());
        let part = r#"{"from":{"col":"message","as":"m"},"select":{"id":{"ref":["m","id"]}}}"#;
        let part = live::Query::from_json(part).unwrap();
        assert!(db.once(live::Find::<Message>::from(part.clone())).is_err());
        let data = db.once(live::Find::<live::Dynamic>::from(part)).unwrap();
        assert_eq!(data[0].get("id").as_text().unwrap(), "a");
        db.define("everything", live::from::<Message>()).unwrap();
        let named = live::from_as::<Message>("everything", "e");
        assert_eq!(db.once(named).unwrap()[0].id, "a");
    });
}

/// Whatever writes a transaction: they see each other.
#[test]
fn a_transaction_sees_its_own_writes() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        let write = |writes: &mut live::Writes| {
            writes.put(message("a", Status::Pending))?;
            writes.put(Message { likes: 5, ..message("a", Status::Pending) })?;
            writes.update::<Message>("a", |row| row.likes += 1)?;
            writes.update::<Message>("a", |row| row.likes += 1)?;
            writes.patch("message", "a", serde_json::json!({"text": "patched"}))?;
            writes.update::<Message>("a", |row| row.text.push('!'))?;
            let own = writes.get::<Message>("a")?.unwrap();
            assert_eq!((own.likes, own.text.as_str()), (7, "patched!"));
            writes.insert(message("b", Status::Done))?;
            writes.delete::<Message>("b")?;
            assert_eq!(writes.get::<Message>("b")?, None);
            let gone = writes.update::<Message>("b", |row| row.likes = 1);
            assert!(matches!(gone, Err(DbError::Write(WriteError::UnknownKey { .. }))));
            Ok(())
        };
        let check = |what: &str| {
            let row = messages.get("a").unwrap();
            assert_eq!((row.likes, row.text.as_str()), (7, "patched!"), "{what}");
            assert_eq!(messages.len(), 1, "{what}");
        };
        db.transaction(write).unwrap().settled().await.unwrap();
        check("a transaction");
        messages.delete("a").unwrap().settled().await.unwrap();
        let work = Action::new(
            &db,
            move |(), writes| write(writes),
            |()| std::future::pending::<Result<(), live::PersistError>>(),
        );
        let _shown = work.run(()).unwrap();
        check("an action");
    });
}

/// Writes that go to different places cannot be one transaction.
#[test]
fn writes_to_a_stream_and_to_a_local_collection_do_not_mix() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = StreamDb::builder(log, address, &sys).with::<Message>().open().unwrap();
        db.ready().await.unwrap();
        let notes = db.local::<Reply>().unwrap();
        let mixed = db.transaction(|writes| {
            writes.insert(message("a", Status::Pending))?;
            writes.insert(Reply { id: "r".into(), to: "a".into() })
        });
        let error = mixed.unwrap_err();
        assert!(
            matches!(&error, DbError::MixedSources { first, second }
            if (first.as_str(), second.as_str()) == ("message", "reply")),
            "{error}"
        );
        assert!(db.rows::<Message>().unwrap().is_empty() && notes.is_empty(), "nothing is shown");
    });
}
