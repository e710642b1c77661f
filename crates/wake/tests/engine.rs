//! The engine over a real log, in simulated time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "engine/bounds.rs"]
mod bounds;
#[path = "engine/reports.rs"]
mod reports;
#[path = "engine/views.rs"]
mod views;

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use log::{Append, AppendError, Appended, Create, Layer, Log, MemoryLog, ReadError, Unavailable};
use sys::{
    Chance, Clock, Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use tokio::sync::mpsc;
use wake::{
    Ack, Answer, BadReport, Bounds, Call, Claim, ClaimError, Concurrency, Config, Courier,
    Delivery, Engine, Keys, Letter, Listed, Page, Progress, ProgressError, Received, Reply,
    SubscriptionId, Subscriptions, WebhookUrlRejected,
};
use wire::{Address, ContentType, Expiry, Messages, ReadFrom, StreamPath, Ttl};

/// Runs a test in a world of its own; time passes only when everybody waits.
fn simulate<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    simulate_at(UnixMs::new(1_000_000_000_000), test);
}

fn simulate_at<F: Future<Output = ()>>(start: UnixMs, test: impl FnOnce(World) -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { test(World::new(start)).await });
}

struct World {
    sys: Sys,
    log: Arc<dyn Log>,
    courier: Arc<Script>,
    calls: mpsc::UnboundedReceiver<Call>,
}

/// A courier that answers as told, and tells what it carried.
#[derive(Debug)]
struct Script {
    clock: Clock,
    replies: Mutex<VecDeque<Reply>>,
    carried: mpsc::UnboundedSender<Call>,
    /// How long each call takes.
    pause: Mutex<Duration>,
}

impl Courier for Script {
    fn check(&self, url: &str) -> Result<(), WebhookUrlRejected> {
        match url.starts_with("https://") {
            true => Ok(()),
            false => Err(WebhookUrlRejected("use https".to_owned())),
        }
    }

    fn carry(&self, letter: Letter) -> Answer<'_, Option<Received>> {
        let reply = self.replies.lock().unwrap().pop_front().unwrap_or(Reply::Accepted);
        self.carried.send(letter.call).unwrap();
        let (status, body) = match reply {
            Reply::Done => (200, r#"{"done":true}"#),
            Reply::Accepted => (204, ""),
            Reply::Failed => (503, r#"{"done":true}"#),
        };
        let pause = *self.pause.lock().unwrap();
        Box::pin(async move {
            if !pause.is_zero() {
                self.clock.sleep(pause).await;
            }
            Some(Received { status, body: body.into() })
        })
    }
}

fn path(text: &str) -> StreamPath {
    text.parse().unwrap()
}

fn address(text: &str) -> Address {
    path(text).into()
}

fn id(text: &str) -> SubscriptionId {
    text.parse().unwrap()
}

fn pull(pattern: &str) -> Config {
    Config {
        pattern: Some(pattern.parse().unwrap()),
        ..Config::new(Delivery::PullWake(path("wake")))
    }
}

fn webhook(pattern: &str) -> Config {
    Config { delivery: Delivery::Webhook("https://a.example/".to_owned()), ..pull(pattern) }
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "a test may hear everything")]
    fn new(start: UnixMs) -> Self {
        let disk = SimDisk::new(1, SimFaults::default());
        let sys = Sys::simulated(1, disk, start);
        let (carried, calls) = mpsc::unbounded_channel();
        let (clock, replies, pause) = (sys.clock.clone(), Mutex::default(), Mutex::default());
        let courier = Arc::new(Script { clock, replies, carried, pause });
        Self { log: Arc::new(MemoryLog::new(&sys)), sys, courier, calls }
    }

    async fn open(&self) -> Engine {
        self.open_within(Bounds::default()).await
    }

    async fn open_within(&self, bounds: Bounds) -> Engine {
        let keys = Arc::new(Keys::generate(&Chance::seeded(7)));
        let (log, courier) = (self.log.clone(), self.courier.clone());
        Engine::open_within(log, &self.sys, courier, keys, bounds).await.unwrap()
    }

    fn replies(&self, replies: &[Reply]) {
        self.courier.replies.lock().unwrap().extend(replies);
    }

    async fn create(&self, stream: &str) {
        let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = self.log.create(&address(stream), create).await.unwrap();
    }

    async fn append(&self, stream: &str) {
        let append = Append::messages(Messages::one("1").unwrap());
        let _ = self.log.append(&address(stream), append).await.unwrap();
    }

    /// Everything in a stream.
    async fn read(&self, stream: &str) -> Result<Vec<serde_json::Value>, ReadError> {
        let chunk = self.log.read(&address(stream), ReadFrom::Start, usize::MAX).await?;
        Ok(chunk.messages().map(|message| serde_json::from_slice(message).unwrap()).collect())
    }

    /// Lets everybody come to rest.
    async fn settle(&self) {
        self.sys.clock.sleep(Duration::from_millis(1)).await;
    }

    async fn pass(&self, seconds: u64) {
        self.sys.clock.sleep(Duration::from_secs(seconds)).await;
    }

    fn calls(&mut self) -> Vec<Call> {
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }
}

