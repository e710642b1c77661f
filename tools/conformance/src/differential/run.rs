//! Many traces against two sides, and a report that can be read.

use std::{
    fmt, mem,
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
    compare::{Blame, Difference, first_difference, left_is_wrong},
    expression::Taste,
    liar::Liar,
    shrink::{Failing, shrink},
    side::{Conversation, Process, Program, Side},
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

/// What came of a run.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Shrunk, by seed; after a few of them a run ends.
    pub mismatches: Vec<Mismatch>,
    /// The queries that were taken out of their trace, because the left side had other rows for
    /// them than it found when asked anew.
    pub contradictions: Vec<Contradiction>,
}

/// A query that the left side has two answers to.
#[derive(Debug)]
pub struct Contradiction {
    /// The seed of the trace.
    pub seed: u64,
    /// The query, as its command.
    pub query: String,
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

    /// Runs all traces of `plan`.
    ///
    /// # Errors
    ///
    /// When a side cannot be started.
    pub fn run(&self, plan: &Plan) -> Result<Verdict> {
        let sides = || -> [Box<dyn Side>; 2] {
            [Box::new(Process::new(&self.left)), Box::new(Process::new(&self.right))]
        };
        run(plan, &sides)
    }

    /// Runs the left side against one that is known to lose rows.
    ///
    /// # Errors
    ///
    /// When a side cannot be started.
    pub fn run_liar(&self, plan: &Plan) -> Result<Verdict> {
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

fn run(plan: &Plan, sides: &(dyn Fn() -> [Box<dyn Side>; 2] + Sync)) -> Result<Verdict> {
    let next = AtomicU64::new(plan.seeds.start);
    let verdict = Mutex::new(Verdict::default());
    let lock = || verdict.lock().map_err(|_| anyhow!("another worker panicked"));
    let work = || -> Result<()> {
        let mut bench = Bench { sides: sides(), contradicted: Vec::new() };
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= plan.seeds.end || lock()?.mismatches.len() >= MISMATCHES_MAX {
                return Ok(());
            }
            let mismatch = bench.run_seed(seed, plan)?;
            let contradicted = mem::take(&mut bench.contradicted).into_iter();
            let mut verdict = lock()?;
            verdict.contradictions.extend(contradicted.map(|query| Contradiction { seed, query }));
            verdict.mismatches.extend(mismatch);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow!("a worker panicked")))
        })
    })?;
    let mut verdict = verdict.into_inner().map_err(|_| anyhow!("a worker panicked"))?;
    verdict.mismatches.sort_by_key(|mismatch| mismatch.seed);
    verdict.contradictions.sort_by_key(|contradiction| contradiction.seed);
    Ok(verdict)
}

/// Both sides of one worker.
struct Bench {
    sides: [Box<dyn Side>; 2],
    /// Commands of queries that were taken out of the current trace.
    contradicted: Vec<String>,
}

impl Bench {
    fn run_seed(&mut self, seed: u64, plan: &Plan) -> Result<Option<Mismatch>> {
        let trace = Trace::generate(seed, plan.commands, plan.taste);
        let Some((trace, difference)) = self.judge(trace)? else { return Ok(None) };
        let step = difference.step;
        let contradicted = self.contradicted.clone();
        let failing = Failing { trace, difference };
        let shrunk = shrink(failing, &mut |trace| {
            Ok(self.judge(trace.clone())?.map(|(_, difference)| difference))
        })?;
        // Only whole traces count.
        self.contradicted = contradicted;
        let commands = shrunk.trace.steps.iter().map(|step| step.command.to_string());
        Ok(Some(Mismatch { seed, step, what: shrunk.difference.what, lines: commands.collect() }))
    }

    /// The first difference that is not the left side's own fault, and the trace it is in: queries
    /// that the left side itself answers in two ways are taken out.
    fn judge(&mut self, mut trace: Trace) -> Result<Option<(Trace, Difference)>> {
        loop {
            let (left, right) = self.converse(&trace)?;
            let Some(difference) = first_difference(&trace, &left, &right) else {
                return Ok(None);
            };
            let query = match &difference.blame {
                Blame::Left(query) => query,
                Blame::Rows(query) if self.is_left_wrong(&trace, difference.step, query)? => query,
                Blame::Rows(_) | Blame::Replies | Blame::Trace => {
                    return Ok(Some((trace, difference)));
                }
            };
            let command = trace.steps.iter().find(|step| step.name() == *query);
            self.contradicted.extend(command.map(|step| step.command.to_string()));
            trace = trace.without_query(query);
        }
    }

