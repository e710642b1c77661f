//! What a durable effect commits is written once, whatever goes wrong on the way, and what it
//! writes of its own progress stays small.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use live::{CommitError, Context, Effect, Event, HandlerError, Retry, StreamDb, caps};
use log::Log;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use wire::{Address, ReadFrom};

use crate::{
    Message, Reply, Status,
    durable::{Answering, put, replies, write},
    log_with_stream, message, open, run,
    wrapped::{Fate, Gate, Wrapped},
};

/// The messages of a type, each as often as it is in the stream.
async fn raw(log: &Arc<dyn Log>, address: &Address, name: &str) -> Vec<serde_json::Value> {
    let (mut found, mut from) = (Vec::new(), ReadFrom::Start);
    loop {
        let chunk = log.read(address, from, 64 << 20).await.unwrap();
        let json = chunk.messages().map(|message| serde_json::from_slice(message).unwrap());
        found.extend(json.filter(|json: &serde_json::Value| json["type"] == name));
        if chunk.freshness != log::Freshness::Behind {
            return found;
        }
        from = ReadFrom::At(chunk.next);
    }
}

async fn answered(log: &Arc<dyn Log>, address: &Address) -> Vec<String> {
    let rows = raw(log, address, "reply").await;
    rows.iter().map(|json| json["value"]["to"].as_str().unwrap().to_owned()).collect()
}

/// Waits for something that others bring about.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

fn reply(event: &Event<Message>) -> Reply {
    Reply { id: format!("re-{}", event.row().id), to: event.row().id.clone() }
}

#[test]
fn what_the_old_runner_commits_while_the_new_one_takes_over_is_not_done_again() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        write(&db, &["a"]).await;
        let (old, new) = (Answering::new(0), Answering::new(10));
        let first = old.start(&db);
        old.until(1).await;
        let gate = Gate::new();
        let elsewhere = Wrapped::fated(&log, vec![Fate::Held(gate.clone())]);
        let other = open(&elsewhere, &address, &sys);
        other.ready().await.unwrap();
        let second = new.start(&other);
        // The new one has looked around and is about to claim the effect; the old one is quicker.
        gate.reached().await;
        old.allowed.add_permits(1);
        assert_eq!(replies(&db, 1).await, ["a"]);
        gate.open.add_permits(1);
        write(&db, &["b"]).await;
        replies(&db, 2).await;
        old.allowed.add_permits(10);
        first.ended().await;
        assert_eq!(new.until(1).await.len(), 1, "a was delivered again");
        assert_eq!(answered(&log, &address).await, ["a", "b"]);
        second.dispose().await;
    });
}

/// How a handler goes wrong although its commit is on its way or done.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Fails,
    Panics,
    DoesNotWait,
    CommitsTwice,
}

async fn troubled(
    trouble: Trouble,
    sys: sys::Sys,
    event: Event<Message>,
    context: Context,
) -> Result<(), HandlerError> {
    let row = reply(&event);
    let commit = context.commit(|rows| rows.put(&row));
    if matches!(trouble, Trouble::DoesNotWait) {
        let waited = sys.clock.timeout(Duration::from_secs(1), commit).await;
        return Err(HandlerError::new(format!("it takes too long: {waited:?}")));
    }
    commit.await?;
    match trouble {
        Trouble::Panics => panic!("a handler that panics"),
        Trouble::CommitsTwice => {
            let again = context.commit(|rows| rows.put(&row)).await;
            assert_eq!(again, Err(CommitError::AlreadyDone));
            Ok(())
        }
        _ => Err(HandlerError::new("no luck")),
    }
}