fn done(claim: &Claim) -> Progress {
    let acks = claim.streams.iter();
    let acks = acks.map(|work| Ack { path: work.link.path.clone(), offset: work.tail }).collect();
    let (wake_id, generation) = (claim.wake_id.clone(), claim.generation);
    Progress { wake_id, generation, acks, done: true }
}

#[test]
fn workers_race_for_a_wake() {
    simulate(|world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        world.create("events/old").await;
        world.append("events/old").await;
        assert!(engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap().is_new);
        world.settle().await;
        assert_eq!(world.read("wake").await.unwrap().len(), 0, "what was there is not work");

        world.create("events/new").await;
        world.append("events/new").await;
        world.settle().await;
        let wakes = world.read("wake").await.unwrap();
        assert_eq!((&wakes[0]["type"], &wakes[0]["generation"]), (&"wake".into(), &1.into()));
        assert_eq!(wakes[0]["stream"], "events/new");

        let claim = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
        assert_eq!(claim.streams.len(), 1);
        assert_eq!(claim.streams[0].link.acked, None, "found by its first message");
        let refused = engine.claim(&id("s"), "two".to_owned()).await.unwrap_err();
        assert!(matches!(refused, ClaimError::AlreadyClaimed(fact) if fact.holder == "one"));

        world.append("events/old").await;
        let reported = engine.report(&id("s"), &claim.token, done(&claim)).await.unwrap();
        assert!(reported.next_wake, "events/old has work");
        let late = engine.report(&id("s"), &claim.token, done(&claim)).await.unwrap_err();
        assert!(matches!(late, ProgressError::Fenced(_)));
        let claim = engine.claim(&id("s"), "two".to_owned()).await.unwrap();
        assert_eq!(claim.streams[0].link.path, path("events/old"));
        let reported = engine.report(&id("s"), &claim.token, done(&claim)).await.unwrap();
        assert!(!reported.next_wake);
        let refused = engine.claim(&id("s"), "two".to_owned()).await.unwrap_err();
        assert!(matches!(refused, ClaimError::NoPendingWork(_)));
    });
}

#[test]
fn a_silent_worker_loses_its_wake() {
    simulate(|world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        engine.create(&id("s"), pull("**"), String::new()).await.unwrap();
        world.create("a").await;
        world.append("a").await;
        world.settle().await;
        let zombie = engine.claim(&id("s"), "zombie".to_owned()).await.unwrap();
        world.pass(20).await;
        let alive = Progress { acks: Vec::new(), done: false, ..done(&zombie) };
        engine.report(&id("s"), &zombie.token, alive.clone()).await.unwrap();
        world.pass(20).await;
        engine.report(&id("s"), &zombie.token, alive.clone()).await.unwrap();
        world.pass(31).await;
        let late = engine.report(&id("s"), &zombie.token, done(&zombie)).await.unwrap_err();
        assert!(matches!(late, ProgressError::Fenced(_)));
        let claim = engine.claim(&id("s"), "heir".to_owned()).await.unwrap();
        assert_eq!(claim.generation, zombie.generation + 1);
        let released =
            engine.release(&id("s"), &claim.token, claim.wake_id.clone(), claim.generation).await;
        released.unwrap();
        world.settle().await;
        let last = engine.claim(&id("s"), "last".to_owned()).await.unwrap();
        assert_eq!(last.streams, claim.streams);
    });
}

