//! What the engine and the index of open work make of a log that cannot read or write for a while,
//! or some of it never again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeSet,
    future::{Future, ready},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt as _;
use log::{
    Answer, Append, AppendError, Appended, Chunk, Create, Incarnation, Layer, List, ListError, Log,
    MemoryLog, MessagesDamaged, Page, ReadError, Unavailable,
};
use sys::{
    Chance, Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wake::{
    Ack, Call, Claim, ClaimError, Config, Courier, Delivery, Engine, Keys, Letter, OpenError,
    OpenWork, Progress, Received, SubscriptionId, Subscriptions as _, WebhookUrlRejected, caps,
};
use wire::{Address, ContentType, Glob, Messages, Offset, ReadFrom, StreamPath, SystemPath};

/// Where the watermarks of the index stand that these tests open.
const INDEX: &str = "wake/open/test";

/// A log that refuses what a test says.
#[derive(Debug)]
struct Ailing {
    behind: MemoryLog,
    ails: Mutex<Ails>,
}

#[derive(Debug, Default)]
struct Ails {
    /// The disk has no room for appends to these, by the beginnings of their names.
    full: Vec<&'static str>,
    /// A system stream, and which of its messages are damaged: from one up to another.
    damaged: Option<(Address, Offset, Offset)>,
    /// A life of a stream of which nothing can be read.
    lost: Option<Incarnation>,
    /// The next lists fail.
    lists_fail: usize,
    /// Appends that were refused.
    refused: BTreeSet<String>,
}

impl Layer for Ailing {
    fn behind(&self) -> &dyn Log {
        &self.behind
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        let mut ails = self.ails.lock().unwrap();
        let name = address.to_string();
        if ails.full.iter().any(|full| name.contains(full)) {
            ails.refused.insert(name);
            let why = Unavailable::DiskFull("no space left".to_owned());
            return Box::pin(ready(Err(why.into())));
        }
        self.behind.append(address, append)
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        let (damaged, lost) = {
            let ails = self.ails.lock().unwrap();
            (ails.damaged.clone(), ails.lost)
        };
        let refuse = |from, until| {
            let stream = address.to_string();
            Err(Unavailable::Damaged(MessagesDamaged { stream, from, until }).into())
        };
        Box::pin(async move {
            let mut chunk = self.behind.read(address, from, bytes_max).await?;
            // What is sound before the damage is read first.
            if let Some((at, damage, _)) = &damaged
                && at == address
                && chunk.start < *damage
            {
                let sound = damage.byte.get() - chunk.start.byte.get();
                let sound = bytes_max.min(usize::try_from(sound).unwrap());
                chunk = self.behind.read(address, from, sound).await?;
            }
            match damaged {
                _ if lost == Some(chunk.incarnation) => refuse(Offset::START, Offset::START),
                Some((at, from, until))
                    if at == *address && chunk.start < until && chunk.next > from =>
                {
                    refuse(from, until)
                }
                _ => Ok(chunk),
            }
        })
    }

    fn list<'a>(&'a self, list: List) -> Answer<'a, Result<Page, ListError>> {
        let mut ails = self.ails.lock().unwrap();
        if ails.lists_fail > 0 {
            ails.lists_fail -= 1;
            return Box::pin(ready(Err(Unavailable::Overloaded.into())));
        }
        self.behind.list(list)
    }
}

/// Counts calls, and answers that all is done with.
#[derive(Debug, Default)]
struct Counting(Mutex<Vec<Call>>);

impl Courier for Counting {
    fn check(&self, _: &str) -> Result<(), WebhookUrlRejected> {
        Ok(())
    }

    fn carry(&self, letter: Letter) -> wake::Answer<'_, Option<Received>> {
        self.0.lock().unwrap().push(letter.call);
        Box::pin(ready(Some(Received { status: 200, body: r#"{"done":true}"#.into() })))
    }
}

struct World {
    sys: Sys,
    log: Arc<dyn Log>,
    ailing: Arc<Ailing>,
    courier: Arc<Counting>,
}

fn simulate<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let disk = SimDisk::new(1, SimFaults::default());
        let sys = Sys::simulated(1, disk, UnixMs::new(1_000_000_000_000));
        let log = Ailing { behind: MemoryLog::new(&sys), ails: Mutex::default() };
        let ailing = Arc::new(log);
        test(World { sys, log: ailing.clone(), ailing, courier: Arc::default() }).await;
    });
}

fn address(path: &str) -> Address {
    path.parse::<StreamPath>().unwrap().into()
}

fn system(path: &str) -> Address {
    path.parse::<SystemPath>().unwrap().into()
}