#[test]
fn a_handler_that_fails_after_its_commit_is_not_called_again() {
    use Trouble::*;
    for trouble in [Fails, Panics, DoesNotWait, CommitsTwice] {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            let gate = Gate::new();
            let fates = vec![Fate::Done, Fate::Done, Fate::Held(gate.clone())];
            let slow = Wrapped::fated(&log, fates);
            let (writer, db) = (open(&log, &address, &sys), open(&slow, &address, &sys));
            db.ready().await.unwrap();
            write(&writer, &["a"]).await;
            let calls = Arc::new(AtomicU32::new(0));
            let (seen, own) = (calls.clone(), sys.clone());
            let effect = db
                .durable_effect("answer", live::from::<Message>())
                .on_enter(move |event, context| {
                    seen.fetch_add(1, Ordering::SeqCst);
                    troubled(trouble, own.clone(), event, context)
                })
                .start()
                .unwrap();
            gate.reached().await;
            // Whoever waits a second for it has given up by then.
            sys.clock.sleep(Duration::from_secs(5)).await;
            gate.open.add_permits(1);
            replies(&writer, 1).await;
            write(&writer, &["b"]).await;
            replies(&writer, 2).await;
            sys.clock.sleep(Duration::from_secs(60)).await;
            assert_eq!(answered(&log, &address).await, ["a", "b"], "{trouble:?}");
            assert_eq!(calls.load(Ordering::SeqCst), 2, "{trouble:?}");
            effect.dispose().await;
        });
    }
}

#[test]
fn an_answer_that_is_lost_on_the_way_stops_nothing() {
    // The first is the claim, the second the place where it begins, the third a commit.
    for lost in 0..3 {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            let fates = (0..3).map(|n| if n == lost { Fate::Repeated } else { Fate::Done });
            let network = Wrapped::fated(&log, fates.collect());
            let (writer, db) = (open(&log, &address, &sys), open(&network, &address, &sys));
            db.ready().await.unwrap();
            write(&writer, &["a"]).await;
            let answering = Answering::new(10);
            let effect = answering.start(&db);
            replies(&writer, 1).await;
            write(&writer, &["b"]).await;
            replies(&writer, 2).await;
            assert_eq!(answered(&log, &address).await, ["a", "b"], "lost {lost}");
            effect.dispose().await;
        });
    }
}

/// Has the handler of an effect see so many rows, and acknowledge them.
fn counting(db: &StreamDb, concurrency: usize) -> (Effect, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let effect = db.durable_effect("count", live::from::<Message>()).concurrency(concurrency);
    let effect = effect.on_enter(move |_, _| {
        seen.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    });
    (effect.start().unwrap(), count)
}

async fn many(db: &StreamDb, count: usize) {
    let all = db.transaction(|writes| {
        (0..count).try_for_each(|n| writes.insert(message(&format!("m{n:05}"), Status::Pending)))
    });
    all.unwrap().settled().await.unwrap();
}

#[test]
fn acknowledging_many_rows_of_one_transaction_costs_as_much_as_there_are() {
    const ROWS: usize = 10_000;
    for concurrency in [1, 16] {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            let db = open(&log, &address, &sys);
            db.ready().await.unwrap();
            many(&db, ROWS).await;
            let (effect, count) = counting(&db, concurrency);
            until(|| count.load(Ordering::SeqCst) == ROWS).await;
            effect.dispose().await;
            let cursors = raw(&log, &address, "headwater.cursor").await;
            let bytes: usize = cursors.iter().map(|cursor| cursor.to_string().len()).sum();
            assert!(bytes < ROWS * 400, "{bytes} bytes of {} cursors", cursors.len());
            let last = &cursors.last().unwrap()["value"];
            assert_eq!(last["done"], serde_json::json!([]), "{last}");
        });
    }
}

/// A serial handler that commits for each row, killed in the middle of a transaction.
#[test]
fn an_effect_goes_on_in_the_middle_of_a_transaction() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        many(&db, 100).await;
        for life in 0..10 {
            let answering = Answering::new(10);
            let effect = answering.start(&db);
            replies(&db, 10 * (life + 1)).await;
            drop(effect);
        }
        let mut to = answered(&log, &address).await;
        assert_eq!(to.len(), 100);
        to.sort();
        to.dedup();
        assert_eq!(to.len(), 100);
        let cursors = raw(&log, &address, "headwater.cursor").await;
        assert!(cursors.iter().all(|cursor| cursor.to_string().len() < 400));
    });
}

