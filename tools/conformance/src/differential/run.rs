//! Many traces against two sides, and a report that can be read.

use std::{
    fmt,
    ops::Range,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use anyhow::{Result, anyhow};

use super::{
    compare::{Difference, first_difference},
    expression::Taste,
    liar::Liar,
    shrink::{Failing, shrink},
    side::{Process, Program, Side},
    trace::Trace,
};
use crate::suite::Suite;

/// Which traces to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// One trace each.
    pub seeds: Range<u64>,
    /// How many commands a trace has once its collections and queries are there.
    pub commands: usize,
    /// Whether expressions may mix types.
    pub taste: Taste,
}

/// What both sides answered differently.
#[derive(Debug)]
pub struct Mismatch {
    /// The seed of the trace.
    pub seed: u64,
    /// Which command of the whole trace it was.
    pub step: usize,
    /// The difference, as the shortest trace shows it.
    pub what: String,
    /// The shortest trace found that still fails, as lines of the protocol.
    pub lines: Vec<String>,
}

/// Two programs that should answer alike.
#[derive(Debug)]
pub struct Differential {
    left: Program,
    right: Program,
}

/// Both cores; each worker has a process on either side.
const WORKERS: usize = 2;

/// After so many mismatches, one more teaches nothing.
const MISMATCHES_MAX: usize = 3;

impl Differential {
    /// The npm package against `right`; installs the package if need be.
    ///
    /// # Errors
    ///
    /// When the package cannot be installed.
    pub fn new(node_dir: &Path, right: Program) -> Result<Self> {
        Ok(Self { left: oracle(node_dir)?, right })
    }

    /// The npm package against itself.
    ///
    /// # Errors
    ///
    /// When the package cannot be installed.
    pub fn oracle_only(node_dir: &Path) -> Result<Self> {
        let left = oracle(node_dir)?;
        Ok(Self { right: left.clone(), left })
    }

    /// Runs all traces of `plan` and returns the mismatches, each shrunk.
    ///
    /// # Errors
    ///
    /// When a side cannot be started.
    pub fn run(&self, plan: &Plan) -> Result<Vec<Mismatch>> {
        let sides = || -> [Box<dyn Side>; 2] {
            [Box::new(Process::new(&self.left)), Box::new(Process::new(&self.right))]
        };
        run(plan, &sides)
    }

    /// Whether a right side that loses rows is found out, and the trace that shows it is short.
    ///
    /// # Errors
    ///
    /// When a side cannot be started.
    pub fn catches_a_liar(&self, plan: &Plan) -> Result<Vec<Mismatch>> {
        let sides = || -> [Box<dyn Side>; 2] {
            [Box::new(Process::new(&self.left)), Box::new(Liar(Process::new(&self.left)))]
        };
        run(plan, &sides)
    }
}

fn oracle(node_dir: &Path) -> Result<Program> {
    Suite::install(node_dir)?;
    let args = vec!["oracle.mjs".into()];
    Ok(Program { program: "node".into(), args, dir: node_dir.to_owned() })
}

fn run(plan: &Plan, sides: &(dyn Fn() -> [Box<dyn Side>; 2] + Sync)) -> Result<Vec<Mismatch>> {
    let next = AtomicU64::new(plan.seeds.start);
    let mismatches = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        let mut sides = sides();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let found = mismatches.lock().map_err(|_| anyhow!("another worker panicked"))?.len();
            if seed >= plan.seeds.end || found >= MISMATCHES_MAX {
                return Ok(());
            }
            if let Some(mismatch) = run_seed(seed, plan, &mut sides)? {
                let mut all = mismatches.lock().map_err(|_| anyhow!("another worker panicked"))?;
                all.push(mismatch);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow!("a worker panicked")))
        })
    })?;
    let mut mismatches = mismatches.into_inner().map_err(|_| anyhow!("a worker panicked"))?;
    mismatches.sort_by_key(|mismatch: &Mismatch| mismatch.seed);
    Ok(mismatches)
}

fn run_seed(seed: u64, plan: &Plan, sides: &mut [Box<dyn Side>; 2]) -> Result<Option<Mismatch>> {
    let trace = Trace::generate(seed, plan.commands, plan.taste);
    let Some(difference) = run_trace(&trace, sides)? else { return Ok(None) };
    let step = difference.step;
    let failing = Failing { trace, difference };
    let shrunk = shrink(failing, &mut |trace| run_trace(trace, sides))?;
    let commands = shrunk.trace.steps.iter().map(|step| step.command.to_string());
    Ok(Some(Mismatch { seed, step, what: shrunk.difference.what, lines: commands.collect() }))
}

/// Both sides hear the trace at the same time.
fn run_trace(trace: &Trace, sides: &mut [Box<dyn Side>; 2]) -> Result<Option<Difference>> {
    let lines = trace.lines();
    let [left, right] = sides;
    let (left, right) = thread::scope(|scope| {
        let left = scope.spawn(|| left.converse(&lines));
        let right = right.converse(&lines);
        (left.join().unwrap_or_else(|_| Err(anyhow!("the left side's reader panicked"))), right)
    });
    Ok(first_difference(trace, &left?, &right?))
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "seed {}: the sides differ after command {}", self.seed, self.step)?;
        writeln!(out, "{}", self.what)?;
        write!(out, "the shortest trace found, of {} commands:", self.lines.len())?;
        self.lines.iter().try_for_each(|line| write!(out, "\n{line}"))
    }
}
