//! Streams and clients that have several lives.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use live::{StreamDb, caps::UNNAMED_PRODUCERS};
use log::{
    Answer, Append, AppendError, Appended, Chunk, Create, Delete, Head, HeadError, Incarnation,
    Layer, Log, MemoryLog, ReadError, Unavailable,
};
use parking_lot::Mutex;
use sys::{Chance, Sys};
use tokio::sync::Semaphore;
use wire::{Address, Messages, Offset, ReadFrom};

use crate::{
    Message, Reply, Status,
    durable::{Answering, replies},
    log_with_stream, message, open, run,
};

/// A log whose tails are asked for only when that is allowed.
#[derive(Debug)]
struct Gated {
    inner: Arc<dyn Log>,
    tails: Semaphore,
}

impl Layer for Gated {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        Box::pin(async move {
            self.tails.acquire().await.unwrap().forget();
            self.inner.tail(address, after).await
        })
    }
}

async fn make(log: &dyn Log, address: &Address) {
    let content_type = Some("application/json".parse().unwrap());
    let _ = log.create(address, Create { content_type, ..Create::default() }).await.unwrap();
}

/// A message as a stranger writes it.
fn put(id: &str, likes: u32, txid: &str) -> String {
    put_as("pending", id, likes, txid)
}

fn put_as(status: &str, id: &str, likes: u32, txid: &str) -> String {
    format!(
        r#"{{"type":"{}","key":"{id}",
           "value":{{"id":"{id}","text":"","status":"{status}","likes":{likes}}},
           "headers":{{"operation":"upsert","txid":"{txid}"}}}}"#,
        <Message as live::Row>::NAME
    )
}

async fn append(log: &dyn Log, address: &Address, messages: &[String]) {
    let messages = Messages::copied(messages.iter().map(|text| text.as_bytes())).unwrap();
    let _ = log.append(address, Append::messages(messages)).await.unwrap();
}

/// Deletes a stream of three rows while no reader waits at its tail, makes it again with `again`
/// rows, and tells what a database shows after that.
fn made_again(again: usize) -> Vec<String> {
    run(|sys| async move {
        let (inner, address) = log_with_stream(&sys).await;
        append(&*inner, &address, &["a", "b", "c"].map(|id| put(id, 0, id))).await;
        let gated = Arc::new(Gated { inner: inner.clone(), tails: Semaphore::new(0) });
        let log: Arc<dyn Log> = gated.clone();
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        inner.delete(&address, Delete::Stream).await.unwrap();
        make(&*inner, &address).await;
        let rows: Vec<_> = (0..again).map(|n| put(&format!("new{n}"), 0, "t")).collect();
        append(&*inner, &address, &rows).await;
        gated.tails.add_permits(100);
        let rows = db.rows::<Message>().unwrap();
        sys.clock.sleep(Duration::from_secs(5)).await;
        let failed = db.ready().await.unwrap_err().to_string();
        assert!(failed.contains("made again"), "{failed}");
        rows.rows().iter().map(|row| row.id.clone()).collect()
    })
}

#[test]
fn a_database_never_shows_rows_of_two_lives_of_a_stream() {
    for again in [4, 10] {
        assert_eq!(made_again(again), ["a", "b", "c"], "{again} rows in the second life");
    }
}

/// A stranger writes one transaction in three appends; the effect is ended after some of them are
/// answered, and started again.
fn spread(answered: usize) -> Vec<String> {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let first = Answering::new(0);
        let effect = first.start(&db);
        append(&*log, &address, &[put("begin", 0, "begin")]).await;
        first.until(1).await;
        first.allowed.add_permits(1);
        replies(&db, 1).await;
        for n in 0..3 {
            append(&*log, &address, &[put(&format!("m{n}"), 0, "spread")]).await;
            // The effect comes to the end of the stream after each of them.
            sys.clock.sleep(Duration::from_secs(1)).await;
        }
        first.allowed.add_permits(answered);
        replies(&db, 1 + answered).await;
        drop(effect);
        let second = Answering::new(100);
        let effect = second.start(&db);
        let all = replies(&db, 4).await;
        effect.dispose().await;
        all
    })
}

#[test]
fn a_transaction_that_is_spread_over_appends_loses_nothing_by_a_restart() {
    for answered in 0..=3 {
        let mut all = spread(answered);
        all.sort();
        assert_eq!(all, ["begin", "m0", "m1", "m2"], "{answered} were answered");
    }
}

