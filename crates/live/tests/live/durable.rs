//! Effects that go on after a crash where they were.

use std::sync::Arc;

use live::{Context, Effect, Event, EventId, StreamDb};
use log::Log;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::{Message, Reply, Status, log_with_stream, message, open, run};

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

/// The events of a stream, whether it is read as it grows or from chunks of one message.
#[test]
fn catching_up_gives_the_events_of_a_live_run() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let live = Answering::new(100);
        let effect = live.start(&db);
        for round in 0..5 {
            let id = format!("m{round}");
            let both = db.transaction(|writes| {
                writes.insert(message(&id, Status::Pending))?;
                writes.insert(message(&format!("{id}-twin"), Status::Pending))
            });
            both.unwrap().settled().await.unwrap();
        }
        let seen = live.until(10).await;
        replies(&db, 10).await;
        effect.dispose().await;
        let copy = sliced(&log, &address, &sys).await;
        assert_eq!(copy, seen);
    });
}

/// Delivers all events of a stream anew, from a log whose chunks hold one message each.
async fn sliced(log: &Arc<dyn Log>, address: &wire::Address, sys: &sys::Sys) -> Vec<EventId> {
    let (other, path) = log_with_stream(sys).await;
    let chunk = log.read(address, wire::ReadFrom::Start, 1 << 20).await.unwrap();
    let late = open(&other, &path, sys);
    late.ready().await.unwrap();
    let answering = Answering::new(100);
    // The effect begins with the empty stream, as the other one did, and dies at once.
    let effect = answering.start(&late);
    while other.head(&path).await.unwrap().tail.position.get() == 0 {
        tokio::task::yield_now().await;
    }
    drop(effect);
    for message in chunk.messages().skip(1) {
        let text = std::str::from_utf8(message).unwrap();
        if text.contains(r#""type":"message""#) {
            let one = wire::Messages::copied([message]).unwrap();
            let _ = other.append(&path, log::Append::messages(one)).await.unwrap();
        } else {
            // Keeps positions as they were.
            let filler =
                r#"{"type":"filler","key":"f","value":1,"headers":{"operation":"upsert"}}"#;
            let one = wire::Messages::copied([filler.as_bytes()]).unwrap();
            let _ = other.append(&path, log::Append::messages(one)).await.unwrap();
        }
    }
    let effect = answering.start(&late);
    let seen = answering.until(10).await;
    effect.dispose().await;
    seen
}
