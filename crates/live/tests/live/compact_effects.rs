//! Durable effects of streams that are compacted.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use live::{CompactError, Compacted, Row, StreamDb, compact};
use log::{Append, Create, Fork, Log};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use state::{State, Ticks};
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use tokio::sync::Semaphore;
use wire::{Address, Messages, Position, ReadFrom, StreamPath};

use crate::{
    Message, Reply, Status,
    durable::{Answering, replies, write},
    log_with_stream, message, open, run,
    wrapped::{Fate, Gate, Wrapped},
};

/// What may happen to a session with one effect.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A message comes.
    Write,
    /// Two come in one transaction.
    Twins,
    /// The oldest message that is pending leaves the query.
    Leave,
    /// One more is answered.
    Answer,
    /// The runner dies, and another takes over.
    Restart,
    Compact,
}

fn any_step() -> impl Strategy<Value = Step> {
    use Step::*;
    prop::sample::select(vec![
        Write, Write, Twins, Leave, Answer, Answer, Restart, Compact, Compact,
    ])
}

/// What a message is made of while it grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
struct Piece {
    id: String,
    of: String,
}

/// Compacts it without the pieces of messages that are there.
async fn compacted(log: &Arc<dyn Log>, address: &Address, sys: &Sys) -> Compacted {
    let is_whole = |piece: &Piece, rows: &State| rows.get(Message::NAME, &piece.of).is_some();
    loop {
        match compact(log, address.clone(), sys).drops(is_whole).run().await {
            Err(CompactError::Moved) => tokio::task::yield_now().await,
            answer => return answer.unwrap(),
        }
    }
}

/// The rows of a stream, whatever their types.
async fn state(log: &Arc<dyn Log>, address: &Address) -> State {
    let (mut state, mut ticks) = (State::new(), Ticks::new());
    let chunk = log.read(address, ReadFrom::Start, 64 << 20).await.unwrap();
    let first = chunk.start.position.get();
    for (lies, message) in (first..).map(Position::new).zip(chunk.messages()) {
        ticks.push(lies, message).into_iter().for_each(|tick| drop(state.apply(tick)));
    }
    ticks.up_to_date().into_iter().for_each(|tick| drop(state.apply(tick)));
    state
}

async fn has_begun(log: &Arc<dyn Log>, address: &Address) {
    while cursor_of(log, address).await.is_none() {
        tokio::task::yield_now().await;
    }
}

async fn put_pieces(log: &Arc<dyn Log>, address: &Address, of: &str) {
    for piece in 0..3 {
        let row = Piece { id: format!("{of}/{piece}"), of: of.to_owned() };
        let (key, row) = (row.id.clone(), serde_json::to_string(&row).unwrap());
        put(log, address, Piece::NAME, &key, &row).await;
    }
}

/// Every message is answered once, under the position where it was written.
async fn tells_the_same(steps: Vec<Step>) {
    let sys = Sys::real();
    let (log, address) = log_with_stream(&sys).await;
    let db = open(&log, &address, &sys);
    db.ready().await.unwrap();
    let mut answering = Answering::new(0);
    let mut effect = answering.start(&db);
    has_begun(&log, &address).await;
    // A reader that lags behind, whose place is trimmed away now and then.
    let slow = Wrapped::gated(&log, 1);
    let gated: Arc<dyn Log> = slow.clone();
    let late = open(&gated, &address, &sys);
    let (mut count, mut allowed) = (0, 0);
    for (number, step) in steps.into_iter().enumerate() {
        let messages = db.rows::<Message>().unwrap();
        match step {
            Step::Write => {
                let id = format!("m{number:03}");
                put_pieces(&log, &address, &id).await;
                write(&db, &[&id]).await;
                count += 1;
            }
            Step::Twins => {
                let both = db.transaction(|writes| {
                    writes.insert(message(&format!("m{number:03}"), Status::Pending))?;
                    writes.insert(message(&format!("m{number:03}-twin"), Status::Pending))
                });
                both.unwrap().settled().await.unwrap();
                count += 2;
            }
            Step::Leave => {
                let rows = messages.rows();
                let Some(row) = rows.iter().find(|row| row.status == Status::Pending) else {
                    continue;
                };
                let left = messages.update(row.id.as_str(), |row| row.status = Status::Done);
                left.unwrap().settled().await.unwrap();
            }
            Step::Answer if allowed < count => {
                allowed += 1;
                answering.allowed.add_permits(1);
                replies(&db, allowed).await;
            }
            Step::Answer => {}
            Step::Restart => {
                drop(effect);
                // What the dead one was allowed to do is not allowed to its handlers.
                answering = Answering { allowed: Arc::new(Semaphore::new(0)), ..answering };
                effect = answering.start(&db);
                slow.reads.add_permits(1);
            }
            Step::Compact => drop(compacted(&log, &address, &sys).await),
        }
    }
    answering.allowed.add_permits(10_000);
    replies(&db, count).await;
    effect.dispose().await;
    compacted(&log, &address, &sys).await;
    let fresh = open(&log, &address, &sys);
    fresh.ready().await.unwrap();
    check(&fresh, &answering, count);
    let kept = state(&log, &address).await;
    assert!(kept.rows(Piece::NAME).next().is_none(), "all messages are whole");
    slow.reads.add_permits(10_000);
    while shown(&late) != shown(&fresh) {
        tokio::task::yield_now().await;
    }
    assert_eq!(shown(&forked(&log, address, &sys).await), shown(&fresh));
}

