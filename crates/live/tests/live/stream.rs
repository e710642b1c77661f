//! Databases over a stream.

use std::time::Duration;

use live::{Origin, TransactionState};
use log::{Append, Log};
use wire::{Address, Messages};

use crate::{Message, Reply, Status, log_with_stream, message, open, run};

async fn append(log: &dyn Log, address: &Address, messages: &[&str]) {
    let messages = Messages::copied(messages.iter().map(|text| text.as_bytes())).unwrap();
    let _ = log.append(address, Append::messages(messages)).await.unwrap();
}

#[test]
fn two_databases_of_one_stream_show_the_same() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let (here, there) = (open(&log, &address, &sys), open(&log, &address, &sys));
        here.ready().await.unwrap();
        let wrote = here.rows::<Message>().unwrap().insert(message("a", Status::Pending)).unwrap();
        let shown = here.rows::<Message>().unwrap().get("a").unwrap();
        assert!(!shown.is_synced(), "shown before it lasts");
        assert_eq!(wrote.state(), TransactionState::Persisting);
        wrote.settled().await.unwrap();
        let mut changes = there.rows::<Message>().unwrap().changes().unwrap();
        changes.next().await;
        let (mine, theirs) = (here.rows::<Message>().unwrap(), there.rows::<Message>().unwrap());
        assert_eq!(*mine.get("a").unwrap(), *theirs.get("a").unwrap());
        assert!(mine.get("a").unwrap().is_synced());
        let origins =
            (mine.get("a").unwrap().meta().origin, theirs.get("a").unwrap().meta().origin);
        assert_eq!(origins, (Origin::Local, Origin::Remote));
        let wrote = theirs.update("a", |row| row.likes = 3).unwrap();
        wrote.settled().await.unwrap();
        let later = open(&log, &address, &sys);
        later.ready().await.unwrap();
        assert_eq!(later.rows::<Message>().unwrap().get("a").unwrap().likes, 3);
    });
}

#[test]
fn a_transaction_over_two_collections_is_one_tick_for_everybody() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let (here, there) = (open(&log, &address, &sys), open(&log, &address, &sys));
        there.ready().await.unwrap();
        let joined = live::from::<Reply>()
            .left_join::<Message>(Reply::to, Message::id)
            .select("text", Message::text);
        let mut changes = there.changes(joined).unwrap();
        let wrote = here.transaction(|writes| {
            writes.insert(Reply { id: "r".into(), to: "a".into() })?;
            writes.insert(message("a", Status::Done))
        });
        wrote.unwrap().settled().await.unwrap();
        let told = changes.next().await;
        let text = told[0].new.as_ref().unwrap().record.get("text").to_string();
        assert_eq!((told.len(), text.as_str()), (1, r#""text of a""#));
    });
}

#[test]
fn fields_that_only_others_know_survive_an_update() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let row = r#"{"id":"a","text":"t","status":"pending","theirs":{"x":1.5}}"#;
        let insert = format!(
            r#"{{"type":"message","key":"a","value":{row},"headers":{{"operation":"insert"}}}}"#
        );
        append(&*log, &address, &[&insert]).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        messages.update("a", |row| row.likes = 7).unwrap().settled().await.unwrap();
        let chunk = log.read(&address, wire::ReadFrom::Start, 1 << 20).await.unwrap();
        let last = String::from_utf8(chunk.messages().last().unwrap().to_vec()).unwrap();
        assert!(last.contains(r#""theirs":{"x":1.5}"#) && last.contains(r#""likes":7"#), "{last}");
    });
}

#[test]
fn a_remote_change_to_another_field_shows_through() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let (here, there) = (open(&log, &address, &sys), open(&log, &address, &sys));
        here.ready().await.unwrap();
        let messages = here.rows::<Message>().unwrap();
        messages.insert(message("a", Status::Pending)).unwrap().settled().await.unwrap();
        there.ready().await.unwrap();
        let mut seen = here.rows::<Message>().unwrap().changes().unwrap();
        seen.take();
        // Shown here at once; the other one comes by the stream while this is on its way.
        let mine = messages.update("a", |row| row.likes = 1).unwrap();
        assert_eq!(messages.get("a").unwrap().likes, 1);
        mine.settled().await.unwrap();
        let theirs = there.rows::<Message>().unwrap();
        theirs.update("a", |row| row.status = Status::Done).unwrap().settled().await.unwrap();
        while messages.get("a").unwrap().status != Status::Done {
            seen.next().await;
        }
        assert!(messages.get("a").unwrap().is_synced());
    });
}

