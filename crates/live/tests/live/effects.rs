//! Effects that begin anew each time.

use std::{sync::Arc, time::Duration};

use live::{ChangeKind, Db, HandlerError, Retry};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Message, Status, log_with_stream, message, open, run};

/// What handlers were told, in order.
#[derive(Clone, Default)]
struct Told(Arc<(Mutex<Vec<String>>, Notify)>);

impl Told {
    fn tell(&self, what: String) {
        self.0.0.lock().push(what);
        self.0.1.notify_waiters();
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

fn pending() -> live::Find<Message> {
    live::from::<Message>().filter(Message::status.eq(Status::Pending))
}

#[test]
fn rows_enter_change_and_leave() {
    run(|sys| async move {
        let (db, told) = (Db::new(&sys), Told::default());
        let messages = db.local::<Message>().unwrap();
        let _ = messages.insert(message("a", Status::Pending)).unwrap();
        let handler = |told: &Told| {
            let told = told.clone();
            move |event: live::Event<Message>, _: live::Context| {
                told.tell(format!("{:?} {} {}", event.kind(), event.row().id, event.row().likes));
                async { Ok(()) }
            }
        };
        let effect = db.effect(pending()).on_enter(handler(&told)).on_update(handler(&told));
        let effect = effect.on_exit(handler(&told)).start().unwrap();
        told.until(1).await;
        let _ = messages.update("a", |row| row.likes = 1).unwrap();
        told.until(2).await;
        let _ = messages.update("a", |row| row.status = Status::Done).unwrap();
        let expected = ["Enter a 0", "Update a 1", "Exit a 1"];
        assert_eq!(told.until(3).await, expected);
        effect.dispose().await;
    });
}

#[test]
fn a_row_that_comes_and_goes_unseen_is_no_event() {
    run(|sys| async move {
        let (db, told) = (Db::new(&sys), Told::default());
        let messages = db.local::<Message>().unwrap();
        let seen = told.clone();
        let effect = db
            .effect(pending())
            .on_batch(move |events, _| {
                let ids: Vec<_> = events.iter().map(|event| event.row().id.clone()).collect();
                seen.tell(ids.join(" "));
                async { Ok(()) }
            })
            .start()
            .unwrap();
        let _ = messages.insert(message("a", Status::Pending)).unwrap();
        let _ = messages.insert(message("b", Status::Pending)).unwrap();
        let _ = messages.delete("a").unwrap();
        assert_eq!(told.until(1).await, ["b"]);
        effect.dispose().await;
    });
}

#[test]
fn a_failed_handler_is_tried_again_and_then_given_up() {
    run(|sys| async move {
        let (db, told) = (Db::new(&sys), Told::default());
        let messages = db.local::<Message>().unwrap();
        let (seen, buried) = (told.clone(), told.clone());
        let retry = Retry { attempts_max: 3, ..Retry::default() };
        let effect = db
            .effect(pending())
            .on_enter(move |event, context| {
                seen.tell(format!("{} attempt {}", event.row().id, context.attempt()));
                let fails = event.row().id == "bad" || context.attempt() < 2;
                async move { if fails { Err(HandlerError::new("no luck")) } else { Ok(()) } }
            })
            .on_dead_letter(move |event, error| buried.tell(format!("{} {error}", event.row().id)))
            .retry(retry)
            .start()
            .unwrap();
        let _ = messages.insert(message("bad", Status::Pending)).unwrap();
        told.until(4).await;
        let _ = messages.insert(message("good", Status::Pending)).unwrap();
        let expected = [
            "bad attempt 1",
            "bad attempt 2",
            "bad attempt 3",
            "bad no luck",
            "good attempt 1",
            "good attempt 2",
        ];
        assert_eq!(told.until(6).await, expected);
        effect.dispose().await;
    });
}

#[test]
fn some_at_a_time_and_one_row_in_order() {
    run(|sys| async move {
        let (db, told) = (Db::new(&sys), Told::default());
        let messages = db.local::<Message>().unwrap();
        for id in ["a", "b", "c"] {
            let _ = messages.insert(message(id, Status::Pending)).unwrap();
        }
        let (seen, clock) = (told.clone(), sys.clock.clone());
        let handle = move |event: live::Event<Message>, _: live::Context| {
            let (told, clock) = (seen.clone(), clock.clone());
            async move {
                let name = format!("{} {}", event.row().id, event.row().likes);
                told.tell(format!("start {name}"));
                // The first is slow, so that others overtake it.
                let seconds = if event.kind() == ChangeKind::Enter { 60 } else { 1 };
                clock.sleep(Duration::from_secs(seconds)).await;
                told.tell(format!("end {name}"));
                Ok(())
            }
        };
        let effect = db.effect(pending()).on_enter(handle.clone()).on_update(handle);
        let effect = effect.concurrency(2).start().unwrap();
        assert_eq!(told.until(2).await, ["start a 0", "start b 0"]);
        let _ = messages.update("a", |row| row.likes = 1).unwrap();
        let told = told.until(8).await;
        let at = |what: &str| told.iter().position(|told| told == what).unwrap();
        assert!(at("end a 0") < at("start a 1"), "{told:?}");
        assert!(at("start c 0") > at("end a 0").min(at("end b 0")), "{told:?}");
        effect.dispose().await;
    });
}

#[test]
fn dispose_waits_for_the_handler_and_starts_no_other() {
    run(|sys| async move {
        let (db, told) = (Db::new(&sys), Told::default());
        let messages = db.local::<Message>().unwrap();
        let (seen, clock) = (told.clone(), sys.clock.clone());
        let effect = db
            .effect(pending())
            .on_enter(move |event, context| {
                let (told, clock) = (seen.clone(), clock.clone());
                async move {
                    told.tell(format!("start {}", event.row().id));
                    context.cancellation().cancelled().await;
                    clock.sleep(Duration::from_secs(5)).await;
                    told.tell(format!("end {}", event.row().id));
                    Ok(())
                }
            })
            .start()
            .unwrap();
        let _ = messages.insert(message("a", Status::Pending)).unwrap();
        let _ = messages.insert(message("b", Status::Pending)).unwrap();
        told.until(1).await;
        effect.dispose().await;
        assert_eq!(told.until(2).await, ["start a", "end a"]);
    });
}

#[test]
fn rows_that_are_there_can_be_passed_over() {
    run(|sys| async move {
        let (db, told) = (Db::new(&sys), Told::default());
        let messages = db.local::<Message>().unwrap();
        let _ = messages.insert(message("old", Status::Pending)).unwrap();
        let seen = told.clone();
        let effect = db.effect(pending()).skip_initial().on_enter(move |event, _| {
            seen.tell(event.row().id.clone());
            async { Ok(()) }
        });
        let effect = effect.start().unwrap();
        let _ = messages.insert(message("new", Status::Pending)).unwrap();
        assert_eq!(told.until(1).await, ["new"]);
        effect.dispose().await;
    });
}

/// Ids of events, as effects of two lives are told.
#[test]
fn rows_of_a_stream_have_the_same_ids_in_every_life_and_local_ones_never_again() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let told = Told::default();
        let start = |db: &Db| {
            let told = told.clone();
            let tell = move |event: live::Event<Message>, _: live::Context| {
                let (id, key) = (event.id(), event.row().id.clone());
                told.tell(format!("{}@{}/{key}", id.effect, id.position));
                async { Ok(()) }
            };
            let effect = db.effect(pending().synced()).on_enter(tell.clone());
            effect.on_update(tell.clone()).on_exit(tell).start().unwrap()
        };
        let effect = start(&db);
        let twins = db.transaction(|writes| {
            writes.insert(message("a", Status::Pending))?;
            writes.insert(message("b", Status::Pending))
        });
        twins.unwrap().settled().await.unwrap();
        assert_eq!(told.until(2).await, ["@0/a", "@1/b"]);
        let messages = db.rows::<Message>().unwrap();
        messages.update("b", |row| row.likes = 1).unwrap().settled().await.unwrap();
        messages.update("a", |row| row.status = Status::Done).unwrap().settled().await.unwrap();
        assert_eq!(told.until(4).await[2..], ["@2/b", "@3/a"]);
        effect.dispose().await;
        let effect = start(&db);
        assert_eq!(told.until(5).await[4..], ["@1/b"], "it is the same event");
        effect.dispose().await;

        let here = Db::new(&sys);
        let _ = here.local::<Message>().unwrap().insert(message("c", Status::Pending)).unwrap();
        for _ in 0..2 {
            let effect = start(&here);
            let count = told.0.0.lock().len() + 1;
            told.until(count).await;
            effect.dispose().await;
        }
        let told = told.until(7).await;
        assert!(told[5].ends_with("@1/c") && told[6].ends_with("@1/c"), "{told:?}");
        assert_ne!(told[5], told[6], "another life, another name");
    });
}