/// Answers what enters, and what changes, as often as it is allowed to.
fn answer_all(db: &StreamDb, allowed: &Arc<Semaphore>) -> live::Effect {
    let answer = |kind: &'static str| {
        let allowed = allowed.clone();
        move |event: live::Event<Message>, context: live::Context| {
            let allowed = allowed.clone();
            async move {
                allowed.acquire().await.unwrap().forget();
                let to = event.row().id.clone();
                let reply = Reply { id: format!("{kind} {to}"), to };
                context.commit(|rows| rows.put(&reply)).await?;
                Ok(())
            }
        }
    };
    let pending = live::from::<Message>().filter(Message::status.eq(Status::Pending));
    let effect = db.durable_effect("all", pending);
    effect.on_enter(answer("enter")).on_update(answer("update")).start().unwrap()
}

#[test]
fn what_is_half_done_of_a_spread_transaction_is_not_taken_for_all_of_it() {
    run(|sys| async move {
        let (log, address) = log_with_stream(&sys).await;
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        let first = Arc::new(Semaphore::new(1));
        let effect = answer_all(&db, &first);
        append(&*log, &address, &[put("begin", 0, "begin")]).await;
        replies(&db, 1).await;
        // Two rows in one append, of which one is answered, and a change of that in another.
        let rows = [put("a", 0, "spread"), put("b", 0, "spread")];
        for part in [&rows[..], &[put("a", 1, "spread")]] {
            append(&*log, &address, part).await;
            sys.clock.sleep(Duration::from_secs(1)).await;
        }
        first.add_permits(1);
        replies(&db, 2).await;
        drop(effect);
        let effect = answer_all(&db, &Arc::new(Semaphore::new(100)));
        replies(&db, 4).await;
        effect.dispose().await;
        let replies = db.rows::<Reply>().unwrap();
        let answered: Vec<_> = replies.rows().iter().map(|row| row.id.clone()).collect();
        assert_eq!(answered, ["enter a", "enter b", "enter begin", "update a"]);
    });
}

/// A log that notes who appends, and loses answers now and then.
#[derive(Debug)]
struct Noting {
    inner: MemoryLog,
    producers: Mutex<BTreeSet<String>>,
    chance: Chance,
    lost_percent: u64,
}

impl Layer for Noting {
    fn behind(&self) -> &dyn Log {
        &self.inner
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        let id = append.producer.as_ref().map(|producer| producer.id.to_string());
        self.producers.lock().extend(id);
        Box::pin(async move {
            let unreachable = || Err(Unavailable::Unreachable("a lost packet".into()).into());
            if self.chance.below(100) < self.lost_percent {
                return unreachable();
            }
            let answer = self.inner.append(address, append).await;
            match self.chance.below(100) < self.lost_percent {
                true => unreachable(),
                false => answer,
            }
        })
    }
}

fn noting(sys: &Sys, seed: u64, lost_percent: u64) -> Arc<Noting> {
    let (producers, chance) = (Mutex::default(), Chance::seeded(seed));
    Arc::new(Noting { inner: MemoryLog::new(sys), producers, chance, lost_percent })
}

fn unnamed(log: &Arc<Noting>, address: &Address, sys: &Sys) -> StreamDb {
    let log: Arc<dyn Log> = log.clone();
    StreamDb::builder(log, address.clone(), sys).with::<Message>().open().unwrap()
}

#[test]
fn clients_without_a_name_need_few_producers_however_many_lives_they_have() {
    run(|sys| async move {
        let log = noting(&sys, 1, 0);
        let address: Address = "s".parse::<wire::StreamPath>().unwrap().into();
        make(&*log, &address).await;
        for n in 0..3 * UNNAMED_PRODUCERS {
            let db = unnamed(&log, &address, &sys);
            let rows = db.rows::<Message>().unwrap();
            let row = message(&format!("m{n}"), Status::Pending);
            rows.insert(row).unwrap().settled().await.unwrap();
        }
        let producers = log.producers.lock().len() as u64;
        assert!(producers <= UNNAMED_PRODUCERS, "{producers} producers");
    });
}

