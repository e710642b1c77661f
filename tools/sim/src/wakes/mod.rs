//! The simulation of wakes: subscriptions in a log whose disk fails and whose power goes, whose
//! hints get lost and whose streams are deleted or expire, with workers who are slow, forgetful or
//! gone, and engines that take over from each other. However it ends, all work is done, and what
//! was acknowledged is not asked for again.
//!
//! That is a promise with a time: once faults stop, with or without a restart, everything that is
//! owed is done within [`life::BOUND`].

mod ledger;
mod life;
mod worker;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use sys::{
    Chance, Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wake::{Concurrency, Config, Delivery, Keys, SubscriptionId};

use self::ledger::Ledger;
use crate::{
    Coverage, Detail, Outcome,
    dice::Dice,
    history::History,
    line::Tally,
    oracle::{Verdict, Violation},
    seed::words_of,
};

const DISK_SALT: u64 = 0x7761_6b65;
const SYS_SALT: u64 = 0x7379_7374;
const BEGINNING: UnixMs = UnixMs::new(1_900_000_000_000);

/// What a run of wakes came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakesOutcome {
    /// How it went.
    pub outcome: Outcome,
    /// What it met.
    pub met: Met,
}

/// How often something was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Wakes that somebody was called to.
    pub wakes: u64,
    /// Wakes that somebody was called to again.
    pub repeated: u64,
    /// Reports that came too late.
    pub fenced: u64,
    /// Requests that were answered with no answer.
    pub unavailable: u64,
    /// Lives that ended with a power cut.
    pub cuts: u64,
    /// Engines that took over from one that was at work.
    pub takeovers: u64,
    /// Streams that were deleted.
    pub deleted: u64,
    /// Streams that expired while a subscription had a link to them.
    pub expired: u64,
    /// Hints that did not arrive.
    pub hints_lost: u64,
    /// Watches that had lost hints when faults stopped, and were told only then.
    pub resyncs_owed: u64,
    /// Lives in which faults stopped and all was done without a restart.
    pub calmed: u64,
}

impl Met {
    /// Adds what another run met.
    pub fn add(&mut self, other: &Self) {
        self.wakes += other.wakes;
        self.repeated += other.repeated;
        self.fenced += other.fenced;
        self.unavailable += other.unavailable;
        self.cuts += other.cuts;
        self.takeovers += other.takeovers;
        self.deleted += other.deleted;
        self.expired += other.expired;
        self.hints_lost += other.hints_lost;
        self.resyncs_owed += other.resyncs_owed;
        self.calmed += other.calmed;
    }

    /// True if everything was met at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let Self { wakes, repeated, fenced, unavailable, cuts, takeovers, .. } = *self;
        let Self { deleted, calmed, expired, hints_lost, resyncs_owed, .. } = *self;
        let work = [wakes, repeated, fenced, unavailable, cuts, takeovers];
        let streams = [deleted, calmed, expired, hints_lost, resyncs_owed];
        work.iter().chain(&streams).all(|count| *count > 0)
    }
}

/// What all who take part share.
#[derive(Debug)]
struct Scene {
    sys: Sys,
    keys: Arc<Keys>,
    history: History,
    subscriptions: BTreeMap<&'static str, Config>,
    // Each is held for one step, never across an await.
    ledgers: Mutex<BTreeMap<SubscriptionId, Ledger>>,
    met: Mutex<Met>,
    failure: Mutex<Option<Violation>>,
    tally: Arc<Tally>,
    /// Whether faults have stopped, those of workers, too.
    is_calm: AtomicBool,
}

/// Runs one seed of wakes.
#[must_use]
pub fn run_wakes(seed: u64) -> WakesOutcome {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let first = SimDisk::new(seed ^ DISK_SALT, SimFaults::default());
    let scene = runtime.block_on(async { Arc::new(Scene::new(seed, first.clone())) });
    let disk = Mutex::new(first);
    let playing = AssertUnwindSafe(|| runtime.block_on(play(seed, &scene, &disk)));
    let violation = match catch_unwind(playing) {
        Ok(Ok(())) => None,
        Ok(Err(Violation(what))) => Some(what),
        Err(panic) => Some(format!("panic: {}", words_of(panic.as_ref()))),
    };
    let trace_hash = disk.lock().trace_hash();
    let (history, coverage) = (scene.history.lines(), Coverage::default());
    let outcome = Outcome { seed, trace_hash, history, coverage, violation };
    let (hints_lost, resyncs_owed) = (scene.tally.hints_lost(), scene.tally.resyncs_owed());
    WakesOutcome { outcome, met: Met { hints_lost, resyncs_owed, ..*scene.met.lock() } }
}

async fn play(seed: u64, scene: &Arc<Scene>, disk: &Mutex<SimDisk>) -> Verdict {
    let dice = Dice::new(seed);
    for _ in 0..dice.between(1..=4) {
        let last = disk.lock().clone();
        let next = life::live(scene, last, &dice).await?;
        *disk.lock() = next;
    }
    if dice.percent(50) {
        let last = disk.lock().clone();
        let next = life::calm_down(scene, last, &dice).await?;
        *disk.lock() = next;
    }
    let last = disk.lock().clone();
    life::finish(scene, last, &dice).await
}

impl Scene {
    fn new(seed: u64, disk: SimDisk) -> Self {
        let sys = Sys::simulated(seed ^ SYS_SALT, disk, BEGINNING);
        let history = History::new(sys.clock.clone(), Detail::Requests);
        let hook = Delivery::Webhook("https://worker.example/".to_owned());
        let pull = Delivery::PullWake("wakes".parse().expect("a path"));
        let config = |delivery, concurrency| Config {
            pattern: Some("s/**".parse().expect("a glob")),
            lease_ttl_ms: 5_000,
            concurrency,
            ..Config::new(delivery)
        };
        let subscriptions = [
            ("hooked", config(hook.clone(), Concurrency::Subscription)),
            ("hooked-each", config(hook, Concurrency::Stream)),
            ("pulled", config(pull.clone(), Concurrency::Subscription)),
            ("pulled-each", config(pull, Concurrency::Stream)),
        ];
        Self {
            sys,
            keys: Arc::new(Keys::generate(&Chance::seeded(seed))),
            history,
            subscriptions: subscriptions.into(),
            ledgers: Mutex::default(),
            met: Mutex::default(),
            failure: Mutex::default(),
            tally: Arc::default(),
            is_calm: AtomicBool::new(false),
        }
    }

    fn now(&self) -> UnixMs {
        self.sys.clock.unix_ms()
    }

    fn note(&self, line: &str) {
        self.history.note(line);
    }

    fn met(&self) -> MutexGuard<'_, Met> {
        self.met.lock()
    }

    /// Looks at what is known of a subscription, or adds to it.
    fn ledger<T>(&self, id: &SubscriptionId, look: impl FnOnce(&mut Ledger) -> T) -> T {
        look(self.ledgers.lock().entry(id.clone()).or_default())
    }

    fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    /// Has faults of workers stop, or begin again.
    fn calm(&self, is_calm: bool) {
        self.is_calm.store(is_calm, Ordering::Relaxed);
    }

    /// Keeps the first violation; the others follow from it.
    fn judge(&self, verdict: Verdict) {
        if let Err(violation) = verdict {
            self.note(&format!("VIOLATION {violation}"));
            self.failure.lock().get_or_insert(violation);
        }
    }

    fn check(&self) -> Verdict {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }
}