#[test]
fn a_token_does_not_outlive_its_subscription() {
    simulate(|world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        let mut claims = Vec::new();
        for n in 0..2 {
            engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap();
            world.create(&format!("events/{n}")).await;
            world.append(&format!("events/{n}")).await;
            world.settle().await;
            claims.push(engine.claim(&id("s"), "one".to_owned()).await.unwrap());
            if n == 0 {
                engine.delete(&id("s")).await.unwrap();
            }
        }
        let (old, new) = (&claims[0], &claims[1]);
        assert_eq!(old.generation, new.generation);
        let late = engine.report(&id("s"), &old.token, done(new)).await.unwrap_err();
        assert!(matches!(late, ProgressError::Fenced(_)));
        let (wake_id, generation) = (new.wake_id.clone(), new.generation);
        let released = engine.release(&id("s"), &old.token, wake_id, generation).await;
        assert!(matches!(released.unwrap_err(), ProgressError::Fenced(_)));
        engine.report(&id("s"), &new.token, done(new)).await.unwrap();
    });
}

#[test]
fn a_report_acknowledges_each_stream_once_and_not_too_many() {
    simulate(|world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap();
        world.create("events/a").await;
        world.append("events/a").await;
        world.settle().await;
        let claim = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
        let ack = done(&claim).acks.remove(0);
        let numbered = |n| Ack { path: path(&format!("events/{n}")), ..ack.clone() };
        let twice = Progress { acks: vec![ack.clone(), ack.clone()], ..done(&claim) };
        let many = Progress { acks: (0..1_001).map(numbered).collect(), ..done(&claim) };
        for (progress, why) in
            [(twice, BadReport::AckedTwice(ack.path.clone())), (many, BadReport::TooManyAcks)]
        {
            let refused = engine.report(&id("s"), &claim.token, progress).await.unwrap_err();
            assert!(matches!(refused, ProgressError::BadReport(fact) if fact == why));
        }
        engine.report(&id("s"), &claim.token, done(&claim)).await.unwrap();
    });
}

#[test]
fn a_webhook_is_called_until_it_answers() {
    simulate(|mut world| async move {
        let engine = world.open().await;
        let refused = Config { delivery: Delivery::Webhook("http://x".into()), ..webhook("**") };
        engine.create(&id("s"), refused, String::new()).await.unwrap_err();
        engine.create(&id("s"), webhook("**"), "https://me".to_owned()).await.unwrap();
        world.replies(&[Reply::Failed, Reply::Failed, Reply::Done]);
        world.create("a").await;
        world.append("a").await;
        world.settle().await;
        let first = world.calls();
        assert_eq!(first.len(), 1);
        assert_eq!((first[0].generation, &*first[0].base), (1, "https://me"));
        assert!(engine.get(&id("s")).await.unwrap().is_failing);
        let setback = engine.setback(&id("s")).await.unwrap().unwrap();
        assert_eq!(setback.last_error.as_deref(), Some("the webhook answered 503"));
        let wait = setback.next_attempt_at - world.sys.clock.unix_ms().get();
        assert!((700..=1_200).contains(&wait), "{wait} ms");
        world.pass(2).await;
        world.pass(3).await;
        let retries = world.calls();
        assert_eq!(retries.len(), 2);
        assert_eq!(retries, [&first[..], &first[..]].concat(), "the same wake each time");
        let view = engine.get(&id("s")).await.unwrap();
        assert!(!view.is_failing);
        assert_eq!(engine.setback(&id("s")).await.unwrap(), None);
        assert_eq!(view.links[0].acked, Some(first[0].streams[0].tail));
    });
}

