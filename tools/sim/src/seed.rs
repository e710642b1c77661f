//! Running one seed, and many.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use parking_lot::Mutex;
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};

use crate::{
    actors::{PRODUCERS, Producer},
    coverage::Coverage,
    dice::Dice,
    history::{Detail, History},
    life,
    oracle::{Verdict, Violation},
    plan::Plan,
    retirement,
    witness::Witness,
    world::World,
};

/// Lines of the history that a failure shows.
const HISTORY_SHOWN: usize = 60;
/// The disk and the log draw from sequences of their own.
const DISK_SALT: u64 = 0x6469_736b;
const LOG_SALT: u64 = 0x006c_6f67;
/// When simulated time begins.
const BEGINNING: UnixMs = UnixMs::new(1_900_000_000_000);

/// What one seed led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// A hash of every call the disk got.
    pub trace_hash: u64,
    /// Every request and its answer.
    pub history: Vec<String>,
    /// What was met on the way.
    pub coverage: Coverage,
    /// What the oracle saw, if it was not satisfied.
    pub violation: Option<String>,
}

impl Outcome {
    /// What failed, how it came to that, and how to see it again; none if all is well.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let violation = self.violation.as_ref()?;
        let skipped = self.history.len().saturating_sub(HISTORY_SHOWN);
        let history = self.history[skipped..].join("\n");
        Some(format!(
            "seed {seed}: {violation}\n\nthe last requests:\n{history}\n\n\
             seed {seed}: {violation}\n\
             replay: HEADWATER_SIM_SEED={seed} cargo test -p sim --test simulation\n\
             trace:  cargo run -p sim -- --seed {seed}",
            seed = self.seed
        ))
    }
}

/// Runs one seed from an empty disk to the end of its last life.
#[must_use]
pub fn run(seed: u64) -> Outcome {
    run_in_detail(seed, Detail::Requests)
}

/// The same, with a history of this detail.
#[must_use]
pub fn run_in_detail(seed: u64, detail: Detail) -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let (world, first) = runtime.block_on(async { prepare(seed, detail) });
    let disk = Mutex::new(first);
    let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(play(seed, &world, &disk))));
    let violation = match ran {
        Ok(Ok(())) => None,
        Ok(Err(Violation(what))) => Some(what),
        Err(panic) => Some(format!("panic: {}", words_of(panic.as_ref()))),
    };
    let trace_hash = disk.lock().sim().trace_hash();
    let (history, coverage) = (world.history.lines(), world.coverage());
    Outcome { seed, trace_hash, history, coverage, violation }
}

fn prepare(seed: u64, detail: Detail) -> (Arc<World>, Witness) {
    let plan = Plan::draw(&Dice::new(seed));
    let disk = SimDisk::new(seed ^ DISK_SALT, SimFaults::default());
    let sys = Sys::simulated(seed ^ LOG_SALT, disk.clone(), BEGINNING);
    let history = History::new(sys.clock.clone(), detail);
    let witness = Witness::new(disk, history.clone());
    (World::new(sys, plan.dir, plan.sizes, history), witness)
}

async fn play(seed: u64, world: &Arc<World>, disk: &Mutex<Witness>) -> Verdict {
    let dice = Dice::new(seed);
    let plan = Plan::draw(&dice);
    world.note(&format!("{:?} {:?}", plan.dir, plan.sizes));
    if plan.crowd > 0 {
        let witness = disk.lock().clone();
        *disk.lock() = life::gather(world, witness, &plan, &dice).await?;
    }
    let producers: Vec<Arc<Mutex<Producer>>> = (0..PRODUCERS).map(|_| Arc::default()).collect();
    for life in &plan.lives {
        let witness = disk.lock().clone();
        let next = life::live(world, witness, life, &producers, &dice).await?;
        *disk.lock() = next;
    }
    let witness = disk.lock().clone();
    *disk.lock() = retirement::retire(world, witness, &plan, &dice).await?;
    Ok(())
}

pub(crate) fn words_of(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(words), _) => words.clone(),
        (_, Some(words)) => (*words).to_owned(),
        _ => "without words".to_owned(),
    }
}

/// Runs `count` seeds from `first` on all cores; hands each outcome to `judge` as it comes.
pub fn run_many(first: u64, count: u64, judge: impl Fn(Outcome) + Sync) {
    each_seed(first, count, |seed| judge(run(seed)));
}

/// Does something for `count` seeds from `first`, on all cores.
pub fn each_seed(first: u64, count: u64, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(first);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    work(seed);
                }
            });
        }
    });
}
