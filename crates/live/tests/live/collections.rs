//! Local collections, live queries, polled sources.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use live::{ChangeKind, Db, DbError, Polled, Status as SourceStatus, TransactionState};

use crate::{Message, Reply, Status, message, run};

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
fn a_source_stops_when_nobody_has_its_database() {
    run(|sys| async move {
        let db = Db::new(&sys);
        let lives = Arc::new(());
        let life = lives.clone();
        let source = Polled::new(&sys, move || {
            let life = life.clone();
            async move {
                let row = message("a", Status::Done);
                drop(life);
                Ok::<_, String>(vec![row])
            }
        });
        let messages = db.collection::<Message>(source).unwrap();
        drop(db);
        messages.ready().await.unwrap();
        assert_eq!((messages.len(), Arc::strong_count(&lives)), (1, 2));
        drop(messages);
        sys.clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(Arc::strong_count(&lives), 1);
    });
}