#[test]
fn everything_goes_on_after_a_restart() {
    simulate(|mut world| async move {
        let engine = world.open().await;
        let patient = Config { lease_ttl_ms: 600_000, ..webhook("**") };
        engine.create(&id("s"), patient, String::new()).await.unwrap();
        world.replies(&[Reply::Failed; 6]);
        world.create("a").await;
        world.append("a").await;
        world.pass(40).await;
        let before = world.calls();
        engine.close().await;
        world.create("b").await;
        world.append("b").await;

        world.replies(&[Reply::Accepted]);
        let engine = world.open().await;
        world.settle().await;
        assert_eq!(world.calls(), [], "the next attempt is not due");
        let setback = engine.setback(&id("s")).await.unwrap().unwrap();
        assert_eq!(setback.last_error, None, "nothing was tried yet");
        assert!(engine.get(&id("s")).await.unwrap().is_failing);
        world.pass(60).await;
        let after = world.calls();
        assert_eq!(after[0], before[0], "the same wake");
        let progress = Progress {
            wake_id: after[0].wake_id.clone(),
            generation: after[0].generation,
            acks: after[0]
                .streams
                .iter()
                .map(|work| Ack { path: work.link.path.clone(), offset: work.tail })
                .collect(),
            done: true,
        };
        let reported = engine.report(&id("s"), &before[0].token, progress).await.unwrap();
        assert!(reported.next_wake, "b moved while nobody watched");
        world.settle().await;
        assert_eq!(world.calls()[0].streams[0].link.path, path("b"));
    });
}

#[test]
fn subscriptions_are_listed_page_by_page() {
    simulate(|world| async move {
        let engine = world.open().await;
        assert_eq!(engine.list(None, 10).await.unwrap(), Page::default());
        for name in ["b", "c", "a"] {
            engine.create(&id(name), pull("**"), String::new()).await.unwrap();
        }
        let first = engine.list(None, 2).await.unwrap();
        assert!(first.subscriptions.iter().map(|one| &one.id).eq([&id("a"), &id("b")]));
        assert_eq!(first.next, Some(id("b")));
        let last = engine.list(first.next, usize::MAX).await.unwrap();
        assert_eq!((last.subscriptions.len(), last.next), (1, None));
        let Listed { id: name, pattern, links_count, .. } = &last.subscriptions[0];
        assert_eq!((name, pattern, *links_count), (&id("c"), &pull("**").pattern, 0));
    });
}

#[test]
fn a_newer_engine_takes_over() {
    simulate(|world| async move {
        let old = world.open().await;
        old.create(&id("s"), pull("**"), String::new()).await.unwrap();
        let new = world.open().await;
        old.delete(&id("s")).await.unwrap_err();
        assert!(new.get(&id("s")).await.is_ok());
    });
}

#[test]
fn many_streams_at_once_are_not_missed() {
    simulate(|world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        engine.create(&id("s"), pull("events/**"), String::new()).await.unwrap();
        // More than a watcher may lag behind, before the engine gets a turn.
        for n in 0..3_000 {
            world.create(&format!("events/{n}")).await;
            world.append(&format!("events/{n}")).await;
        }
        let mut seen = 0;
        for _ in 0..10 {
            world.settle().await;
            let Ok(claim) = engine.claim(&id("s"), "one".to_owned()).await else { break };
            seen += claim.streams.len();
            engine.report(&id("s"), &claim.token, done(&claim)).await.unwrap();
        }
        assert_eq!(seen, 3_000);
    });
}

/// A name of about a thousand bytes.
fn long(n: usize) -> String {
    let segment = "x".repeat(240);
    format!("bulk/{n:05}/{segment}/{segment}/{segment}/{segment}")
}

#[test]
fn a_burst_that_no_append_could_hold_is_followed() {
    const STREAMS: usize = 2_000;
    const SUBSCRIPTIONS: usize = 40;
    simulate(|world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        let ids: Vec<_> = (0..SUBSCRIPTIONS).map(|n| id(&format!("s{n}"))).collect();
        for id in &ids {
            engine.create(id, pull("bulk/**"), String::new()).await.unwrap();
        }
        // All of it is seen in one go, since a watcher cannot lag behind that far.
        for n in 0..STREAMS {
            world.create(&long(n)).await;
            world.append(&long(n)).await;
        }
        world.settle().await;
        for id in &ids {
            assert_eq!(engine.get(id).await.unwrap().links.len(), STREAMS);
        }
        let first = engine.claim(&ids[0], "one".to_owned()).await.unwrap();
        engine.report(&ids[0], &first.token, done(&first)).await.unwrap();
        let claim = engine.claim(&ids[0], "one".to_owned()).await.unwrap();
        assert_eq!(claim.streams.len(), 1_000);
        engine.close().await;

        let engine = world.open().await;
        engine.report(&ids[0], &claim.token, done(&claim)).await.unwrap();
        let rest = engine.claim(&ids[0], "one".to_owned()).await.unwrap();
        assert_eq!(rest.streams.len(), STREAMS - 1_000 - first.streams.len());
        for id in &ids {
            assert_eq!(engine.get(id).await.unwrap().links.len(), STREAMS);
        }
    });
}

