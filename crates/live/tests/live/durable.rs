//! Effects that go on after a crash where they were.

use std::sync::Arc;

use live::{Context, Effect, Event, EventId, StreamDb};
use log::Log;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::{
    Message, Reply, Status, log_with_stream, message, open, run,
    wrapped::{Fate, Wrapped},
};

/// A handler that answers each pending message once, but only as often as it is allowed to.
#[derive(Clone)]
pub(crate) struct Answering {
    pub(crate) seen: Arc<Mutex<Vec<EventId>>>,
    pub(crate) allowed: Arc<Semaphore>,
    pub(crate) news: Arc<Notify>,
}

impl Answering {
    pub(crate) fn new(times: usize) -> Self {
        let allowed = Arc::new(Semaphore::new(times));
        Self { seen: Arc::default(), allowed, news: Arc::default() }
    }

    pub(crate) fn start(&self, db: &StreamDb) -> Effect {
        let this = self.clone();
        let pending = live::from::<Message>().filter(Message::status.eq(Status::Pending));
        let effect = db.durable_effect("answer", pending).on_enter(move |event, context| {
            let this = this.clone();
            async move { this.answer(event, context).await }
        });
        effect.start().unwrap()
    }

    async fn answer(&self, event: Event<Message>, ctx: Context) -> Result<(), live::HandlerError> {
        self.seen.lock().push(event.id().clone());
        self.news.notify_waiters();
        self.allowed.acquire().await.unwrap().forget();
        let to = event.row().id.clone();
        let reply = Reply { id: format!("re-{to}-{}", event.id().position), to };
        ctx.commit(|rows| rows.put(&reply)).await?;
        Ok(())
    }

    pub(crate) async fn until(&self, count: usize) -> Vec<EventId> {
        loop {
            let news = self.news.notified();
            let seen = self.seen.lock().clone();
            if seen.len() >= count {
                return seen;
            }
            news.await;
        }
    }
}

pub(crate) async fn replies(db: &StreamDb, count: usize) -> Vec<String> {
    let replies = db.rows::<Reply>().unwrap();
    let mut changes = replies.changes().unwrap();
    while replies.len() < count {
        changes.next().await;
    }
    replies.rows().iter().map(|row| row.to.clone()).collect()
}

pub(crate) async fn write(db: &StreamDb, ids: &[&str]) {
    let messages = db.rows::<Message>().unwrap();
    for id in ids {
        messages.insert(message(id, Status::Pending)).unwrap().settled().await.unwrap();
    }
}

#[test]
fn an_event_that_was_not_finished_is_delivered_again_under_the_same_id() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        write(&db, &["a", "b", "c"]).await;
        let first = Answering::new(1);
        let effect = first.start(&db);
        let seen = first.until(2).await;
        assert_eq!(replies(&db, 1).await, ["a"]);
        // It dies in the middle of the second.
        drop(effect);
        write(&db, &["d"]).await;
        let second = Answering::new(10);
        let effect = second.start(&db);
        let mut answered = replies(&db, 4).await;
        answered.sort();
        assert_eq!(answered, ["a", "b", "c", "d"]);
        let again = second.until(3).await;
        assert_eq!(again[0], seen[1], "the same id");
        assert_eq!(again.len(), 3);
        effect.dispose().await;
    });
}

#[test]
fn a_second_runner_takes_over_and_the_first_one_stops() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        write(&db, &["a"]).await;
        let (old, new) = (Answering::new(0), Answering::new(10));
        let first = old.start(&db);
        old.until(1).await;
        let second = new.start(&db);
        assert_eq!(replies(&db, 1).await, ["a"]);
        // The first one may go on now, and finds that it is not in charge.
        old.allowed.add_permits(10);
        first.ended().await;
        write(&db, &["b"]).await;
        assert_eq!(replies(&db, 2).await, ["a", "b"]);
        assert_eq!(db.rows::<Reply>().unwrap().len(), 2);
        second.dispose().await;
    });
}