    fn is_left_wrong(&mut self, trace: &Trace, step: usize, query: &str) -> Result<bool> {
        let Some(trace) = trace.asking_again(step, query) else { return Ok(false) };
        let (left, right) = self.converse(&trace)?;
        Ok(left_is_wrong(&trace, &left, &right))
    }

    /// Both sides hear the trace at the same time.
    fn converse(&mut self, trace: &Trace) -> Result<(Conversation, Conversation)> {
        let lines = trace.lines();
        let [left, right] = &mut self.sides;
        let (left, right) = thread::scope(|scope| {
            let left = scope.spawn(|| left.converse(&lines));
            let right = right.converse(&lines);
            (left.join().unwrap_or_else(|_| Err(anyhow!("the left side's reader panicked"))), right)
        });
        Ok((left?, right?))
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "seed {}: the sides differ after command {}", self.seed, self.step)?;
        writeln!(out, "{}", self.what)?;
        write!(out, "the shortest trace found, of {} commands:", self.lines.len())?;
        self.lines.iter().try_for_each(|line| write!(out, "\n{line}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Knows nothing of queries: each has as many rows as there were syncs, up to four.
    struct Toy {
        syncs: usize,
        is_wrong_at_two: bool,
    }

    impl Toy {
        fn boxed(is_wrong_at_two: bool) -> Box<dyn Side> {
            Box::new(Self { syncs: 0, is_wrong_at_two })
        }

        fn answer(&mut self, command: &Value) -> Value {
            match command["op"].as_str() {
                Some("reset") => self.syncs = 0,
                Some("sync") => self.syncs += 1,
                Some("dump") => {
                    let names = command["what"].as_array().unwrap();
                    let rows = names.iter().map(|name| self.rows(name.as_str().unwrap()));
                    return json!({ "rows": rows.collect::<serde_json::Map<_, _>>() });
                }
                _ if command.to_string().contains("refused") => return json!({ "error": "No" }),
                _ => {}
            }
            json!({})
        }

        fn rows(&self, name: &str) -> (String, Value) {
            let rows = self.syncs % 5;
            let is_wrong = self.is_wrong_at_two && rows == 2 && name == "q1";
            (name.to_owned(), json!(vec![0; rows + usize::from(is_wrong)]))
        }
    }

    impl Side for Toy {
        fn converse(&mut self, lines: &[String]) -> Result<Conversation> {
            let commands = lines.iter().map(|line| serde_json::from_str(line).unwrap());
            let replies = commands.map(|command| self.answer(&command).to_string()).collect();
            Ok(Conversation { replies, silence: None })
        }
    }

    fn verdict(sides: &(dyn Fn() -> [Box<dyn Side>; 2] + Sync)) -> Verdict {
        run(&Plan { seeds: 0..8, commands: 60, taste: Taste::Wild }, sides).unwrap()
    }

    #[test]
    fn sides_that_agree_have_no_mismatch() {
        let verdict = verdict(&|| [Toy::boxed(false), Toy::boxed(false)]);
        assert!(verdict.mismatches.is_empty(), "{}", verdict.mismatches[0]);
        assert!(verdict.contradictions.is_empty());
    }

    #[test]
    fn a_liar_is_found_and_explained() {
        let liar = || Box::new(Liar(Toy { syncs: 0, is_wrong_at_two: false }));
        let verdict = verdict(&|| [Toy::boxed(false), liar()]);
        let mismatch = &verdict.mismatches[0];
        // The query, three syncs, and their collections.
        assert!(mismatch.lines.len() <= 7, "{mismatch}");
        assert!(mismatch.what.contains("left 0"), "{mismatch}");
    }

    #[test]
    fn the_left_side_may_contradict_itself() {
        let verdict = verdict(&|| [Toy::boxed(true), Toy::boxed(false)]);
        assert!(verdict.mismatches.is_empty(), "{}", verdict.mismatches[0]);
        assert!(verdict.contradictions.len() >= 8);
    }

    #[test]
    fn the_right_side_may_not() {
        let verdict = verdict(&|| [Toy::boxed(false), Toy::boxed(true)]);
        assert!(!verdict.mismatches.is_empty());
        assert!(verdict.contradictions.is_empty());
    }
}