#[test]
fn a_subscription_that_no_append_could_hold_is_told_in_parts() {
    const STREAMS: usize = 36_000;
    simulate(|world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        for n in 0..STREAMS {
            world.create(&long(n)).await;
            world.append(&long(n)).await;
        }
        // One knows them all when it is made, the other is the smaller.
        engine.create(&id("large"), pull("bulk/**"), String::new()).await.unwrap();
        engine.create(&id("small"), pull("a"), String::new()).await.unwrap();
        engine.link(&id("large"), vec![path("named")]).await.unwrap();
        world.create("a").await;
        // Told anew, at least once.
        for _ in 0..4_000 {
            world.append("a").await;
            world.settle().await;
            let claim = engine.claim(&id("small"), "one".to_owned()).await.unwrap();
            engine.report(&id("small"), &claim.token, done(&claim)).await.unwrap();
        }
        let before = engine.get(&id("large")).await.unwrap();
        assert_eq!(before.links.len(), STREAMS + 1);
        engine.close().await;

        let engine = world.open().await;
        let after = engine.get(&id("large")).await.unwrap();
        assert!(after == before);
        let nothing = engine.claim(&id("large"), "one".to_owned()).await.unwrap_err();
        assert!(matches!(nothing, ClaimError::NoPendingWork(_)), "nothing moved");
        world.append(&long(7)).await;
        world.settle().await;
        let claim = engine.claim(&id("large"), "one".to_owned()).await.unwrap();
        assert_eq!(claim.streams.len(), 1);
    });
}

#[test]
fn the_diary_is_told_anew_when_it_grows_long() {
    simulate(|world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        engine.create(&id("s"), pull("a"), String::new()).await.unwrap();
        world.create("a").await;
        for _ in 0..4_000 {
            world.append("a").await;
            world.settle().await;
            let claim = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
            engine.report(&id("s"), &claim.token, done(&claim)).await.unwrap();
        }
        engine.close().await;
        let diary: wire::SystemPath = "wake/diary".parse().unwrap();
        let head = world.log.head(&diary.into()).await.unwrap();
        assert!(head.earliest > wire::Offset::START);
        let engine = world.open().await;
        world.append("a").await;
        world.settle().await;
        let claim = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
        assert_eq!((claim.generation, claim.streams.len()), (4_001, 1));
    });
}

/// A diary from before there could be several wakes, with every kind of event that there was; it
/// is read for ever.
const ONE_WAKE: &str = include_str!("diary/one-wake.jsonl");
/// When it was last written.
const ONE_WAKE_ENDS: UnixMs = UnixMs::new(1_000_000_036_000);