#[test]
fn a_cursor_of_an_earlier_version_is_understood() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        many(&db, 5).await;
        let old = r#"{"start":5,"skipsInitial":false,"position":4,
            "done":[[4,"m00001"],[4,"m00003"]],"epoch":3}"#;
        put(&log, &address, "headwater.cursor", "answer", &old.replace('\n', "")).await;
        let answering = Answering::new(10);
        let effect = answering.start(&db);
        assert_eq!(replies(&db, 3).await, ["m00000", "m00002", "m00004"]);
        effect.dispose().await;
        let last = raw(&log, &address, "headwater.cursor").await.pop().unwrap();
        // It may have gone on past what it wrote itself.
        assert!(last["value"]["position"].as_u64() >= Some(5), "{last}");
        assert_eq!(last["value"]["done"], serde_json::json!([]));
    });
}

/// One row is stuck, and others run past it: so many, and no more.
#[test]
fn only_so_many_events_overtake_one_that_is_stuck() {
    run(|sys| async move {
        let rows = 2 * caps::EVENTS_AHEAD_MAX;
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        many(&db, rows).await;
        let (count, stuck) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (seen, gate) = (count.clone(), stuck.clone());
        let effect = db.durable_effect("count", live::from::<Message>()).concurrency(4);
        let effect = effect.on_enter(move |event, _| {
            let (seen, gate) = (seen.clone(), gate.clone());
            async move {
                if event.row().id == "m00000" {
                    gate.acquire().await?.forget();
                }
                seen.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        });
        let effect = effect.start().unwrap();
        until(|| count.load(Ordering::SeqCst) == caps::EVENTS_AHEAD_MAX - 1).await;
        sys.clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(count.load(Ordering::SeqCst), caps::EVENTS_AHEAD_MAX - 1);
        let cursors = raw(&log, &address, "headwater.cursor").await;
        let done = cursors.iter().map(|cursor| cursor["value"]["done"].as_array().unwrap().len());
        assert_eq!(done.max(), Some(caps::EVENTS_AHEAD_MAX - 1));
        stuck.add_permits(1);
        until(|| count.load(Ordering::SeqCst) == rows).await;
        effect.dispose().await;
    });
}

/// A row of any size.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, live::Row)]
struct Large {
    id: String,
    text: String,
}

/// Handlers that commit a reply and so many bytes, all at the same time.
fn large(
    db: &StreamDb,
    handlers: usize,
    bytes: fn(&str) -> usize,
    letters: &Arc<Mutex<Vec<String>>>,
) -> Effect {
    let (together, buried) = (Arc::new(tokio::sync::Barrier::new(handlers)), letters.clone());
    let effect = db.durable_effect("answer", live::from::<Message>()).concurrency(handlers);
    let effect = effect.on_enter(move |event, context| {
        let together = together.clone();
        async move {
            if context.attempt() == 1 && event.row().id != "n" {
                together.wait().await;
            }
            let text = "x".repeat(bytes(&event.row().id));
            let row = Large { id: event.row().id.clone(), text };
            let answer = reply(&event);
            context
                .commit(|rows| {
                    rows.put(&row);
                    rows.put(&answer);
                })
                .await?;
            Ok(())
        }
    });
    let bury = move |event: Event<Message>, error: HandlerError| {
        buried.lock().push(format!("{}: {error}", event.row().id));
    };
    let retry = Retry { attempts_max: 3, ..Retry::default() };
    effect.retry(retry).on_dead_letter(bury).start().unwrap()
}

#[test]
fn commits_that_fit_alone_need_not_fit_together() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        many(&db, 8).await;
        let letters = Arc::default();
        let effect = large(&db, 8, |_| 6 << 20, &letters);
        while answered(&log, &address).await.len() < 8 {
            sys.clock.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(letters.lock().len(), 0);
        effect.dispose().await;
    });
}

#[test]
fn a_commit_that_is_too_large_fails_alone() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        many(&db, 4).await;
        let letters: Arc<Mutex<Vec<String>>> = Arc::default();
        let effect = large(&db, 4, |id| if id == "m00001" { 33 << 20 } else { 10 }, &letters);
        let buried = letters.clone();
        until_time(&sys, || buried.lock().len() == 1).await;
        let letter = letters.lock()[0].clone();
        assert!(letter.starts_with("m00001: the stream does not take these rows"), "{letter}");
        write(&db, &["n"]).await;
        while answered(&log, &address).await.len() < 4 {
            sys.clock.sleep(Duration::from_secs(1)).await;
        }
        let mut to = answered(&log, &address).await;
        to.sort();
        assert_eq!(to, ["m00000", "m00002", "m00003", "n"]);
        effect.dispose().await;
    });
}