fn id(text: &str) -> SubscriptionId {
    text.parse().unwrap()
}

fn webhook() -> Config {
    let delivery = Delivery::Webhook("https://a.example/".to_owned());
    Config { pattern: Some("jobs/*".parse().unwrap()), ..Config::new(delivery) }
}

fn pull() -> Config {
    let delivery = Delivery::PullWake("calls".parse().unwrap());
    Config { pattern: Some("jobs/*".parse().unwrap()), ..Config::new(delivery) }
}

impl World {
    fn ail(&self, change: impl FnOnce(&mut Ails)) {
        change(&mut self.ailing.ails.lock().unwrap());
    }

    async fn try_open(&self) -> Result<Engine, OpenError> {
        let keys = Arc::new(Keys::generate(&Chance::seeded(7)));
        Engine::open(self.log.clone(), &self.sys, self.courier.clone(), keys).await
    }

    async fn index(&self) -> OpenWork {
        let log = self.log.clone();
        OpenWork::open(&self.sys, log, "test", Glob::everything()).await.unwrap()
    }

    async fn append(&self, stream: &str) {
        let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = self.log.create(&address(stream), create).await.unwrap();
        let append = Append::messages(Messages::one("1").unwrap());
        let _ = self.log.append(&address(stream), append).await.unwrap();
    }

    async fn messages(&self, stream: &str) -> usize {
        let chunk = self.log.read(&address(stream), ReadFrom::Start, usize::MAX).await.unwrap();
        chunk.messages().count()
    }

    async fn pass(&self, time: Duration) {
        self.sys.clock.sleep(time).await;
    }

    fn calls(&self) -> usize {
        self.courier.0.lock().unwrap().len()
    }
}

/// The offset after the n-th message of a system stream.
async fn after(log: &dyn Log, stream: &Address, count: usize) -> Offset {
    let chunk = log.read(stream, ReadFrom::Start, usize::MAX).await.unwrap();
    let messages: Vec<_> = chunk.messages().take(count).collect();
    let bytes = messages.iter().map(|message| message.len()).sum::<usize>();
    chunk.start.after(count as u64, bytes as u64)
}

#[test]
fn damaged_watermarks_are_passed_over_and_the_stream_is_written_anew() {
    simulate(|world| async move {
        let at = Offset::new(1, 1);
        let work = world.index().await;
        for life in 7..10 {
            work.leave(Incarnation::new(life), at).await.unwrap();
        }
        work.close().await;
        let stream = system(INDEX);
        let (from, until) =
            (after(&*world.log, &stream, 1).await, after(&*world.log, &stream, 2).await);
        world.ail(|ails| ails.damaged = Some((stream.clone(), from, until)));
        let work = world.index().await;
        let open = [7, 8, 9].map(|life| work.is_open(Incarnation::new(life), at));
        assert_eq!(open, [false, true, false]);
        work.leave(Incarnation::new(8), at).await.unwrap();
        work.close().await;
        let head = world.log.head(&stream).await.unwrap();
        assert!(head.earliest >= until, "what is damaged is dropped");
        let work = world.index().await;
        assert_eq!(work.marks_count(), 3);
    });
}

#[test]
fn an_index_that_cannot_be_read_for_good_begins_anew() {
    simulate(|world| async move {
        let at = Offset::new(1, 1);
        let work = world.index().await;
        work.leave(Incarnation::new(7), at).await.unwrap();
        let stream = system(INDEX);
        let life = world.log.head(&stream).await.unwrap().incarnation;
        world.ail(|ails| ails.lost = Some(life));
        let again = world.index().await;
        assert_eq!(again.marks_count(), 0);
        again.leave(Incarnation::new(7), at).await.unwrap();
        // One that another process has open goes on in the new stream, and makes it if need be.
        work.leave(Incarnation::new(8), at).await.unwrap();
        assert_eq!(world.index().await.marks_count(), 2);
        world.log.delete(&stream, log::Delete::Erase).await.unwrap();
        work.leave(Incarnation::new(9), at).await.unwrap();
        let last = world.index().await;
        let open = [7, 8, 9].map(|life| last.is_open(Incarnation::new(life), at));
        assert_eq!(open, [true, true, false]);
    });
}

