//! A world of its own for each test; time passes only when everybody waits.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use agent::lifecycle::{KeyRing, PullWakeLifecycle, RunnerLifecycle, WakeAnswer, WebhookDesk};
use log::{Append, Create, Log, MemoryLog, Unavailable};
use parking_lot::Mutex;
use sys::{
    Chance, Clock, Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wake::{
    Answer, ChangeError, Claim, ClaimError, Concurrency, Config, Courier, CreateError, Created,
    Delivery, Engine, Keys, Letter, Progress, ProgressError, PublicKey, Received, Reported,
    SubscriptionId, Subscriptions, View, WebhookUrlRejected,
};
use wire::{Address, ContentType, Messages, Offset, StreamPath};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Runs a test in simulated time.
pub(crate) fn simulate<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    simulate_boxed(Box::pin(async { test(World::new().await).await }));
}

/// Boxed, so that a runtime is compiled once, and not for every test.
fn simulate_boxed(test: Pin<Box<dyn Future<Output = ()> + '_>>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(test);
}

pub(crate) struct World {
    pub(crate) sys: Sys,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) link: Arc<Link>,
    pub(crate) courier: Arc<Hands>,
}

/// The way to the engine. It can be cut, and counts the reports that pass.
#[derive(Debug)]
pub(crate) struct Link {
    engine: Engine,
    pub(crate) is_cut: AtomicBool,
    pub(crate) is_denied: AtomicBool,
    /// How long answers to claims and reports are on their way, in milliseconds.
    pub(crate) delay_ms: AtomicU64,
    clock: Clock,
    pub(crate) reports: AtomicU32,
    pub(crate) claims: AtomicU32,
}

/// Carries letters to a desk in this process, and keeps them.
#[derive(Debug)]
pub(crate) struct Hands {
    door: Mutex<Option<(Arc<KeyRing>, Arc<WebhookDesk>)>>,
    pub(crate) letters: Mutex<Vec<Letter>>,
    pub(crate) answers: Mutex<Vec<WakeAnswer>>,
}

pub(crate) fn path(text: &str) -> StreamPath {
    text.parse().unwrap()
}

pub(crate) fn id(text: &str) -> SubscriptionId {
    text.parse().unwrap()
}

impl World {
    async fn new() -> Self {
        let disk = SimDisk::new(1, SimFaults::default());
        let sys = Sys::simulated(1, disk, UnixMs::new(1_000_000_000_000));
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let courier = Arc::new(Hands {
            door: Mutex::default(),
            letters: Mutex::default(),
            answers: Mutex::default(),
        });
        let keys = Arc::new(Keys::generate(&Chance::seeded(7)));
        let engine = Engine::open(log.clone(), &sys, courier.clone(), keys).await.unwrap();
        let link = Link {
            engine,
            is_cut: AtomicBool::new(false),
            is_denied: AtomicBool::new(false),
            delay_ms: AtomicU64::new(0),
            clock: sys.clock.clone(),
            reports: AtomicU32::new(0),
            claims: AtomicU32::new(0),
        };
        Self { sys, log, link: Arc::new(link), courier }
    }

    /// A pulled subscription `s` of everything below `events`.
    pub(crate) async fn subscribe(&self) {
        self.create("wake").await;
        let delivery = Delivery::PullWake(path("wake"));
        self.subscribe_with(Config::new(delivery)).await;
    }

    /// The same by a webhook, which leads to this desk.
    pub(crate) async fn subscribe_desk(&self, desk: &Arc<WebhookDesk>) {
        self.subscribe_with(self.webhook(desk)).await;
    }

    /// The same with another lease.
    pub(crate) async fn subscribe_desk_leased(&self, desk: &Arc<WebhookDesk>, lease: Duration) {
        self.subscribe_leased(self.webhook(desk), lease).await;
    }

    /// The same with a wake for each stream.
    pub(crate) async fn subscribe_desk_one_by_one(&self, desk: &Arc<WebhookDesk>) {
        let config = Config { concurrency: Concurrency::Stream, ..self.webhook(desk) };
        self.subscribe_with(config).await;
    }

    fn webhook(&self, desk: &Arc<WebhookDesk>) -> Config {
        let ring = Arc::new(KeyRing::new(&self.sys, self.subscriptions()));
        *self.courier.door.lock() = Some((ring, desk.clone()));
        Config::new(Delivery::Webhook("https://a.example/".into()))
    }

    async fn subscribe_with(&self, config: Config) {
        self.subscribe_leased(config, LEASE).await;
    }

    async fn subscribe_leased(&self, config: Config, lease: Duration) {
        let pattern = Some("events/**".parse().unwrap());
        let lease_ttl_ms = lease.as_millis() as u64;
        let config = Config { pattern, lease_ttl_ms, ..config };
        self.link.engine.create(&id("s"), config, String::new()).await.unwrap();
    }

    pub(crate) fn subscriptions(&self) -> Arc<dyn Subscriptions> {
        self.link.clone()
    }

    pub(crate) fn worker(&self) -> Arc<dyn RunnerLifecycle> {
        let subscriptions = self.subscriptions();
        Arc::new(PullWakeLifecycle::new(subscriptions, id("s"), "me").unwrap())
    }