async fn until_time(sys: &sys::Sys, is_so: impl Fn() -> bool) {
    while !is_so() {
        sys.clock.sleep(Duration::from_secs(1)).await;
    }
}

/// A server refuses one commit, or says so and has taken it; the question which it was may be sent
/// twice.
#[test]
fn what_a_server_rejects_is_tried_again_unless_it_was_stored() {
    for (is_stored, is_asked_twice) in [(false, false), (true, false), (false, true), (true, true)]
    {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            let fate = if is_stored { Fate::Denied } else { Fate::Rejected };
            let asked = if is_asked_twice { Fate::Repeated } else { Fate::Done };
            let network = Wrapped::fated(&log, vec![Fate::Done, Fate::Done, fate, asked]);
            let (writer, db) = (open(&log, &address, &sys), open(&network, &address, &sys));
            db.ready().await.unwrap();
            write(&writer, &["a", "b"]).await;
            let answering = Answering::new(10);
            let effect = answering.start(&db);
            replies(&writer, 2).await;
            assert_eq!(answered(&log, &address).await, ["a", "b"], "stored: {is_stored}");
            assert_eq!(answering.until(2).await.len(), if is_stored { 2 } else { 3 });
            effect.dispose().await;
        });
    }
}

/// A handler that loses its patience with its commit, and says that it is done.
#[test]
fn a_commit_that_nobody_waits_for_is_written_before_its_event_is_done() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let gate = Gate::new();
        let fates = vec![Fate::Done, Fate::Done, Fate::Held(gate.clone())];
        let network = Wrapped::fated(&log, fates);
        let (writer, db) = (open(&log, &address, &sys), open(&network, &address, &sys));
        db.ready().await.unwrap();
        write(&writer, &["a", "b"]).await;
        let clock = sys.clock.clone();
        let effect = db.durable_effect("hasty", live::from::<Message>()).concurrency(2);
        let effect = effect.on_enter(move |event, ctx| {
            let (clock, to) = (clock.clone(), event.row().id.clone());
            async move {
                let reply = Reply { id: format!("re-{to}"), to };
                let written = ctx.commit(|rows| rows.put(&reply));
                let _ = clock.timeout(Duration::from_secs(1), written).await;
                Ok(())
            }
        });
        let effect = effect.start().unwrap();
        gate.reached().await;
        sys.clock.sleep(Duration::from_secs(5)).await;
        gate.open.add_permits(1);
        replies(&writer, 2).await;
        effect.dispose().await;
        assert_eq!(answered(&log, &address).await, ["a", "b"]);
    });
}

/// By default nothing is given up: whoever wants dead letters says so.
#[test]
fn a_durable_effect_gives_nothing_up_unless_it_was_told_to() {
    for (takes_letters, retry, expected) in
        [(false, None, 20), (true, None, 5), (false, Some(2), 2)]
    {
        run(|sys| async move {
            let (log, address) = log_with_stream(&sys).await;
            let db = open(&log, &address, &sys);
            db.ready().await.unwrap();
            write(&db, &["a"]).await;
            let attempts = Arc::new(AtomicU32::new(0));
            let seen = attempts.clone();
            let mut effect =
                db.durable_effect("try", live::from::<Message>()).on_enter(move |_, context| {
                    seen.store(context.attempt(), Ordering::SeqCst);
                    async move {
                        match context.attempt() {
                            20 => Ok(()),
                            _ => Err(HandlerError::new("no luck")),
                        }
                    }
                });
            if takes_letters {
                effect = effect.on_dead_letter(|_, _| {});
            }
            if let Some(attempts_max) = retry {
                effect = effect.retry(Retry { attempts_max, ..Retry::default() });
            }
            let effect = effect.start().unwrap();
            sys.clock.sleep(Duration::from_secs(1_200)).await;
            assert_eq!(attempts.load(Ordering::SeqCst), expected);
            effect.dispose().await;
        });
    }
}