/// Twice as many clients as there are producers write at once, over a network that loses calls
/// and answers: everything is written, once.
fn shared_by_many(seed: u64) {
    run(|sys| async move {
        let log = noting(&sys, seed, 20);
        let address: Address = "s".parse::<wire::StreamPath>().unwrap().into();
        make(&*log, &address).await;
        let dbs: Vec<_> =
            (0..2 * UNNAMED_PRODUCERS).map(|_| unnamed(&log, &address, &sys)).collect();
        for round in 0..3 {
            let mut writes = Vec::new();
            for (n, db) in dbs.iter().enumerate() {
                let row = message(&format!("{n}.{round}"), Status::Pending);
                writes.push(db.rows::<Message>().unwrap().insert(row).unwrap());
            }
            for write in writes {
                write.settled().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        }
        let chunk = log.inner.read(&address, ReadFrom::Start, usize::MAX).await.unwrap();
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for message in chunk.messages() {
            let json: serde_json::Value = serde_json::from_slice(message).unwrap();
            *times.entry(json["key"].to_string()).or_default() += 1;
        }
        assert_eq!(times.len(), 3 * dbs.len(), "seed {seed}");
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "seed {seed}: {twice:?}");
        assert!(log.producers.lock().len() as u64 <= UNNAMED_PRODUCERS);
    });
}

#[test]
fn clients_that_share_a_producer_write_everything_once() {
    (0..4).for_each(shared_by_many);
}

/// A log of which an earlier copy is restored while a reader waits at its tail.
#[derive(Debug)]
struct Restored {
    before: Arc<dyn Log>,
    after: Arc<dyn Log>,
    is_restored: AtomicBool,
    /// The stream is the same one.
    life: Incarnation,
    tails: Semaphore,
}

impl Layer for Restored {
    fn behind(&self) -> &dyn Log {
        match self.is_restored.load(Ordering::Relaxed) {
            true => &*self.after,
            false => &*self.before,
        }
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async move {
            let chunk = self.behind().read(address, from, bytes_max).await?;
            Ok(Chunk { incarnation: self.life, ..chunk })
        })
    }

    fn tail<'a>(
        &'a self,
        address: &'a Address,
        after: Offset,
    ) -> Answer<'a, Result<Head, HeadError>> {
        Box::pin(async move {
            self.tails.acquire().await.unwrap().forget();
            match self.is_restored.load(Ordering::Relaxed) {
                // The process that was asked is gone.
                true => Err(Unavailable::Overloaded.into()),
                false => self.before.tail(address, after).await,
            }
        })
    }
}

#[test]
fn a_database_whose_stream_was_restored_to_an_earlier_state_says_so_and_shows_what_it_had() {
    run(|sys| async move {
        let (before, address) = log_with_stream(&sys).await;
        let (after, _) = log_with_stream(&sys).await;
        append(&*before, &address, &["a", "b", "c"].map(|id| put(id, 0, id))).await;
        append(&*after, &address, &[put("a", 0, "a")]).await;
        let life = before.head(&address).await.unwrap().incarnation;
        let restored = Arc::new(Restored {
            before,
            after,
            is_restored: AtomicBool::new(false),
            life,
            tails: Semaphore::new(0),
        });
        let log: Arc<dyn Log> = restored.clone();
        let db = open(&log, &address, &sys);
        db.ready().await.unwrap();
        restored.is_restored.store(true, Ordering::Relaxed);
        restored.tails.add_permits(100);
        let rows = db.rows::<Message>().unwrap();
        sys.clock.sleep(Duration::from_secs(5)).await;
        let failed = db.ready().await.unwrap_err().to_string();
        assert!(failed.contains("an older copy of it was restored"), "{failed}");
        let shown: Vec<_> = rows.rows().iter().map(|row| row.id.clone()).collect();
        assert_eq!(shown, ["a", "b", "c"]);
    });
}

/// A log that cannot be reached.
#[derive(Debug)]
struct Away(Arc<dyn Log>);

impl Layer for Away {
    fn behind(&self) -> &dyn Log {
        &*self.0
    }

    fn read<'a>(
        &'a self,
        _: &'a Address,
        _: ReadFrom,
        _: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async { Err(Unavailable::Unreachable("a lost packet".into()).into()) })
    }
}

#[test]
fn a_database_that_is_dropped_while_its_log_is_away_lets_go_of_it_at_once() {
    run(async |sys| {
        let (log, address) = log_with_stream(&sys).await;
        let away: Arc<dyn Log> = Arc::new(Away(log));
        let db = open(&away, &address, &sys);
        // Long enough that pauses between attempts are seconds.
        sys.clock.sleep(Duration::from_mins(2)).await;
        let dropped = sys.clock.elapsed();
        drop(db);
        while Arc::strong_count(&away) > 1 {
            sys.clock.sleep(Duration::from_millis(1)).await;
        }
        let took = sys.clock.elapsed() - dropped;
        assert!(took < Duration::from_millis(100), "it held the log for {took:?}");
    });
}