#[test]
fn a_diary_of_one_wake_is_still_understood() {
    simulate_at(ONE_WAKE_ENDS, |mut world| async move {
        let diary = Address::from("wake/diary".parse::<wire::SystemPath>().unwrap());
        let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = world.log.create(&diary, create).await.unwrap();
        let messages = Messages::copied(ONE_WAKE.lines().map(str::as_bytes)).unwrap();
        let _ = world.log.append(&diary, Append::messages(messages)).await.unwrap();
        for (stream, messages) in
            [("wake", 0), ("pulled/a", 3), ("held", 1), ("hooked/old", 3), ("events/a", 2)]
        {
            world.create(stream).await;
            for _ in 0..messages {
                world.append(stream).await;
            }
        }
        world.replies(&[Reply::Failed, Reply::Failed]);
        let engine = world.open().await;
        engine.get(&id("gone")).await.unwrap_err();

        let view = engine.get(&id("pulled")).await.unwrap();
        let paths: Vec<_> = view.links.iter().map(|link| link.path.as_str()).collect();
        assert_eq!(paths, ["extra", "pulled/a"]);
        assert_eq!(view.links[1].acked, Some(wire::Offset::new(1, 1)));
        assert!(view.config.concurrency.is_usual());
        let claim = engine.claim(&id("pulled"), "two".to_owned()).await.unwrap();
        assert_eq!((claim.generation, &*claim.wake_id), (2, "w_5e5532fbeea293f80bc942ee"));
        engine.report(&id("pulled"), &claim.token, done(&claim)).await.unwrap();

        let taken = engine.claim(&id("held"), "two".to_owned()).await.unwrap_err();
        assert!(matches!(taken, ClaimError::AlreadyClaimed(fact) if fact.holder == "holder"));
        // Tokens were made otherwise then: the one that was given out is worth nothing now.
        let token = "v2.1.w_b9b501d1d854bb7180021590.ygFNECvSPjs179qTpJUd3mBKkk2LyFTLNinVwpI9_JU";
        let acks = vec![Ack { path: path("held"), offset: wire::Offset::new(1, 1) }];
        let wake_id = "w_b9b501d1d854bb7180021590".to_owned();
        let progress = Progress { wake_id, generation: 1, acks, done: true };
        engine.report(&id("held"), token, progress).await.unwrap();

        // Three failures, and four that were told in one go: both go on counting.
        world.pass(1).await;
        let mut calls = world.calls();
        calls.sort_by_key(|call| call.subscription.clone());
        assert_eq!((&*calls[0].wake_id, calls[0].generation), ("w_614f560177dc7567fe8bcf14", 3));
        assert_eq!((&*calls[1].wake_id, calls[1].generation), ("w_told", 1));
        world.replies(&[Reply::Done, Reply::Done]);
        world.pass(6).await;
        assert_eq!(world.calls(), [], "the next attempts are 8 and 16 seconds later");
        world.pass(4).await;
        assert_eq!(world.calls().len(), 1);
        world.pass(10).await;
        assert_eq!(world.calls().len(), 1);
    });
}

#[test]
fn one_slow_stream_does_not_hold_back_the_others() {
    simulate(|mut world| async move {
        let engine = world.open().await;
        world.create("wake").await;
        let by_stream = |config| Config { concurrency: Concurrency::Stream, ..config };
        engine.create(&id("p"), by_stream(pull("events/*")), String::new()).await.unwrap();
        engine.create(&id("w"), by_stream(webhook("events/*")), String::new()).await.unwrap();
        world.replies(&[Reply::Failed, Reply::Done]);
        for stream in ["events/a", "events/b"] {
            world.create(stream).await;
            world.append(stream).await;
            world.settle().await;
        }
        assert_eq!(world.read("wake").await.unwrap().len(), 2, "a message for each wake");
        let slow = engine.claim(&id("p"), "slow".to_owned()).await.unwrap();
        let quick = engine.claim(&id("p"), "quick".to_owned()).await.unwrap();
        assert_eq!((slow.generation, quick.generation), (1, 2));
        assert_eq!(slow.streams[0].link.path, path("events/a"));
        let reported = engine.report(&id("p"), &quick.token, done(&quick)).await.unwrap();
        assert!(!reported.next_wake);
        world.append("events/b").await;
        world.settle().await;
        let again = engine.claim(&id("p"), "quick".to_owned()).await.unwrap();
        assert_eq!((again.generation, &again.streams[0].link.path), (3, &path("events/b")));

        let calls = world.calls();
        let streams: Vec<_> = calls.iter().map(|call| call.streams[0].link.path.as_str()).collect();
        assert_eq!(streams, ["events/a", "events/b", "events/b"]);
        assert!(engine.get(&id("w")).await.unwrap().is_failing);
        engine.close().await;
        let engine = world.open().await;
        world.settle().await;
        let engine_calls = world.calls();
        assert_eq!(engine_calls, [], "all that is under way is known");
        engine.report(&id("p"), &slow.token, done(&slow)).await.unwrap();
        engine.report(&id("p"), &again.token, done(&again)).await.unwrap();
        world.pass(2).await;
        assert_eq!(world.calls()[0], calls[0], "the call that failed, again");
    });
}

