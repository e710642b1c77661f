//! Writes while there is no network.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use live::{Db, DbError, Outbox, OutboxState, PersistError, StreamDb, TransactionState};
use log::{Log, MemoryLog};
use parking_lot::Mutex;
use sys::Sys;
use wire::{Address, StreamPath};

use crate::{
    Message, Status, log_with_stream, message, open, run,
    wrapped::{Weather, Wrapped},
};

/// A device: a log of its own, and a stream far away.
struct Device {
    sys: Sys,
    disk: Arc<dyn Log>,
    network: Arc<Wrapped>,
    address: Address,
}

impl Device {
    async fn new(sys: &Sys) -> (Self, StreamDb) {
        let (log, address) = log_with_stream(sys).await;
        let other = open(&log, &address, sys);
        let disk: Arc<dyn Log> = Arc::new(MemoryLog::new(sys));
        (Self { sys: sys.clone(), disk, network: Arc::new(Wrapped::new(&log)), address }, other)
    }

    fn open(&self) -> StreamDb {
        let builder = StreamDb::builder(self.network.clone(), self.address.clone(), &self.sys);
        let builder = builder.client("phone").outbox(self.disk.clone(), box_address());
        builder.with::<Message>().open().unwrap()
    }

    fn weather(&self, weather: Weather) {
        self.network.set(weather);
    }
}

fn box_address() -> StreamPath {
    StreamPath::from_url("outbox").unwrap()
}

/// Waits until an outbox is as it should be.
async fn until(db: &StreamDb, mut is_there: impl FnMut(&live::OutboxStatus) -> bool) {
    db.outbox().unwrap().wait_for(|status| is_there(status)).await.unwrap();
}

async fn rows_of(db: &StreamDb, count: usize) -> Vec<String> {
    let messages = db.rows::<Message>().unwrap();
    let mut changes = messages.changes().unwrap();
    while messages.len() < count {
        changes.next().await;
    }
    messages.rows().iter().map(|row| row.id.clone()).collect()
}

/// What was inserted, in the order of the stream, and how often.
async fn inserted(device: &Device) -> Vec<String> {
    let read = device.network.read(&device.address, wire::ReadFrom::Start, 1 << 20);
    let chunk = read.await.unwrap();
    let id = |message: &[u8]| {
        let json: serde_json::Value = serde_json::from_slice(message).unwrap();
        json["key"].as_str().unwrap().to_owned()
    };
    chunk.messages().map(id).collect()
}

#[test]
fn writes_wait_and_are_sent_when_the_network_is_back() {
    run(|sys| async move {
        let (device, other) = Device::new(&sys).await;
        let db = device.open();
        db.ready().await.unwrap();
        device.weather(Weather::Down);
        let messages = db.rows::<Message>().unwrap();
        let wrote = messages.insert(message("a", Status::Pending)).unwrap();
        wrote.queued().await.unwrap();
        assert_eq!(wrote.state(), TransactionState::Queued);
        assert!(!messages.get("a").unwrap().is_synced());
        until(&db, |status| matches!(status.state, OutboxState::Offline { .. })).await;
        let later = messages.update("a", |row| row.likes = 7).unwrap();
        until(&db, |status| status.waiting == 2).await;
        device.weather(Weather::Fine);
        db.hurry();
        later.settled().await.unwrap();
        wrote.settled().await.unwrap();
        assert!(messages.get("a").unwrap().is_synced());
        until(&db, live::OutboxStatus::is_idle).await;
        rows_of(&other, 1).await;
        while other.rows::<Message>().unwrap().get("a").unwrap().likes != 7 {
            tokio::task::yield_now().await;
        }
        assert_eq!(inserted(&device).await, ["a", "a"]);
    });
}

#[test]
fn what_waited_is_shown_and_sent_after_a_restart_and_once() {
    for lost in [Weather::Down, Weather::Deaf] {
        run(|sys| async move {
            let (device, other) = Device::new(&sys).await;
            let first = device.open();
            first.ready().await.unwrap();
            device.weather(lost);
            let messages = first.rows::<Message>().unwrap();
            let ids: Vec<_> = (0..5).map(|number| format!("m{number}")).collect();
            for id in &ids {
                let wrote = messages.insert(message(id, Status::Done)).unwrap();
                wrote.queued().await.unwrap();
            }
            until(&first, |status| matches!(status.state, OutboxState::Offline { .. })).await;
            drop((first, messages));
            device.weather(Weather::Down);
            let second = device.open();
            until(&second, |status| status.waiting == 5).await;
            assert_eq!(rows_of(&second, 5).await, ids);
            assert!(second.rows::<Message>().unwrap().rows().iter().all(|row| !row.is_synced()));
            device.weather(Weather::Fine);
            second.hurry();
            until(&second, live::OutboxStatus::is_idle).await;
            assert_eq!(rows_of(&other, 5).await, ids);
            assert_eq!(inserted(&device).await, ids, "{lost:?}");
        });
    }
}