/// What a fork of the stream shows.
async fn forked(log: &Arc<dyn Log>, address: Address, sys: &Sys) -> StreamDb {
    let fork: Address = StreamPath::from_url("sessions/fork").unwrap().into();
    let _ = log.fork(&fork, Fork::of(address)).await.unwrap();
    let forked = open(log, &fork, sys);
    forked.ready().await.unwrap();
    forked
}

/// Messages and replies, and where they stand.
fn shown(db: &StreamDb) -> Vec<String> {
    let messages = db.rows::<Message>().unwrap().rows();
    let replies = db.rows::<Reply>().unwrap().rows();
    let messages = messages.iter().map(|row| format!("{:?} {:?}", **row, row.meta().position));
    messages.chain(replies.iter().map(|row| format!("{:?}", **row))).collect()
}

fn check(db: &StreamDb, answering: &Answering, count: usize) {
    let messages = db.rows::<Message>().unwrap();
    let place = |id: &str| messages.get(id.trim_end_matches("-twin")).unwrap().meta().position;
    let expected: BTreeSet<_> =
        messages.rows().iter().map(|row| (place(&row.id).unwrap(), row.id.clone())).collect();
    let seen: BTreeSet<_> = answering
        .seen
        .lock()
        .iter()
        .map(|id| (id.position, id.key.as_text().unwrap().to_string()))
        .collect();
    assert_eq!(seen, expected);
    let replies = db.rows::<Reply>().unwrap().rows();
    let answered: BTreeSet<_> = replies.iter().map(|reply| reply.id.clone()).collect();
    let expected = expected.iter().map(|(position, id)| format!("re-{id}-{position}"));
    assert_eq!(answered, expected.collect());
    assert_eq!(replies.len(), count);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_effect_tells_the_same_wherever_its_stream_is_compacted(
        steps in prop::collection::vec(any_step(), 0..30),
    ) {
        run(|_| tells_the_same(steps));
    }
}

/// At each point of one story, with the runner alive or dead.
#[test]
fn events_keep_their_ids_whenever_the_stream_is_compacted() {
    use Step::*;
    let story = [Write, Twins, Answer, Leave, Write, Answer, Twins, Leave, Answer, Write];
    for at in 0..=story.len() {
        for cut in [vec![Compact], vec![Restart, Compact], vec![Compact, Restart, Compact]] {
            run(|_| tells_the_same([&story[..at], &cut, &story[at..]].concat()));
        }
    }
}

