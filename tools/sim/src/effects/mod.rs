//! The simulation of durable effects: rows enter, change in and leave a query of a stream whose
//! disk fails and whose power goes, with handlers that are slow and fail, before and after their
//! commit, in processes that run the same effect at a time: they take over from each other, die, or
//! are cut off and come back as if nothing had been. However it ends, every transition that the
//! stream tells of has been answered, and what answers it was written once; once faults stop, with
//! or without a restart, within [`life::BOUND`], also when one of two processes dies just then.

mod ledger;
mod life;
mod process;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};

use crate::{
    Coverage, Detail, Outcome,
    dice::Dice,
    history::History,
    line::Tally,
    oracle::{Verdict, Violation},
    seed::words_of,
};

const DISK_SALT: u64 = 0x6566_6665;
const SYS_SALT: u64 = 0x6374_7379;
const BEGINNING: UnixMs = UnixMs::new(1_900_000_000_000);

/// What a run of effects came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectsOutcome {
    /// How it went.
    pub outcome: Outcome,
    /// What it met.
    pub met: EffectsMet,
}

/// How often something was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EffectsMet {
    /// Events that were delivered.
    pub delivered: u64,
    /// Events that were delivered again, in a later life.
    pub redelivered: u64,
    /// Handlers that failed and were tried again.
    pub failed: u64,
    /// Handlers that failed after their commit.
    pub failed_late: u64,
    /// Runners that took over from one that was at work.
    pub takeovers: u64,
    /// Processes that died while another one ran the same effect.
    pub deaths: u64,
    /// Processes that were cut off, and came back.
    pub outages: u64,
    /// Commits that were not answered with success.
    pub unanswered: u64,
    /// Lives that ended with a power cut.
    pub cuts: u64,
    /// Lives in which faults stopped and all was answered without a restart.
    pub calmed: u64,
}

impl EffectsMet {
    /// Adds what another run met.
    pub fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.redelivered += other.redelivered;
        self.failed += other.failed;
        self.failed_late += other.failed_late;
        self.takeovers += other.takeovers;
        self.deaths += other.deaths;
        self.outages += other.outages;
        self.unanswered += other.unanswered;
        self.cuts += other.cuts;
        self.calmed += other.calmed;
    }

    /// True if everything was met at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let Self { delivered, redelivered, failed, failed_late, .. } = *self;
        let Self { takeovers, deaths, outages, unanswered, cuts, calmed, .. } = *self;
        let handled = [delivered, redelivered, failed, failed_late];
        let lived = [takeovers, deaths, outages, unanswered, cuts, calmed];
        handled.iter().chain(&lived).all(|count| *count > 0)
    }
}

/// What all lives share.
#[derive(Debug)]
struct Scene {
    sys: Sys,
    history: History,
    // Each is held for one step, never across an await.
    met: Mutex<EffectsMet>,
    seen: Mutex<std::collections::BTreeSet<String>>,
    tally: Arc<Tally>,
    /// Whether faults have stopped, those of handlers, too.
    is_calm: AtomicBool,
}

/// Runs one seed of effects.
#[must_use]
pub fn run_effects(seed: u64) -> EffectsOutcome {
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
    EffectsOutcome { outcome, met: *scene.met.lock() }
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
        let (met, seen, is_calm) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Self { sys, history, met, seen, tally: Arc::default(), is_calm }
    }

    fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    /// Has faults of handlers stop, or begin again.
    fn calm(&self, is_calm: bool) {
        self.is_calm.store(is_calm, Ordering::Relaxed);
    }

    fn note(&self, line: &str) {
        self.history.note(line);
    }

    /// An event reached its handler.
    fn delivered(&self, event: &str, attempt: u32) {
        self.note(&format!("delivered {event}, attempt {attempt}"));
        let mut met = self.met.lock();
        met.delivered += 1;
        let is_new = self.seen.lock().insert(event.to_owned());
        met.redelivered += u64::from(!is_new && attempt == 1);
    }
}