#[test]
fn rows_that_do_not_fit_are_left_out_and_the_rest_goes_on() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let event = |kind: &str, key: &str, value: &str| {
            let headers = r#"{"operation":"insert","txid":"t9"}"#;
            format!(r#"{{"type":"{kind}","key":"{key}","value":{value},"headers":{headers}}}"#)
        };
        let unfit = event("message", "a", r#"{"id":"a","text":1}"#);
        let (unknown, fit) = (event("unknown", "a", "{}"), event("reply", "r", r#"{"to":"a"}"#));
        append(&*log, &address, &[&unfit, &unknown, &fit]).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        db.await_txid("t9", Duration::from_secs(1)).await.unwrap();
        assert!(db.await_txid("never", Duration::from_secs(1)).await.is_err());
        assert!(db.rows::<Message>().unwrap().is_empty());
        assert!(db.left_out() > 0, "somebody may ask what is missing");
        // The key is taken from the message where the row leaves it out.
        assert_eq!(db.rows::<Reply>().unwrap().get("r").unwrap().id, "r");
        let reset = r#"{"headers":{"control":"reset"}}"#;
        let mut changes = db.rows::<Reply>().unwrap().changes().unwrap();
        changes.take();
        append(&*log, &address, &[reset]).await;
        changes.next().await;
        assert!(db.rows::<Reply>().unwrap().is_empty());
    });
}

#[test]
fn writes_that_nobody_waits_for_keep_their_order_and_come_once() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        let mut last = None;
        for number in 0..100 {
            last = Some(messages.insert(message(&format!("m{number}"), Status::Done)).unwrap());
        }
        assert_eq!(messages.len(), 100, "shown at once");
        last.unwrap().settled().await.unwrap();
        let chunk = log.read(&address, wire::ReadFrom::Start, 1 << 20).await.unwrap();
        let keys = chunk.messages().map(|message| state::decode(message).body);
        let keys: Vec<_> = keys
            .map(|body| match body {
                state::Body::Change(change) => change.key.into_owned(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(keys, (0..100).map(|number| format!("m{number}")).collect::<Vec<_>>());
        assert!(messages.rows().iter().all(live::RowRef::is_synced));
    });
}

#[test]
fn a_name_that_cannot_be_one_is_refused() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let builder = live::StreamDb::builder(log, address, &sys).with::<Message>();
        let refused = builder.client(&"x".repeat(1_000)).open().unwrap_err();
        assert!(refused.to_string().contains("a client cannot be called"), "{refused}");
    });
}

#[test]
fn an_open_transaction_is_shown_and_can_be_taken_back_wherever_it_stands() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        messages.insert(message("a", Status::Pending)).unwrap().settled().await.unwrap();
        let (mut first, mut second) = (db.begin(), db.begin());
        first.update::<Message>("a", |row| row.likes = 1).unwrap();
        second.update::<Message>("a", |row| row.status = Status::Done).unwrap();
        second.insert(message("b", Status::Done)).unwrap();
        second.delete::<Message>("b").unwrap();
        assert!(second.insert(message("a", Status::Done)).is_err(), "and what was written stays");
        let row = messages.get("a").unwrap();
        assert_eq!((row.likes, row.status), (1, Status::Done));
        first.roll_back();
        let row = messages.get("a").unwrap();
        assert_eq!((row.likes, row.status), (0, Status::Done));
        second.commit().unwrap().settled().await.unwrap();
        assert!(messages.get("a").unwrap().is_synced());
        let head = log.head(&address).await.unwrap();
        assert_eq!(head.tail.position.get(), 2, "a row that came and went is not written");
        drop(db.begin());
    });
}