#[test]
fn a_stream_that_is_made_anew_is_another_one() {
    simulate(|mut world| async move {
        let engine = world.open().await;
        engine.create(&id("s"), webhook("events/*"), String::new()).await.unwrap();
        world.create("named").await;
        world.append("named").await;
        engine.link(&id("s"), vec![path("named")]).await.unwrap();
        world.replies(&[Reply::Done; 8]);
        for stream in ["events/a", "named"] {
            world.create(stream).await;
            world.append(stream).await;
            world.settle().await;
        }
        world.calls();
        for stream in ["events/a", "named"] {
            // Longer than it was: by its length nobody would notice.
            world.log.delete(&address(stream), log::Delete::Erase).await.unwrap();
            world.create(stream).await;
            for _ in 0..3 {
                world.append(stream).await;
            }
            world.settle().await;
            let calls = world.calls();
            let first = &calls[0].streams[0];
            assert_eq!((&first.link.path, first.link.acked), (&path(stream), None), "{calls:?}");
            let view = engine.get(&id("s")).await.unwrap();
            let link = view.links.iter().find(|link| link.path == path(stream)).unwrap();
            assert_eq!(link.acked, Some(wire::Offset::new(3, 3)));
        }
    });
}

/// How a stream ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Deleted,
    Erased,
    /// Deleted while a fork needs what it holds.
    Retired,
    Expired,
}

impl World {
    /// A stream that ends by itself where that is asked for.
    async fn create_mortal(&self, stream: &str, end: End) {
        let expiry = match end {
            End::Expired => Expiry::Sliding(Ttl::from_seconds(5)),
            _ => Expiry::Never,
        };
        let content_type = Some(ContentType::json());
        let create = Create { content_type, expiry, ..Create::default() };
        let _ = self.log.create(&address(stream), create).await.unwrap();
    }

    async fn end(&self, stream: &str, end: End) {
        let delete = match end {
            End::Deleted => log::Delete::Stream,
            End::Erased => log::Delete::Erase,
            End::Retired => {
                let fork = log::Fork::of(address(stream));
                let _ = self.log.fork(&address("fork"), fork).await.unwrap();
                log::Delete::Stream
            }
            End::Expired => return self.pass(7).await,
        };
        self.log.delete(&address(stream), delete).await.unwrap();
        self.settle().await;
    }
}

/// Deletes a stream that was worked off, makes it again with a message of the same length, and
/// counts what workers are called to.
async fn a_stream_ends(world: &mut World, end: End, concurrency: Concurrency, is_named: bool) {
    let what = format!("{end:?}, {concurrency:?}, named: {is_named}");
    let by_pattern = Config { concurrency, ..webhook("events/*") };
    let by_name =
        Config { pattern: None, streams: [path("events/a")].into(), ..by_pattern.clone() };
    let config = if is_named { by_name } else { by_pattern };
    let engine = world.open().await;
    engine.create(&id("s"), config, String::new()).await.unwrap();
    world.replies(&[Reply::Done; 2]);
    world.create_mortal("events/a", end).await;
    world.append("events/a").await;
    world.settle().await;
    assert_eq!(world.calls().len(), 1, "{what}");
    world.end("events/a", end).await;
    assert_eq!(world.calls(), [], "{what}: called to a stream that is gone");
    if matches!(end, End::Retired) {
        // The name is free once the fork is gone, too.
        world.log.delete(&address("fork"), log::Delete::Stream).await.unwrap();
        world.settle().await;
        assert_eq!(world.calls(), [], "{what}");
    }
    world.create("events/a").await;
    world.append("events/a").await;
    world.settle().await;
    let calls = world.calls();
    assert_eq!(calls.len(), 1, "{what}: a new stream is work");
    assert_eq!(calls[0].streams[0].link.acked, None, "{what}: from its start");
    let links = engine.get(&id("s")).await.unwrap().links;
    assert_eq!(links.len(), 1, "{what}");
    engine.close().await;
}

#[test]
fn a_stream_that_ends_wakes_no_worker_and_one_made_again_wakes_for_its_first_message() {
    for end in [End::Deleted, End::Erased, End::Retired, End::Expired] {
        for concurrency in [Concurrency::Subscription, Concurrency::Stream] {
            for is_named in [false, true] {
                simulate(|mut world| async move {
                    a_stream_ends(&mut world, end, concurrency, is_named).await;
                });
            }
        }
    }
}