async fn fill(log: &Arc<dyn Log>, address: &Address, count: u32) {
    for batch in 0..count / 50 {
        let put = |n: u32| {
            let headers = r#"{"operation":"upsert"}"#;
            format!(r#"{{"type":"filler","key":"f","value":{n},"headers":{headers}}}"#)
        };
        let texts: Vec<_> = (0..50).map(|n| put(batch * 50 + n)).collect();
        let messages = Messages::copied(texts.iter().map(String::as_bytes)).unwrap();
        let _ = log.append(address, Append::messages(messages)).await.unwrap();
    }
}

/// How far the effect has come, as its cursor says.
async fn cursor(log: &Arc<dyn Log>, address: &Address, effect: &str) -> u64 {
    let state = state(log, address).await;
    let Some(row) = state.get("headwater.cursor", effect) else { return 0 };
    row.value.read::<serde_json::Value>().unwrap()["position"].as_u64().unwrap()
}

#[test]
fn effects_where_nothing_happens_hold_little_history_and_do_not_wake_each_other() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let names = ["first", "second", "third"];
        let effects = names.map(|name| {
            let effect = db.durable_effect(name, live::from::<Message>());
            effect.on_enter(|_, _| async { Ok(()) }).start().unwrap()
        });
        let total = 4 * live::caps::CURSOR_LAG_MAX as u32 / 50 * 50;
        fill(&log, &address, total).await;
        let near = u64::from(total) - live::caps::CURSOR_LAG_MAX as u64 - 100;
        for name in names {
            while cursor(&log, &address, name).await < near {
                tokio::task::yield_now().await;
            }
        }
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let tail = log.head(&address).await.unwrap().tail.position.get();
        assert!(tail < u64::from(total) + 3 * 6, "{tail}: cursors call for cursors");
        let compacted = compacted(&log, &address, &sys).await;
        assert!(compacted.after.messages < live::caps::CURSOR_LAG_MAX as u64 + 200);
        // And they are all still there.
        write(&db, &["a"]).await;
        let position = db.rows::<Message>().unwrap().get("a").unwrap().meta().position.unwrap();
        for name in names {
            while cursor(&log, &address, name).await <= position {
                tokio::task::yield_now().await;
            }
        }
        for effect in effects {
            effect.dispose().await;
        }
    });
}

/// A reset voids rows, but no effect begins anew because of it.
#[test]
fn a_cursor_survives_a_reset_and_a_compaction() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let first = Answering::new(1);
        let effect = first.start(&db);
        has_begun(&log, &address).await;
        write(&db, &["a"]).await;
        replies(&db, 1).await;
        effect.dispose().await;
        let reset = Messages::one(r#"{"headers":{"control":"reset"}}"#).unwrap();
        let _ = log.append(&address, Append::messages(reset)).await.unwrap();
        fill(&log, &address, 100).await;
        let before = cursor_of(&log, &address).await;
        compacted(&log, &address, &sys).await;
        assert_eq!(cursor_of(&log, &address).await, before);
        let second = Answering::new(9);
        let effect = second.start(&db);
        write(&db, &["b"]).await;
        assert_eq!(second.until(1).await[0].key.as_text().unwrap(), "b");
        effect.dispose().await;
    });
}

/// The last cursor that was written, void or not.
async fn cursor_of(log: &Arc<dyn Log>, address: &Address) -> Option<String> {
    let chunk = log.read(address, ReadFrom::Start, 64 << 20).await.unwrap();
    let values = chunk.messages().filter_map(|message| match state::decode(message).body {
        state::Body::Change(change) if change.type_name == "headwater.cursor" => {
            change.value.map(ToString::to_string)
        }
        _ => None,
    });
    values.last()
}

/// A runner that has claimed an effect and not written how far it is, when the stream is compacted.
#[test]
fn an_effect_that_has_only_been_claimed_misses_nothing_by_a_compaction() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        write(&db, &["a"]).await;
        let gate = Gate::new();
        let slow = Wrapped::fated(&log, vec![Fate::Done, Fate::Held(gate.clone())]);
        let far = open(&slow, &address, &sys);
        far.ready().await.unwrap();
        let answering = Answering::new(9);
        let effect = answering.start(&far);
        // The claim is written, and the cursor on its way.
        gate.reached().await;
        write(&db, &["b"]).await;
        db.rows::<Message>().unwrap().delete("b").unwrap().settled().await.unwrap();
        fill(&log, &address, 50).await;
        assert_eq!(compacted(&log, &address, &sys).await.held_by.as_deref(), Some("answer"));
        gate.open.add_permits(1);
        let mut answered = replies(&db, 2).await;
        answered.sort();
        assert_eq!(answered, ["a", "b"], "b came and went while the effect was being started");
        effect.dispose().await;
    });
}