#[test]
fn an_action_shows_what_it_asks_for_until_it_has_come_or_failed() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let (db, server) = (open(&log, &address, &sys), open(&log, &address, &sys));
        db.ready().await.unwrap();
        server.ready().await.unwrap();
        let send = live::Action::new(
            &db,
            |text: &String, writes| {
                writes.insert(Message { text: text.clone(), ..message("m", Status::Pending) })
            },
            move |text: String| {
                let rows = server.rows::<Message>().unwrap();
                async move {
                    if text.is_empty() {
                        return Err(live::PersistError::fatal("the server wants a text"));
                    }
                    // The server writes a row of its own making.
                    let row = Message { text: text.to_uppercase(), ..message("m", Status::Done) };
                    rows.insert(row).unwrap().settled().await
                }
            },
        );
        let messages = db.rows::<Message>().unwrap();
        let failed = send.run(String::new()).unwrap();
        assert!(messages.get("m").is_some(), "shown at once");
        assert_eq!(failed.settled().await.unwrap_err().to_string(), "the server wants a text");
        assert!(messages.get("m").is_none());
        let sent = send.run("hi".into()).unwrap();
        assert_eq!(messages.get("m").unwrap().text, "hi");
        sent.settled().await.unwrap();
        let mut changes = messages.changes().unwrap();
        while messages.get("m").is_none_or(|row| row.text != "HI") {
            changes.next().await;
        }
        assert!(send.run("again".into()).is_err(), "the row is there already");
    });
}

#[test]
fn rows_that_are_data_come_by_the_stream_too() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let schema = || {
            let stars = live::ColumnDef::new("stars", live::Kind::Number).required();
            live::Schema::declared("id", [stars])
        };
        let open = || {
            let builder = live::StreamDb::builder(log.clone(), address.clone(), &sys);
            builder.with_dynamic("rating", schema()).with::<Message>().open().unwrap()
        };
        let (one, two) = (open(), open());
        let (ours, theirs) =
            (one.rows_dynamic("rating").unwrap(), two.rows_dynamic("rating").unwrap());
        let rating = serde_json::json!({"id": 7, "stars": 4, "why": "good"});
        ours.insert_json(&rating).unwrap().settled().await.unwrap();
        // Another writer: the key is in the message alone, and one row does not fit.
        let messages = [
            r#"{"type":"rating","key":"x","value":{"stars":1},"headers":{"operation":"insert"}}"#,
            r#"{"type":"rating","key":"y","value":{"stars":""},"headers":{"operation":"insert"}}"#,
        ];
        let messages = Messages::copied(messages.iter().map(|text| text.as_bytes()));
        let _ = log.append(&address, Append::messages(messages.unwrap())).await.unwrap();
        let mut changes = theirs.changes().unwrap();
        while theirs.len() < 2 {
            changes.next().await;
        }
        assert_eq!(theirs.get(7).unwrap().get("why").as_text().unwrap(), "good");
        assert_eq!(theirs.get("x").unwrap().get("stars").as_int(), Some(1));
        let stars = theirs.patch(7, serde_json::json!({"stars": 5}));
        stars.unwrap().settled().await.unwrap();
        theirs.delete("x").unwrap().settled().await.unwrap();
        let mut changes = ours.changes().unwrap();
        while ours.len() > 1 {
            changes.next().await;
        }
        let row: serde_json::Value = ours.get(7).unwrap().read().unwrap();
        assert_eq!(row, serde_json::json!({"id": 7, "stars": 5, "why": "good"}));
        ours.delete(7).unwrap().settled().await.unwrap();
        let third = open();
        third.ready().await.unwrap();
        assert!(third.rows_dynamic("rating").unwrap().is_empty());
    });
}

#[test]
fn a_stream_that_holds_no_json_has_no_rows_and_says_so() {
    run(|sys| async move {
        let (log, _) = log_with_stream(&sys).await;
        let address: Address = wire::StreamPath::from_url("bytes").unwrap().into();
        let _ = log.create(&address, log::Create::default()).await.unwrap();
        let db = open(&log, &address, &sys);
        let why = db.ready().await.unwrap_err().to_string();
        assert!(why.contains("bytes") && why.contains("application/json"), "{why}");
    });
}

#[test]
fn a_transaction_has_a_name_that_others_can_wait_for() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let (here, there) = (open(&log, &address, &sys), open(&log, &address, &sys));
        there.ready().await.unwrap();
        let wrote = here.rows::<Message>().unwrap().insert(message("a", Status::Done)).unwrap();
        let txid = wrote.txid().expect("it goes to a stream").to_owned();
        there.await_txid(&txid, Duration::from_secs(60)).await.unwrap();
        assert!(there.rows::<Message>().unwrap().get("a").is_some());
        let local = live::Db::new(&sys);
        let wrote = local.local::<Message>().unwrap().insert(message("a", Status::Done)).unwrap();
        assert_eq!(wrote.txid(), None);
    });
}