#[test]
fn a_wake_for_a_stream_that_ends_is_over_and_its_worker_may_still_report() {
    for concurrency in [Concurrency::Subscription, Concurrency::Stream] {
        simulate(|world| async move {
            let engine = world.open().await;
            world.create("wake").await;
            let config = Config { concurrency, ..pull("events/*") };
            engine.create(&id("s"), config, String::new()).await.unwrap();
            world.create("events/a").await;
            world.append("events/a").await;
            world.settle().await;
            world.end("events/a", End::Deleted).await;
            let nothing = engine.claim(&id("s"), "one".to_owned()).await.unwrap_err();
            assert!(matches!(nothing, ClaimError::NoPendingWork(_)), "{nothing:?}");
            // Two streams, of which one goes while a worker is at both.
            for stream in ["events/b", "events/c"] {
                world.create(stream).await;
                world.append(stream).await;
            }
            world.settle().await;
            let claim = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
            world.end("events/b", End::Deleted).await;
            let acks = done(&claim).acks;
            let left = acks.into_iter().filter(|ack| ack.path != path("events/b")).collect();
            let progress = Progress { acks: left, ..done(&claim) };
            let reported = engine.report(&id("s"), &claim.token, progress).await;
            match (concurrency, reported) {
                (Concurrency::Subscription, reported) => {
                    assert!(!reported.unwrap().next_wake);
                }
                // It was the only stream of its wake.
                (Concurrency::Stream, refused) => {
                    assert!(matches!(refused, Err(ProgressError::Fenced(_))));
                    let other = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
                    assert_eq!(other.streams[0].link.path, path("events/c"));
                }
            }
        });
    }
}

#[test]
fn after_a_restart_each_of_ten_thousand_subscriptions_is_called_once() {
    const SUBSCRIPTIONS: usize = 10_000;
    simulate(|mut world| async move {
        let engine = world.open().await;
        for n in 0..SUBSCRIPTIONS {
            let config = Config { lease_ttl_ms: 1_000, ..webhook(&format!("events/{n}")) };
            engine.create(&id(&format!("s{n}")), config, String::new()).await.unwrap();
        }
        engine.close().await;
        for n in 0..SUBSCRIPTIONS {
            world.create(&format!("events/{n}")).await;
            world.append(&format!("events/{n}")).await;
        }
        // All of them take four times as long as a lease.
        *world.courier.pause.lock().unwrap() = Duration::from_millis(100);
        world.replies(&vec![Reply::Done; 20 * SUBSCRIPTIONS]);
        let engine = world.open().await;
        world.pass(60).await;
        let calls = world.calls();
        assert_eq!(calls.len(), SUBSCRIPTIONS, "one call for each message");
        for n in [0, SUBSCRIPTIONS - 1] {
            let view = engine.get(&id(&format!("s{n}"))).await.unwrap();
            assert_eq!(view.links[0].acked, Some(wire::Offset::new(1, 1)));
        }
    });
}

/// A log whose own streams cannot be written now and then.
#[derive(Debug)]
struct Busy {
    behind: MemoryLog,
    is_busy: AtomicBool,
}

impl Layer for Busy {
    fn behind(&self) -> &dyn Log {
        &self.behind
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> log::Answer<'a, Result<Appended, AppendError>> {
        match address {
            Address::System(_) if self.is_busy.load(Ordering::Relaxed) => {
                Box::pin(std::future::ready(Err(Unavailable::Overloaded.into())))
            }
            _ => self.behind.append(address, append),
        }
    }
}

#[test]
fn an_answer_that_could_not_be_written_is_no_reason_to_call_again() {
    for reply in [Reply::Done, Reply::Accepted] {
        simulate(|mut world| async move {
            let busy = Arc::new(Busy { behind: MemoryLog::new(&world.sys), is_busy: false.into() });
            world.log = busy.clone();
            let engine = world.open().await;
            engine.create(&id("s"), webhook("**"), String::new()).await.unwrap();
            *world.courier.pause.lock().unwrap() = Duration::from_secs(1);
            world.replies(&[reply]);
            world.create("a").await;
            world.append("a").await;
            world.settle().await;
            busy.is_busy.store(true, Ordering::Relaxed);
            world.pass(5).await;
            busy.is_busy.store(false, Ordering::Relaxed);
            world.pass(5).await;
            assert_eq!(world.calls().len(), 1, "{reply:?}");
            let link = &engine.get(&id("s")).await.unwrap().links[0];
            assert_eq!(link.acked.is_some(), reply == Reply::Done);
        });
    }
}