    pub(crate) async fn create(&self, stream: &str) {
        let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = self.log.create(&Address::from(path(stream)), create).await.unwrap();
    }

    /// Appends one message, and lets everybody hear of it; the new tail.
    pub(crate) async fn append(&self, stream: &str) -> Offset {
        self.create(stream).await;
        let append = Append::messages(Messages::one("1").unwrap());
        let tail = self.log.append(&Address::from(path(stream)), append).await.unwrap().tail;
        self.settle().await;
        tail
    }

    /// Up to where the subscription has a stream acknowledged.
    pub(crate) async fn acked(&self, stream: &str) -> Option<Offset> {
        let view = self.link.engine.get(&id("s")).await.unwrap();
        view.links.iter().find(|link| link.path == path(stream)).unwrap().acked
    }

    /// Lets everybody come to rest.
    pub(crate) async fn settle(&self) {
        self.sys.clock.sleep(Duration::from_millis(1)).await;
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.sys.clock.sleep(time).await;
    }

    pub(crate) fn cut(&self, is_cut: bool) {
        self.link.is_cut.store(is_cut, Ordering::Relaxed);
    }

    pub(crate) fn delay(&self, time: Duration) {
        self.link.delay_ms.store(time.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn reports(&self) -> u32 {
        self.link.reports.load(Ordering::Relaxed)
    }
}

impl Courier for Hands {
    fn check(&self, _: &str) -> Result<(), WebhookUrlRejected> {
        Ok(())
    }

    fn carry(&self, letter: Letter) -> Answer<'_, Option<Received>> {
        Box::pin(async move {
            let (ring, desk) = self.door.lock().clone()?;
            let notice = ring.open(&letter.signature, letter.body.as_bytes()).await.unwrap();
            self.letters.lock().push(letter);
            let answer = desk.receive(notice).await;
            self.answers.lock().push(answer.clone());
            let (status, body) = match answer {
                WakeAnswer::Done => (200, r#"{"done":true}"#),
                WakeAnswer::Accepted => (202, "{}"),
                WakeAnswer::Stale(_) => (409, ""),
                WakeAnswer::Failed(_) => (500, ""),
                WakeAnswer::Busy => (503, ""),
            };
            Some(Received { status, body: body.into() })
        })
    }
}

impl Link {
    fn pass(&self) -> Result<&Engine, Unavailable> {
        if self.is_denied.load(Ordering::Relaxed) {
            return Err(Unavailable::Denied("the key".to_owned()));
        }
        match self.is_cut.load(Ordering::Relaxed) {
            true => Err(Unavailable::Overloaded),
            false => Ok(&self.engine),
        }
    }

    async fn late<T>(&self, answer: T) -> T {
        let delay = self.delay_ms.load(Ordering::Relaxed);
        if delay > 0 {
            self.clock.sleep(Duration::from_millis(delay)).await;
        }
        answer
    }
}

impl Subscriptions for Link {
    fn keys(&self) -> Answer<'_, Result<Vec<PublicKey>, Unavailable>> {
        Box::pin(async { self.pass()?.keys().await })
    }

    fn create<'a>(
        &'a self,
        id: &'a SubscriptionId,
        config: Config,
        base: String,
    ) -> Answer<'a, Result<Created, CreateError>> {
        Box::pin(async move { self.pass()?.create(id, config, base).await })
    }

    fn get<'a>(&'a self, id: &'a SubscriptionId) -> Answer<'a, Result<View, ChangeError>> {
        Box::pin(async move { self.pass()?.get(id).await })
    }

    fn delete<'a>(&'a self, id: &'a SubscriptionId) -> Answer<'a, Result<(), ChangeError>> {
        Box::pin(async move { self.pass()?.delete(id).await })
    }

    fn link<'a>(
        &'a self,
        id: &'a SubscriptionId,
        streams: Vec<StreamPath>,
    ) -> Answer<'a, Result<(), ChangeError>> {
        Box::pin(async move { self.pass()?.link(id, streams).await })
    }

    fn unlink<'a>(
        &'a self,
        id: &'a SubscriptionId,
        stream: StreamPath,
    ) -> Answer<'a, Result<(), ChangeError>> {
        Box::pin(async move { self.pass()?.unlink(id, stream).await })
    }

    fn claim<'a>(
        &'a self,
        id: &'a SubscriptionId,
        worker: String,
    ) -> Answer<'a, Result<Claim, ClaimError>> {
        self.claims.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { self.late(self.pass()?.claim(id, worker).await).await })
    }

    fn report<'a>(
        &'a self,
        id: &'a SubscriptionId,
        token: &'a str,
        progress: Progress,
    ) -> Answer<'a, Result<Reported, ProgressError>> {
        self.reports.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { self.late(self.pass()?.report(id, token, progress).await).await })
    }

    fn release<'a>(
        &'a self,
        id: &'a SubscriptionId,
        token: &'a str,
        wake_id: String,
        generation: u64,
    ) -> Answer<'a, Result<(), ProgressError>> {
        Box::pin(async move { self.pass()?.release(id, token, wake_id, generation).await })
    }
}