#[test]
fn an_update_that_waited_leaves_what_others_did_meanwhile() {
    run(|sys| async move {
        let (device, other) = Device::new(&sys).await;
        let theirs = other.rows::<Message>().unwrap();
        theirs.insert(message("a", Status::Done)).unwrap().settled().await.unwrap();
        theirs.insert(message("b", Status::Done)).unwrap().settled().await.unwrap();
        let db = device.open();
        db.ready().await.unwrap();
        device.weather(Weather::Down);
        let ours = db.rows::<Message>().unwrap();
        let liked = ours.update("a", |row| row.likes = 3).unwrap();
        let gone = ours.update("b", |row| row.likes = 3).unwrap();
        gone.queued().await.unwrap();
        theirs.update("a", |row| row.text = "new".into()).unwrap().settled().await.unwrap();
        theirs.delete("b").unwrap().settled().await.unwrap();
        device.weather(Weather::Fine);
        db.hurry();
        liked.settled().await.unwrap();
        gone.settled().await.unwrap();
        while theirs.get("a").unwrap().likes != 3 {
            tokio::task::yield_now().await;
        }
        let row = ours.get("a").unwrap();
        assert_eq!((row.text.as_str(), row.likes, row.is_synced()), ("new", 3, true));
        assert_eq!((ours.len(), theirs.len()), (1, 1));
    });
}

#[test]
fn an_update_that_waited_is_shown_again_on_its_row() {
    run(|sys| async move {
        let (device, other) = Device::new(&sys).await;
        let theirs = other.rows::<Message>().unwrap();
        theirs.insert(message("a", Status::Done)).unwrap().settled().await.unwrap();
        let first = device.open();
        first.ready().await.unwrap();
        device.weather(Weather::Deaf);
        let ours = first.rows::<Message>().unwrap();
        ours.update("a", |row| row.likes = 3).unwrap().queued().await.unwrap();
        until(&first, |status| matches!(status.state, OutboxState::Offline { .. })).await;
        ours.update("a", |row| row.text = "new".into()).unwrap().queued().await.unwrap();
        drop((first, ours));
        device.weather(Weather::Fine);
        let second = device.open();
        until(&second, live::OutboxStatus::is_idle).await;
        while theirs.get("a").unwrap().text != "new" {
            tokio::task::yield_now().await;
        }
        let row = theirs.get("a").unwrap();
        assert_eq!((row.likes, row.text.as_str()), (3, "new"));
        assert_eq!(inserted(&device).await, ["a", "a", "a"]);
    });
}

#[test]
fn what_is_refused_for_good_is_taken_back_and_the_rest_goes_on() {
    run(|sys| async move {
        let (device, _other) = Device::new(&sys).await;
        let db = device.open();
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        let _ = device.network.close(&device.address).await.unwrap();
        let wrote = messages.insert(message("a", Status::Done)).unwrap();
        let refused = wrote.settled().await.unwrap_err();
        assert!(refused.why.contains("closed"), "{refused}");
        assert!(messages.is_empty());
        until(&db, live::OutboxStatus::is_idle).await;
        assert_eq!(db.outbox().unwrap().borrow().refused, 1);
    });
}

#[test]
fn an_outbox_has_one_owner_and_says_so() {
    run(|sys| async move {
        let (device, _other) = Device::new(&sys).await;
        let first = device.open();
        first.ready().await.unwrap();
        until(&first, live::OutboxStatus::is_idle).await;
        let second = device.open();
        until(&second, live::OutboxStatus::is_idle).await;
        let wrote = first.rows::<Message>().unwrap().insert(message("a", Status::Done)).unwrap();
        let refused = wrote.settled().await.unwrap_err();
        assert!(refused.why.contains("opened elsewhere"), "{refused}");
        until(&first, |status| matches!(status.state, OutboxState::Closed { .. })).await;
        assert!(first.rows::<Message>().unwrap().is_empty());
    });
}

