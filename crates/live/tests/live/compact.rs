//! Streams that forget how their rows came to be.

use std::sync::Arc;

use live::{CompactError, StreamDb, compact};
use log::{Append, Create, Fork, Freshness, Log, Outcome};
use proptest::prelude::*;
use state::{Start, State, Tick, Ticks};
use sys::Sys;
use wire::{Address, Messages, Position, ReadFrom, StreamPath};

use crate::{
    Message, Reply, Status, log_with_stream, message, open, run,
    wrapped::{Fate, Wrapped},
};

async fn append(log: &Arc<dyn Log>, address: &Address, messages: &[String]) {
    let messages = Messages::copied(messages.iter().map(String::as_bytes)).unwrap();
    let _ = log.append(address, Append::messages(messages)).await.unwrap();
}

fn put(kind: &str, key: &str, value: &str) -> String {
    let headers = r#"{"operation":"upsert"}"#;
    format!(r#"{{"type":"{kind}","key":"{key}","value":{value},"headers":{headers}}}"#)
}

/// A reader that keeps raw rows.
#[derive(Default)]
struct Raw {
    state: State,
    ticks: Ticks,
    next: Option<wire::Offset>,
    told: Vec<Tick>,
}

impl Raw {
    /// Reads what there is; from the start, if its place is not kept any more.
    async fn catch_up(&mut self, log: &Arc<dyn Log>, address: &Address) {
        loop {
            let from = self.next.map_or(ReadFrom::Start, ReadFrom::At);
            let chunk = match log.read(address, from, 300).await {
                Err(log::ReadError::Trimmed(_)) => {
                    self.next = None;
                    continue;
                }
                chunk => chunk.unwrap(),
            };
            let first = chunk.start.position.get();
            let mut done = Vec::new();
            for (lies, message) in (first..).map(Position::new).zip(chunk.messages()) {
                done.extend(self.ticks.push(lies, message));
            }
            self.next = Some(chunk.next);
            if chunk.freshness != Freshness::Behind {
                done.extend(self.ticks.up_to_date());
            }
            for tick in done {
                self.told.push(tick.clone());
                self.state.apply(tick);
            }
            if chunk.freshness != Freshness::Behind {
                return;
            }
        }
    }

    async fn of(log: &Arc<dyn Log>, address: &Address) -> Self {
        let mut raw = Self::default();
        raw.catch_up(log, address).await;
        raw
    }

    /// What happened from a position on.
    fn since(&self, position: Position) -> Vec<(Position, Option<String>, usize)> {
        let later = self.told.iter().filter(|tick| tick.first >= position);
        let real = later.filter(|tick| {
            let is_mark = |entry: &(_, _)| {
                use state::{Control::*, Entry::Control};
                matches!(entry.1, Control(SnapshotStart | SnapshotEnd, _))
            };
            tick.start != Start::Snapshot && !tick.entries().iter().all(is_mark)
        });
        real.map(|tick| {
            (tick.first, tick.txid.as_ref().map(ToString::to_string), tick.entries().len())
        })
        .collect()
    }
}

/// Messages of every kind, in appends of a few.
fn any_appends() -> impl Strategy<Value = Vec<Vec<String>>> {
    let name = prop::sample::select(vec!["message", "reply", "later", "\\u0001 \\\"ü"]);
    let key = prop::sample::select(vec!["a", "b", "7", "07", "c/d e", "\\\"", "ü"]);
    let operation = prop::sample::select(vec!["insert", "update", "upsert", "delete"]);
    let txid = prop::sample::select(vec!["", r#","txid":"me.1""#, r#","txid":"t2","from":"x""#]);
    let write = (name, key, operation, txid, 0..9u32).prop_map(|(name, key, word, txid, n)| {
        let value =
            format!(r#"{{"to":"{n}","text":"t","status":"done","likes":{n},"x":[1.50,{n}]}}"#);
        let headers = format!(r#"{{"operation":"{word}"{txid}}}"#);
        let rest = format!(r#""value":{value},"old_value":1,"more":{n},"headers":{headers}"#);
        format!(r#"{{"type":"{name}","key":"{key}",{rest}}}"#)
    });
    let odd = prop::sample::select(vec![
        r#"{"headers":{"control":"reset"}}"#,
        r#"{"headers":{"control":"reset","txid":"t2"}}"#,
        r#"{"headers":{"control":"snapshot-start","offset":"1_2"}}"#,
        r#"{"headers":{"operation":"later","txid":"t2"}}"#,
        "[1,2]",
    ]);
    let message = prop_oneof![20 => write, 1 => odd.prop_map(str::to_owned)];
    prop::collection::vec(prop::collection::vec(message, 1..6), 1..12)
}

/// The typed rows of a database, and what is known of them.
fn typed(db: &StreamDb) -> Vec<String> {
    let messages = db.rows::<Message>().unwrap();
    let replies = db.rows::<Reply>().unwrap();
    let messages = messages.rows().into_iter().map(|row| format!("{:?} {:?}", *row, row.meta()));
    let replies = replies.rows().into_iter().map(|row| format!("{:?} {:?}", *row, row.meta()));
    messages.chain(replies).collect()
}

fn named(log: &Arc<dyn Log>, address: &Address, sys: &Sys) -> StreamDb {
    let builder = StreamDb::builder(log.clone(), address.clone(), sys).client("me");
    builder.with::<Message>().with::<Reply>().open().unwrap()
}

/// Waits until a database has read all there is.
async fn settle(db: &StreamDb, log: &Arc<dyn Log>, address: &Address, mark: &str) {
    let text = put("mark", mark, "1").replace("}}", &format!(r#","txid":"{mark}"}}}}"#));
    append(log, address, &[text]).await;
    db.await_txid(mark, std::time::Duration::from_secs(60)).await.unwrap();
}

async fn says_the_same(rounds: Vec<Vec<Vec<String>>>, holds: Vec<Option<u64>>, lag: usize) {
    let sys = Sys::real();
    let (log, address) = log_with_stream(&sys).await;
    let connected = named(&log, &address, &sys);
    connected.ready().await.unwrap();
    let (mut late, mut awake) = (Raw::default(), Raw::default());
    for (round, (appends, hold)) in rounds.into_iter().zip(holds).enumerate() {
        for (index, messages) in appends.iter().enumerate() {
            append(&log, &address, messages).await;
            if index == lag {
                late.catch_up(&log, &address).await;
            }
        }
        settle(&connected, &log, &address, &format!("before {round}")).await;
        awake.catch_up(&log, &address).await;
        let before = Raw::of(&log, &address).await;
        let compaction = compact(&log, address.clone(), &sys).drop_unreadable();
        let compaction = match hold {
            Some(hold) => compaction.hold(Position::new(hold)),
            None => compaction,
        };
        let planned = compaction.plan().await.unwrap();
        let compacted = compaction.run().await.unwrap();
        assert_eq!(planned, compacted);
        let head = log.head(&address).await.unwrap();
        assert_eq!(
            head.tail.position.get() - head.earliest.position.get(),
            compacted.after.messages
        );
        assert_eq!(head.tail.byte.get() - head.earliest.byte.get(), compacted.after.bytes);
        let after = Raw::of(&log, &address).await;
        assert_eq!(after.state, before.state);
        if compacted.after != compacted.before {
            assert_eq!(after.since(compacted.reach), copyable(&before, compacted.reach));
        }
        // Those who were there, near or far, come to the same.
        for reader in [&mut late, &mut awake] {
            reader.catch_up(&log, &address).await;
            assert_eq!(reader.state, before.state);
        }
        settle(&connected, &log, &address, &format!("after {round}")).await;
        let fresh = named(&log, &address, &sys);
        fresh.ready().await.unwrap();
        assert_eq!(typed(&fresh), typed(&connected));
    }
}

/// What happened from a position on, as far as it can be told again.
fn copyable(raw: &Raw, since: Position) -> Vec<(Position, Option<String>, usize)> {
    let dropped: Vec<_> = raw
        .told
        .iter()
        .filter(|tick| {
            let skip = state::Skip::NotAnObject;
            tick.entries().iter().any(|(_, entry)| *entry == state::Entry::Skipped(skip))
        })
        .map(|tick| tick.first)
        .collect();
    raw.since(since).into_iter().filter(|(first, ..)| !dropped.contains(first)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_compacted_stream_says_the_same(
        rounds in prop::collection::vec(any_appends(), 3),
        holds in prop::collection::vec(prop::option::of(0..120u64), 3),
        lag in 0..12usize,
    ) {
        run(|_| says_the_same(rounds, holds, lag));
    }
}

#[test]
fn the_snapshot_gives_room_back_and_a_second_one_has_nothing_to_do() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        for round in 0..50 {
            let rows = ["a", "b"].map(|key| put("n", key, &round.to_string()));
            append(&log, &address, &rows).await;
        }
        let first = compact(&log, address.clone(), &sys).run().await.unwrap();
        assert_eq!((first.rows, first.before.messages, first.after.messages), (2, 100, 4));
        assert!(first.after.bytes < first.before.bytes / 10);
        assert_eq!(first.reach, Position::new(100));
        let tail = log.head(&address).await.unwrap().tail;
        let second = compact(&log, address.clone(), &sys).run().await.unwrap();
        assert_eq!(second.after, second.before);
        assert_eq!(log.head(&address).await.unwrap().tail, tail, "nothing was written");
        let (empty, path) = log_with_stream(&sys).await;
        let nothing = compact(&empty, path, &sys).run().await.unwrap();
        assert_eq!((nothing.rows, nothing.after.messages), (0, 0));
    });
}

#[test]
fn who_writes_meanwhile_wins_and_nothing_is_lost() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let large = format!(r#""{}""#, "x".repeat(5 << 20));
        for round in 0..6 {
            append(&log, &address, &[put("n", &(round % 3).to_string(), &large)]).await;
            append(&log, &address, &[put("n", "small", "1")]).await;
        }
        let other = || {
            let message = Messages::one(put("other", "k", "2")).unwrap();
            Fate::After(Append::messages(message))
        };
        // The snapshot takes two appends; at each of them somebody may be quicker, or it may fail.
        for fates in [vec![other()], vec![Fate::Done, other()], vec![Fate::Done, Fate::Fails]] {
            let before = Raw::of(&log, &address).await;
            let is_raced = !matches!(fates.last(), Some(Fate::Fails));
            let meddled = Wrapped::fated(&log, fates);
            let refused = compact(&meddled, address.clone(), &sys).run().await.unwrap_err();
            assert_eq!(refused.is_retryable(), is_raced, "{refused}");
            assert_eq!(matches!(refused, CompactError::Moved), is_raced, "{refused}");
            let after = Raw::of(&log, &address).await;
            let others = |raw: &Raw| raw.state.get("n", "0").cloned();
            assert_eq!(others(&after), others(&before));
            assert_eq!(log.head(&address).await.unwrap().earliest, wire::Offset::START);
        }
        // An append whose answer is lost is known again by its number.
        let before = Raw::of(&log, &address).await;
        let unheard = Wrapped::fated(&log, vec![Fate::Unheard, Fate::Unheard]);
        let compacted = compact(&unheard, address.clone(), &sys).run().await.unwrap();
        assert_eq!((compacted.rows, compacted.after.messages), (5, 7));
        assert!(Raw::of(&log, &address).await.state == before.state);
    });
}

#[test]
fn of_two_compactions_at_once_one_loses() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        for round in 0..50 {
            append(&log, &address, &[put("n", "a", &round.to_string())]).await;
        }
        // The second has read what there is, and then waits for the first to be done.
        let slow = Wrapped::gated(&log, 1);
        let waiting: Arc<dyn Log> = slow.clone();
        let (path, other) = (address.clone(), sys.clone());
        let second = sys.spawn.task("second", async move {
            let lost = compact(&waiting, path, &other).run().await.unwrap_err();
            assert!(matches!(lost, CompactError::Moved), "{lost}");
            assert!(lost.to_string().contains("try again"));
        });
        while slow.reads.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        compact(&log, address.clone(), &sys).run().await.unwrap();
        slow.reads.add_permits(10);
        second.join().await;
    });
}

#[test]
fn what_cannot_be_compacted_says_why_and_stays_as_it_is() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        for _ in 0..9 {
            append(&log, &address, &[put("n", "a", "1")]).await;
        }
        let refusal = async |log: &Arc<dyn Log>, address: &Address| {
            let error = compact(log, address.clone(), &sys).run().await.unwrap_err();
            assert!(!error.is_retryable());
            error.to_string()
        };
        let mut lacking = Wrapped::new(&log);
        lacking.capabilities.trim = false;
        let lacking: Arc<dyn Log> = Arc::new(lacking);
        assert!(refusal(&lacking, &address).await.contains("can neither trim"));

        append(&log, &address, &["[1]".into()]).await;
        let odd = refusal(&log, &address).await;
        assert!(odd.contains("position 9 would be lost"), "{odd}");
        let dropped = compact(&log, address.clone(), &sys).drop_unreadable().run().await.unwrap();
        assert_eq!(dropped.rows, 1);

        append(&log, &address, &[put("headwater.cursor", "later", r#"{"at":"x"}"#)]).await;
        assert!(refusal(&log, &address).await.contains(r#"effect "later" cannot be read"#));

        let _ = log.close(&address).await.unwrap();
        assert!(refusal(&log, &address).await.contains("closed"));

        let plain: Address = StreamPath::from_url("plain").unwrap().into();
        let _ = log.create(&plain, Create::default()).await.unwrap();
        assert!(refusal(&log, &plain).await.contains("application/octet-stream"));
    });
}

#[test]
fn forks_keep_what_they_have_and_are_compacted_by_themselves() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let fill = async |address: &Address, from: u32| {
            for round in from..from + 20 {
                append(&log, address, &[put("n", &(round % 3).to_string(), &round.to_string())])
                    .await;
            }
        };
        fill(&address, 0).await;
        let path = |name: &str| -> Address { StreamPath::from_url(name).unwrap().into() };
        let early = path("early");
        assert_eq!(
            log.fork(&early, Fork::of(address.clone())).await.unwrap().outcome,
            Outcome::New
        );
        fill(&address, 100).await;
        let (source, fork) = (Raw::of(&log, &address).await, Raw::of(&log, &early).await);
        compact(&log, address.clone(), &sys).run().await.unwrap();
        assert_eq!(Raw::of(&log, &early).await.told, fork.told, "all of its history");
        let late = path("late");
        let _ = log.fork(&late, Fork::of(address.clone())).await.unwrap();
        assert_eq!(Raw::of(&log, &late).await.state, source.state);
        fill(&late, 200).await;
        let grown = Raw::of(&log, &late).await;
        for (stream, expected) in [(&early, &fork.state), (&late, &grown.state)] {
            let compacted = compact(&log, stream.clone(), &sys).run().await.unwrap();
            assert!(compacted.after.messages < compacted.before.messages);
            assert_eq!(Raw::of(&log, stream).await.state, *expected);
        }
        assert_eq!(Raw::of(&log, &address).await.state, source.state);
    });
}

#[test]
fn a_database_that_was_left_behind_catches_up_with_what_is_left() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let messages = db.rows::<Message>().unwrap();
        for id in ["kept", "gone", "changed"] {
            messages.insert(message(id, Status::Pending)).unwrap().settled().await.unwrap();
        }
        let slow = Wrapped::gated(&log, 1);
        let gated: Arc<dyn Log> = slow.clone();
        let late = open(&gated, &address, &sys);
        late.ready().await.unwrap();
        messages.delete("gone").unwrap().settled().await.unwrap();
        for likes in 1..9 {
            let changed = messages.update("changed", |row| row.likes = likes).unwrap();
            changed.settled().await.unwrap();
        }
        compact(&log, address.clone(), &sys).run().await.unwrap();
        let mut changes = late.rows::<Message>().unwrap().changes().unwrap();
        changes.take();
        slow.reads.add_permits(100);
        let told = changes.next().await;
        let keys: Vec<_> = told.iter().map(|change| change.key.to_string()).collect();
        assert_eq!(keys.len(), 2, "in one tick, and only what is new: {keys:?}");
        assert_eq!(late.rows::<Message>().unwrap().get("changed").unwrap().likes, 8);
        assert!(late.rows::<Message>().unwrap().get("gone").is_none());

        // Without a snapshot, what was trimmed is missed.
        slow.reads.forget_permits(100);
        messages.update("kept", |row| row.likes = 1).unwrap().settled().await.unwrap();
        messages.update("kept", |row| row.likes = 2).unwrap().settled().await.unwrap();
        let tail = log.head(&address).await.unwrap().tail;
        let _ = log.trim(&address, tail).await.unwrap();
        slow.reads.add_permits(100);
        let rows = late.rows::<Message>().unwrap();
        while !matches!(rows.status(), live::Status::Error(_)) {
            tokio::task::yield_now().await;
        }
    });
}