#[test]
fn every_transition_is_delivered_however_late() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let none = Answering::new(0);
        let effect = none.start(&db);
        write(&db, &["x"]).await;
        none.until(1).await;
        drop(effect);
        // While nobody looks, a row enters twice and leaves twice.
        let messages = db.rows::<Message>().unwrap();
        for _ in 0..2 {
            messages.insert(message("y", Status::Pending)).unwrap().settled().await.unwrap();
            messages.delete("y").unwrap().settled().await.unwrap();
        }
        let all = Answering::new(10);
        let effect = all.start(&db);
        assert_eq!(replies(&db, 3).await.iter().filter(|to| *to == "y").count(), 2);
        assert_eq!(all.until(3).await.len(), 3);
        effect.dispose().await;
    });
}

/// What is told of a stream, in order.
#[derive(Clone, Default)]
struct Told(Arc<(Mutex<Vec<String>>, Notify)>);

impl Told {
    fn start(&self, db: &StreamDb, name: &str) -> Effect {
        let this = self.clone();
        let tell = move |event: Event<Message>, _: Context| {
            let (key, position) = (event.row().id.clone(), event.id().position);
            this.0.0.lock().push(format!("{:?} {key} {position}", event.kind()));
            this.0.1.notify_waiters();
            async { Ok(()) }
        };
        let pending = live::from::<Message>().filter(Message::status.eq(Status::Pending));
        let effect = db.durable_effect(name, pending).on_enter(tell.clone());
        effect.on_update(tell.clone()).on_exit(tell).start().unwrap()
    }

    async fn until(&self, count: usize) -> Vec<String> {
        loop {
            let news = self.0.1.notified();
            let told = self.0.0.lock().clone();
            if told.len() >= count {
                return told;
            }
            news.await;
        }
    }
}

/// Messages of one transaction each: some enter, change, leave and come again.
async fn story(db: &StreamDb) {
    for round in 0..3 {
        let (one, twin) = (format!("m{round}"), format!("m{round}-twin"));
        let both = db.transaction(|writes| {
            writes.insert(message(&twin, Status::Pending))?;
            writes.insert(message(&one, Status::Pending))
        });
        both.unwrap().settled().await.unwrap();
        let change = db.transaction(|writes| {
            writes.update::<Message>(one.as_str(), |row| row.likes = 1)?;
            writes.update::<Message>(twin.as_str(), |row| row.status = Status::Done)?;
            writes.insert(message(&format!("{one}-last"), Status::Pending))
        });
        change.unwrap().settled().await.unwrap();
        let leave = db.transaction(|writes| {
            writes.delete::<Message>(one.as_str())?;
            writes.update::<Message>(twin.as_str(), |row| row.status = Status::Pending)
        });
        leave.unwrap().settled().await.unwrap();
    }
}

/// The events of a stream are the same whether it is read as it grows or later, wherever the chunks
/// that the reader gets are cut.
#[test]
fn catching_up_gives_the_events_of_a_live_run() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        write(&db, &["first"]).await;
        let live = Told::default();
        let effect = live.start(&db, "live");
        // The row that is there when it begins stands right before its start.
        assert_eq!(live.until(1).await, ["Enter first 0"]);
        let start = 1;
        story(&db).await;
        let seen = live.until(1 + 3 * 7).await;
        effect.dispose().await;
        for kind in ["Enter", "Update", "Exit"] {
            assert!(seen.iter().any(|told| told.starts_with(kind)), "no {kind}");
        }
        let end = log.head(&address).await.unwrap().tail.position.get();
        let chunks = (1..=8).map(|most| (most, 0)).chain((1..=end).map(|cut| (usize::MAX, cut)));
        for (chunk_max, cut) in chunks {
            let cutting = Wrapped::cutting(&log, chunk_max, cut);
            let name = format!("late-{chunk_max}-{cut}");
            begin(&log, &address, &name, start).await;
            let (late, db) = (Told::default(), open(&cutting, &address, &sys));
            let effect = late.start(&db, &name);
            let told = late.until(seen.len()).await;
            effect.dispose().await;
            assert_eq!(told, seen, "chunks of {chunk_max}, cut at {cut}");
        }
    });
}