/// An effect whose beginning is gone all the same: somebody compacted the stream by other rules.
#[test]
fn an_effect_whose_beginning_is_not_kept_begins_with_the_rows_there_are() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        write(&db, &["a", "b"]).await;
        fill(&log, &address, 50).await;
        compacted(&log, &address, &sys).await;
        // Its cursor says where it found the end of the stream, before the snapshot was there.
        let value = r#"{"start":2,"position":1,"epoch":1}"#;
        let (cursor, headers) =
            (r#""type":"headwater.cursor","key":"answer""#, r#"{"operation":"upsert"}"#);
        let stale = format!(r#"{{{cursor},"value":{value},"headers":{headers}}}"#);
        let _ =
            log.append(&address, Append::messages(Messages::one(stale).unwrap())).await.unwrap();
        let answering = Answering::new(9);
        let effect = answering.start(&db);
        let mut answered = replies(&db, 2).await;
        answered.sort();
        assert_eq!(answered, ["a", "b"]);
        assert!(answering.until(2).await.iter().all(|id| id.position == 51), "before the snapshot");
        effect.dispose().await;
        // And goes on from there.
        let effect = answering.start(&db);
        write(&db, &["c"]).await;
        replies(&db, 3).await;
        assert_eq!(answering.until(3).await.len(), 3);
        effect.dispose().await;
    });
}

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// In a world of its own, since days pass in it.
fn run_for_days<F: Future<Output = ()>>(test: impl FnOnce(Sys) -> F) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let disk = SimDisk::new(1, SimFaults::default());
        test(Sys::simulated(1, disk, UnixMs::new(1_900_000_000_000))).await;
    });
}

#[test]
fn an_effect_that_is_gone_is_forgotten_and_one_that_idles_is_not() {
    run_for_days(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let start = |name: &str| {
            let pending = live::from::<Message>().filter(Message::status.eq(Status::Pending));
            let effect = db.durable_effect(name, pending);
            effect.on_enter(|_, _| async { Ok(()) }).start().unwrap()
        };
        let (gone, idle) = (start("gone"), start("idle"));
        write(&db, &["a", "b", "c"]).await;
        sys.clock.sleep(Duration::from_secs(1)).await;
        gone.dispose().await;
        let names = async || {
            let effects = live::effects(&log, address.clone(), &sys).await.unwrap();
            effects.into_iter().map(|effect| effect.name).collect::<Vec<_>>()
        };
        for (days, expected) in [(29, &["gone", "idle"][..]), (2, &["idle"])] {
            // Others write every few hours, which does not concern the effect.
            for _ in 0..4 * days {
                sys.clock.sleep(DAY / 4).await;
                let row = message("other", Status::Done);
                let messages = db.rows::<Message>().unwrap();
                let wrote = match messages.get("other") {
                    None => messages.insert(row),
                    Some(_) => messages.update("other", |row| row.likes += 1),
                };
                wrote.unwrap().settled().await.unwrap();
            }
            let _ = compact(&log, address.clone(), &sys).run().await.unwrap();
            assert_eq!(names().await, expected, "{days} days later");
        }
        let effects = live::effects(&log, address.clone(), &sys).await.unwrap();
        let seen = effects[0].last_seen.unwrap();
        assert!(sys.clock.unix_ms().since(seen) <= DAY + Duration::from_secs(1), "{effects:?}");
        assert!(effects[0].lag.is_some_and(|lag| lag <= 20), "its own beats: {effects:?}");
        idle.dispose().await;
    });
}

