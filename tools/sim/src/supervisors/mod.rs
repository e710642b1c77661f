//! The simulation of supervisors: two of them on one log, two executors that run what agents call,
//! people who write, say stop and decide. Supervisors die and are deployed anew, are cut off from
//! the log, lose hints, have wall clocks that differ by days; executors die, are cut off and come
//! back, and their wall clocks differ by what claims allow for; the power goes. Then faults stop,
//! and everything that is owed must be done within a bound: each message is answered by exactly one
//! generation, none has failed, and no runner was taken over that lived. Each call has its end
//! under one claim; what must not run twice did not, and no other ran again while a claim held.

mod calls;
mod executor;
mod judge;
mod life;
mod process;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::Mutex;
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};

use self::calls::Calls;
use crate::{
    Coverage, Detail, Outcome,
    dice::Dice,
    history::History,
    line::Tally,
    oracle::{Verdict, Violation},
    seed::words_of,
};

const DISK_SALT: u64 = 0x7375_7065;
const SYS_SALT: u64 = 0x7276_6973;
/// Of so many requests of a process in a hundred the answer takes its time.
const SLOW_PERCENT: u64 = 10;
const BEGINNING: UnixMs = UnixMs::new(1_900_000_000_000);

/// What a run of supervisors came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupervisorsOutcome {
    /// How it went.
    pub outcome: Outcome,
    /// What it met.
    pub met: SupervisorsMet,
}

/// How often something was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SupervisorsMet {
    /// Messages that were answered.
    pub answered: u64,
    /// Generations that a person has stopped.
    pub stopped: u64,
    /// Calls that executors have answered.
    pub measured: u64,
    /// Runners that were taken over.
    pub takeovers: u64,
    /// Supervisors that died.
    pub deaths: u64,
    /// Supervisors that were ended in peace.
    pub deploys: u64,
    /// Times that one was cut off from the log.
    pub outages: u64,
    /// Hints that did not arrive.
    pub hints_lost: u64,
    /// Watches that had lost hints when faults stopped, and were told only then.
    pub resyncs_owed: u64,
    /// Executors that died.
    pub executors_killed: u64,
    /// Times that one was cut off from the log.
    pub executors_cut_off: u64,
    /// Claims that were taken over by another executor.
    pub claims_taken_over: u64,
    /// Runs of a tool after its first one.
    pub run_again: u64,
    /// Decisions of people on parked calls.
    pub decided: u64,
    /// Lives of the log that ended with a power cut.
    pub cuts: u64,
    /// Seconds from when faults stopped until all was answered, at most.
    pub seconds_max: u64,
}

impl SupervisorsMet {
    fn counts(&self) -> [u64; 15] {
        let Self { answered, stopped, measured, takeovers, deaths, deploys, .. } = *self;
        let Self { outages, hints_lost, resyncs_owed, cuts, executors_killed, .. } = *self;
        let Self { executors_cut_off, claims_taken_over, run_again, decided, .. } = *self;
        [
            answered,
            stopped,
            measured,
            takeovers,
            deaths,
            deploys,
            outages,
            hints_lost,
            resyncs_owed,
            executors_killed,
            executors_cut_off,
            claims_taken_over,
            run_again,
            decided,
            cuts,
        ]
    }

    /// Adds what another run met.
    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.stopped += other.stopped;
        self.measured += other.measured;
        self.takeovers += other.takeovers;
        self.deaths += other.deaths;
        self.deploys += other.deploys;
        self.outages += other.outages;
        self.hints_lost += other.hints_lost;
        self.resyncs_owed += other.resyncs_owed;
        self.executors_killed += other.executors_killed;
        self.executors_cut_off += other.executors_cut_off;
        self.claims_taken_over += other.claims_taken_over;
        self.run_again += other.run_again;
        self.decided += other.decided;
        self.cuts += other.cuts;
        self.seconds_max = self.seconds_max.max(other.seconds_max);
    }

    /// True if everything was met at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.counts().iter().all(|count| *count > 0)
    }
}

/// What all lives share.
#[derive(Debug)]
struct Scene {
    sys: Sys,
    seed: u64,
    history: History,
    // Each is held for one step, never across an await.
    met: Mutex<SupervisorsMet>,
    /// Supervisors whose process is gone.
    dead: Mutex<BTreeSet<String>>,
    calls: Mutex<Calls>,
    tally: Arc<Tally>,
}

/// Runs one seed of supervisors.
#[must_use]
pub fn run_supervisors(seed: u64) -> SupervisorsOutcome {
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
    SupervisorsOutcome { outcome, met: scene.met() }
}

async fn play(seed: u64, scene: &Arc<Scene>, disk: &Mutex<SimDisk>) -> Verdict {
    let dice = Dice::new(seed);
    for _ in 0..dice.between(0..=2) {
        let last = disk.lock().clone();
        let next = life::live(scene, last, &dice).await?;
        *disk.lock() = next;
    }
    let last = disk.lock().clone();
    life::finish(scene, last, &dice).await
}

impl Scene {
    fn new(seed: u64, disk: SimDisk) -> Self {
        let sys = Sys::simulated(seed ^ SYS_SALT, disk, BEGINNING);
        let history = History::new(sys.clock.clone(), Detail::Requests);
        let (met, dead, calls) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { sys, seed, history, met, dead, calls, tally: Arc::default() }
    }

    /// What was met, with what lines and calls know of it.
    fn met(&self) -> SupervisorsMet {
        SupervisorsMet {
            hints_lost: self.tally.hints_lost(),
            resyncs_owed: self.tally.resyncs_owed(),
            decided: self.calls.lock().decided(),
            ..*self.met.lock()
        }
    }

    fn note(&self, line: &str) {
        self.history.note(line);
    }
}