/// Has an effect begin where another one did.
async fn begin(log: &Arc<dyn Log>, address: &wire::Address, effect: &str, start: u64) {
    let value = format!(r#"{{"start":{start},"position":{},"epoch":0}}"#, start - 1);
    put(log, address, "headwater.cursor", effect, &value).await;
}

pub(crate) async fn put(
    log: &Arc<dyn Log>,
    address: &wire::Address,
    name: &str,
    key: &str,
    value: &str,
) {
    let headers = r#"{"operation":"upsert"}"#;
    let row = format!(r#"{{"type":"{name}","key":"{key}","value":{value},"headers":{headers}}}"#);
    let append = log::Append::messages(wire::Messages::one(row).unwrap());
    let _ = log.append(address, append).await.unwrap();
}

#[test]
fn a_durable_effect_of_more_than_its_stream_is_refused_at_once() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        db.define("everything", live::from::<Message>()).unwrap();
        let _here = db.local::<Note>().unwrap();
        let named = live::from_as::<Message>("everything", "message");
        let named = db.durable_effect("named", named).on_enter(|_, _| async { Ok(()) }).start();
        let local = db.durable_effect("local", live::from::<Note>());
        let local = local.on_enter(|_, _| async { Ok(()) }).start();
        for refused in [named.unwrap_err(), local.unwrap_err()] {
            assert!(matches!(refused, live::DbError::NotOfTheStream { .. }), "{refused}");
        }
        // The same is no trouble for effects of the database.
        let effect = db.effect(live::from::<Note>()).on_enter(|_, _| async { Ok(()) });
        effect.start().unwrap().dispose().await;
    });
}

/// A row that is in no stream.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, live::Row)]
struct Note {
    id: String,
}

/// What waits for a slow handler is not read ahead without end.
#[test]
fn a_slow_handler_holds_the_reader_back() {
    run(|sys| async move {
        const TOTAL: usize = 4 * live::caps::EVENTS_WAITING_MAX;
        let (log, address) = log_with_stream(&sys).await;
        let rows: Vec<String> = (0..TOTAL)
            .map(|n| {
                let value = format!(r#"{{"id":"{n}","text":"","status":"pending"}}"#);
                let headers = r#"{"operation":"insert"}"#;
                format!(r#"{{"type":"message","key":"{n}","value":{value},"headers":{headers}}}"#)
            })
            .collect();
        // It begins before the first of them.
        begin(&log, &address, "slow", 1).await;
        let all = wire::Messages::copied(rows.iter().map(String::as_bytes)).unwrap();
        let _ = log.append(&address, log::Append::messages(all)).await.unwrap();
        let narrow = Arc::new(Wrapped::narrow(&log, 1));
        let waist: Arc<dyn Log> = narrow.clone();
        let db = open(&waist, &address, &sys);
        db.ready().await.unwrap();
        let slow = Answering::new(0);
        let this = slow.clone();
        let effect = db.durable_effect("slow", live::from::<Message>());
        let effect = effect.on_enter(move |event, context| {
            let this = this.clone();
            async move { this.answer(event, context).await }
        });
        let effect = effect.start().unwrap();
        slow.until(1).await;
        sys.clock.sleep(std::time::Duration::from_secs(60)).await;
        let read = narrow.read.load(std::sync::atomic::Ordering::Relaxed);
        // The rows of the database, the search for the cursor, and what waits.
        let most = 2 * (TOTAL + 2) + live::caps::EVENTS_WAITING_MAX + 4;
        assert!(read <= most, "{read} messages were read, {most} are enough");
        slow.allowed.add_permits(TOTAL);
        assert_eq!(slow.until(TOTAL).await.len(), TOTAL);
        effect.dispose().await;
    });
}

/// It is started, and dies before it could say where it is.
#[test]
fn an_effect_begins_where_it_was_claimed_first() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let lost = Wrapped::fated(&log, vec![Fate::Done, Fate::Fails]);
        let (db, elsewhere) = (open(&log, &address, &sys), open(&lost, &address, &sys));
        elsewhere.ready().await.unwrap();
        Answering::new(0).start(&elsewhere).ended().await;
        write(&db, &["a"]).await;
        db.rows::<Message>().unwrap().delete("a").unwrap().settled().await.unwrap();
        let answering = Answering::new(10);
        let effect = answering.start(&db);
        assert_eq!(replies(&db, 1).await, ["a"]);
        effect.dispose().await;
    });
}