/// A row as foreign or earlier versions wrote it.
async fn put(log: &Arc<dyn Log>, address: &Address, kind: &str, key: &str, value: &str) {
    let headers = r#"{"operation":"upsert"}"#;
    let row = format!(r#"{{"type":"{kind}","key":"{key}","value":{value},"headers":{headers}}}"#);
    let row = Messages::one(row).unwrap();
    let _ = log.append(address, Append::messages(row)).await.unwrap();
}

/// Streams with a durable effect each, of which these rows were written, and in which other things
/// go on: for how many days compactions keep what it may need.
async fn days_kept(sys: &Sys, cases: &[&[(&str, &str)]]) -> Vec<u32> {
    let (log, _) = log_with_stream(sys).await;
    let mut open = Vec::new();
    for (number, rows) in cases.iter().enumerate() {
        let address: Address = StreamPath::from_url(&format!("effects/{number}")).unwrap().into();
        let content_type = Some("application/json".parse().unwrap());
        let _ = log.create(&address, Create { content_type, ..Create::default() }).await.unwrap();
        fill(&log, &address, 100).await;
        for (kind, value) in *rows {
            put(&log, &address, &format!("headwater.{kind}"), "gone", value).await;
        }
        open.push((number, address));
    }
    let (mut today, mut kept) = (0, vec![u32::MAX; cases.len()]);
    for days in [0, 30, 31] {
        sys.clock.sleep(DAY * (days - today)).await;
        today = days;
        for (number, address) in &open {
            if kept[*number] < days {
                continue;
            }
            fill(&log, address, 50).await;
            let compacted = compact(&log, address.clone(), sys).run().await;
            let effects = live::effects(&log, address.clone(), sys).await.unwrap();
            if compacted.is_ok_and(|compacted| compacted.held_by.is_none()) {
                assert_eq!(effects, [], "nothing holds, and nothing is left of it");
                kept[*number] = days;
            } else {
                assert!(effects[0].last_seen.is_some(), "it ages from now on: {effects:?}");
            }
        }
    }
    kept
}

#[test]
fn an_effect_that_was_claimed_and_never_begun_expires() {
    run_for_days(|sys| async move {
        let now = sys.clock.unix_ms().get();
        let claim = format!(r#"{{"epoch":1,"runner":"r","seenAt":{now}}}"#);
        assert_eq!(days_kept(&sys, &[&[("claim", &claim)]]).await, [31]);
        // And one that a runner of today has left behind.
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let gate = Gate::new();
        let slow = Wrapped::fated(&log, vec![Fate::Done, Fate::Held(gate.clone())]);
        let far = open(&slow, &address, &sys);
        far.ready().await.unwrap();
        let effect = Answering::new(9).start(&far);
        gate.reached().await;
        drop((effect, far));
        fill(&log, &address, 100).await;
        assert_eq!(compacted(&log, &address, &sys).await.held_by.as_deref(), Some("answer"));
        sys.clock.sleep(31 * DAY).await;
        fill(&log, &address, 100).await;
        assert_eq!(compacted(&log, &address, &sys).await.held_by, None);
        assert_eq!(live::effects(&log, address, &sys).await.unwrap(), []);
    });
}

#[test]
fn rows_of_effects_that_tell_no_time_are_given_one_and_expire_too() {
    run_for_days(|sys| async move {
        let (claim, cursor) =
            (r#"{"epoch":1,"runner":"r"}"#, r#"{"start":5,"position":5,"epoch":1}"#);
        let ahead = r#"{"start":5,"position":5,"epoch":1,"seenAt":9000000000000}"#;
        let unreadable = r#"{"where":{"later":7}}"#;
        let cases = [
            &[("claim", claim)][..],
            &[("cursor", cursor)],
            &[("claim", claim), ("cursor", cursor)],
            &[("cursor", ahead)],
            &[("cursor", unreadable)],
            &[("claim", claim), ("cursor", unreadable)],
            &[("claim", claim), ("cursor", "7")],
        ];
        assert_eq!(days_kept(&sys, &cases).await, [31; 7]);
    });
}

#[test]
fn a_time_that_is_written_into_a_row_changes_nothing_else_of_it() {
    run_for_days(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        put(
            &log,
            &address,
            "headwater.cursor",
            "old",
            r#"{"position":1,"start":0,"theirs":[1.50],"epoch":3}"#,
        )
        .await;
        let now = sys.clock.unix_ms().get();
        let first = compacted(&log, &address, &sys).await;
        let stamped =
            format!(r#"{{"position":1,"start":0,"theirs":[1.50],"epoch":3,"seenAt":{now}}}"#);
        assert_eq!(cursor_of(&log, &address).await, Some(stamped));
        sys.clock.sleep(DAY).await;
        assert_eq!(compacted(&log, &address, &sys).await.before, first.before, "only once");
    });
}