#[test]
fn an_outbox_is_bounded() {
    run(|sys| async move {
        let (device, _other) = Device::new(&sys).await;
        let db = device.open();
        db.ready().await.unwrap();
        device.weather(Weather::Down);
        let messages = db.rows::<Message>().unwrap();
        let large = "x".repeat(live::caps::OUTBOX_BYTES_MAX / 4);
        let mut taken = Vec::new();
        for number in 0..6 {
            let row =
                Message { text: large.clone(), ..message(&format!("{number}"), Status::Done) };
            taken.push(messages.insert(row).unwrap().queued().await);
        }
        let refused = taken.iter().find_map(|wrote| wrote.as_ref().err()).unwrap();
        assert!(refused.is_retryable() && refused.why.contains("full"), "{refused}");
        assert_eq!(taken.iter().filter(|wrote| wrote.is_ok()).count(), 3);
        assert_eq!(messages.len(), 3);
    });
}

#[test]
fn a_long_life_leaves_no_long_stream() {
    run(|sys| async move {
        let (device, _other) = Device::new(&sys).await;
        let db = device.open();
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        for number in 0..1_500 {
            let wrote = messages.insert(message(&format!("{number}"), Status::Done)).unwrap();
            wrote.settled().await.unwrap();
        }
        until(&db, live::OutboxStatus::is_idle).await;
        let head = device.disk.head(&box_address().into()).await.unwrap();
        let kept = head.tail.position.get() - head.earliest.position.get();
        assert!(kept < 1_500, "{kept} lines are kept of an empty outbox");
    });
}

/// A server that is asked to add messages, and fails at first.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<Mutex<Vec<(String, String)>>>,
    failures: Arc<AtomicU32>,
}

impl Server {
    fn open(&self, db: &Db, disk: &Arc<dyn Log>) -> Outbox {
        let this = self.clone();
        Outbox::builder(db, disk.clone(), box_address())
            .action(
                "add",
                |row: &Message, writes| writes.insert(row.clone()),
                move |row: Message, delivery| {
                    this.asked.lock().push((row.id.clone(), delivery.key().to_owned()));
                    let fails = this.failures.load(Ordering::SeqCst) > 0;
                    let outcome = match row.text.as_str() {
                        "never" => Err(PersistError::fatal("no")),
                        _ if fails => Err(PersistError::retryable("busy")),
                        _ => Ok(()),
                    };
                    std::future::ready(outcome)
                },
            )
            .open()
    }
}

#[test]
fn actions_are_carried_out_in_order_under_keys_that_stay() {
    run(|sys| async move {
        let (server, disk): (_, Arc<dyn Log>) = (Server::default(), Arc::new(MemoryLog::new(&sys)));
        server.failures.store(1, Ordering::SeqCst);
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        let outbox = server.open(&db, &disk);
        let ids = ["a", "b", "c"];
        for id in ids {
            let added = outbox.run("add", &message(id, Status::Done)).unwrap();
            added.queued().await.unwrap();
        }
        let unknown = outbox.run("remove", &1).unwrap_err();
        assert_eq!(unknown, DbError::UnknownAction { name: "remove".into() });
        assert_eq!((messages.len(), outbox.status().waiting), (3, 3));
        drop((outbox, messages, db));

        server.failures.store(0, Ordering::SeqCst);
        let db = Db::new(&sys);
        let messages = db.local::<Message>().unwrap();
        let outbox = server.open(&db, &disk);
        let never = Message { text: "never".into(), ..message("d", Status::Done) };
        let refused = outbox.run("add", &never).unwrap().settled().await;
        assert_eq!(refused.unwrap_err().why, "no");
        outbox.watch().wait_for(live::OutboxStatus::is_idle).await.unwrap();
        // Nobody synced what the server was asked for, so nothing is shown.
        assert!(messages.is_empty());
        let asked = server.asked.lock().clone();
        let mut keys: Vec<_> = asked.iter().map(|(_, key)| key.as_str()).collect();
        keys.dedup();
        assert_eq!(keys.len(), 4, "{asked:?}");
        let mut order: Vec<_> = asked.iter().map(|(id, _)| id.as_str()).collect();
        order.dedup();
        assert_eq!(order, ["a", "b", "c", "d"]);
        assert_eq!(outbox.status().refused, 1);
    });
}