#[test]
fn a_damaged_diary_is_refused_with_its_place_and_left_as_it_is() {
    simulate(|world| async move {
        let engine = world.try_open().await.unwrap();
        engine.create(&id("s"), webhook(), String::new()).await.unwrap();
        engine.close().await;
        let diary = system("wake/diary");
        let end = after(&*world.log, &diary, 1).await;
        world.ail(|ails| ails.damaged = Some((diary.clone(), Offset::START, end)));
        let error = world.try_open().await.unwrap_err();
        assert!(!error.is_retryable());
        assert!(error.to_string().contains("headwater doctor"), "{error}");
        world.ail(|ails| ails.damaged = None);
        let engine = world.try_open().await.unwrap();
        engine.get(&id("s")).await.unwrap();
    });
}

/// A report that all of a claim is done.
fn all_of(claim: &Claim) -> Progress {
    let acks = claim.streams.iter();
    let acks = acks.map(|work| Ack { path: work.link.path.clone(), offset: work.tail }).collect();
    let (wake_id, generation) = (claim.wake_id.clone(), claim.generation);
    Progress { wake_id, generation, acks, done: true }
}

/// What is owed is delivered once there is room again: at once if only the diary had none, after
/// the longest pause between two attempts if a delivery had.
async fn after_a_full_disk(world: &World, full: &'static str, bound: Duration) {
    let engine = world.try_open().await.unwrap();
    let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
    let _ = world.log.create(&address("calls"), create).await.unwrap();
    engine.create(&id("hook"), webhook(), String::new()).await.unwrap();
    engine.create(&id("pull"), pull(), String::new()).await.unwrap();
    world.append("jobs/before").await;
    world.pass(Duration::from_secs(1)).await;
    assert_eq!((world.calls(), world.messages("calls").await), (1, 1), "{full}");
    let claim = engine.claim(&id("pull"), "worker".to_owned()).await.unwrap();

    world.ail(|ails| ails.full = vec![full]);
    for job in 0..3 {
        world.append(&format!("jobs/{job}")).await;
        world.pass(Duration::from_mins(2)).await;
    }
    assert!(!world.ailing.ails.lock().unwrap().refused.is_empty(), "{full}: nothing was refused");
    world.ail(|ails| ails.full.clear());
    world.pass(bound).await;

    let view = engine.get(&id("hook")).await.unwrap();
    assert_eq!(view.links.len(), 4, "{full}");
    for link in view.links {
        assert_eq!(link.acked, Some(Offset::new(1, 1)), "{full}: {}", link.path);
    }
    assert!(world.messages("calls").await >= 2, "{full}: workers are called again");
    engine.report(&id("pull"), &claim.token, all_of(&claim)).await.unwrap_err();
    // What was claimed before, and what came.
    let mut done = BTreeSet::new();
    while let Ok(claim) = engine.claim(&id("pull"), "worker".to_owned()).await {
        engine.report(&id("pull"), &claim.token, all_of(&claim)).await.unwrap();
        done.extend(claim.streams.into_iter().map(|work| work.link.path));
    }
    assert_eq!(done.len(), 4, "{full}: {done:?}");
    engine.close().await;
}

#[test]
fn a_full_disk_delays_wakes_and_loses_none() {
    let longest = caps::RETRY_MAX * 12 / 10 + Duration::from_secs(1);
    for (full, bound) in
        [("wake/diary", Duration::from_secs(1)), ("calls", longest), ("a", longest)]
    {
        simulate(|world| async move { after_a_full_disk(&world, full, bound).await });
    }
}

#[test]
fn what_was_decided_when_the_log_could_not_be_listed_is_neither_written_nor_promised() {
    simulate(|world| async move {
        let engine = world.try_open().await.unwrap();
        let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = world.log.create(&address("calls"), create).await.unwrap();
        engine.create(&id("pull"), pull(), String::new()).await.unwrap();
        world.append("jobs/0").await;
        world.pass(Duration::from_secs(1)).await;
        // More hints than it may lag behind, of streams it does not follow: a pass is due, whose
        // list fails in the turn that decides the claim.
        for _ in 0..3_000 {
            let append = Append::messages(Messages::one("1").unwrap());
            let _ = world.log.append(&address("jobs/0"), append).now_or_never().unwrap().unwrap();
        }
        world.ail(|ails| ails.lists_fail = 1);
        let refused = engine.claim(&id("pull"), "one".to_owned()).await.unwrap_err();
        assert!(matches!(refused, ClaimError::Unavailable(_)), "{refused:?}");
        world.pass(Duration::from_secs(1)).await;
        let claim = engine.claim(&id("pull"), "two".to_owned()).await.unwrap();
        engine.close().await;
        let engine = world.try_open().await.unwrap();
        let alive = Progress {
            wake_id: claim.wake_id.clone(),
            generation: claim.generation,
            acks: Vec::new(),
            done: false,
        };
        engine.report(&id("pull"), &claim.token, alive).await.unwrap();
    });
}
