//! Many traces against two sides, and a report that can be read.

use std::{
    collections::BTreeSet,
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
    trace::{Role, Step, Trace},
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
    /// The queries that the left side was not believed about, because it had other rows for them
    /// than it found when asked anew, and the right side had those.
    pub contradictions: Vec<Contradiction>,
    /// All queries of all traces.
    pub queries: usize,
}

impl Verdict {
    /// False if so many queries were left out that the others prove little.
    #[must_use]
    pub fn has_compared_enough(&self) -> bool {
        let most = self.queries * CONTRADICTIONS_PERCENT_MAX / 100;
        self.contradictions.len() <= most.max(CONTRADICTIONS_FEW)
    }
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
    excuse: Excuse,
}

/// Whose contradictions are excused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excuse {
    /// Those of the left side alone.
    Left,
    /// Those of both sides: the right one is no engine of ours.
    Both,
}

/// Both cores; each worker has a process on either side.
const WORKERS: usize = 2;

/// Of the queries that a run compares, so many may be left out because the left side contradicts
/// itself. Were it more, an engine that is wrong where the other is would hide behind it.
pub const CONTRADICTIONS_PERCENT_MAX: usize = 2;

/// So many may be in a run of one trace or two, where a percentage is chance.
const CONTRADICTIONS_FEW: usize = 2;

/// After so many mismatches, one more teaches nothing.
const MISMATCHES_MAX: usize = 3;

impl Differential {
    /// The npm package against `right`; installs the package if need be.
    ///
    /// # Errors
    ///
    /// When the package cannot be installed.
    pub fn new(node_dir: &Path, right: Program) -> Result<Self> {
        Ok(Self { left: oracle(node_dir)?, right, excuse: Excuse::Left })
    }

    /// The npm package against itself.
    ///
    /// # Errors
    ///
    /// When the package cannot be installed.
    pub fn oracle_only(node_dir: &Path) -> Result<Self> {
        let left = oracle(node_dir)?;
        Ok(Self { right: left.clone(), left, excuse: Excuse::Both })
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
        run(plan, self.excuse, &sides)
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
        run(plan, Excuse::Both, &sides)
    }
}

fn oracle(node_dir: &Path) -> Result<Program> {
    Suite::install(node_dir)?;
    let args = vec!["oracle.mjs".into()];
    Ok(Program { program: "node".into(), args, dir: node_dir.to_owned() })
}

fn run(
    plan: &Plan,
    excuse: Excuse,
    sides: &(dyn Fn() -> [Box<dyn Side>; 2] + Sync),
) -> Result<Verdict> {
    let next = AtomicU64::new(plan.seeds.start);
    let verdict = Mutex::new(Verdict::default());
    let lock = || verdict.lock().map_err(|_| anyhow!("another worker panicked"));
    let work = || -> Result<()> {
        let mut bench = Bench { sides: sides(), excuse, contradicted: Vec::new(), queries: 0 };
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= plan.seeds.end || lock()?.mismatches.len() >= MISMATCHES_MAX {
                return Ok(());
            }
            let mismatch = bench.run_seed(seed, plan)?;
            let contradicted = mem::take(&mut bench.contradicted).into_iter();
            let mut verdict = lock()?;
            verdict.queries += mem::take(&mut bench.queries);
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
    excuse: Excuse,
    /// Commands of queries of the current trace that the left side is not believed about.
    contradicted: Vec<String>,
    /// How many queries the current trace has.
    queries: usize,
}

impl Bench {
    fn run_seed(&mut self, seed: u64, plan: &Plan) -> Result<Option<Mismatch>> {
        let trace = Trace::generate(seed, plan.commands, plan.taste);
        let is_query = |step: &&Step| matches!(step.role, Role::Query(_));
        self.queries = trace.steps.iter().filter(is_query).count();
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

    /// The first difference that is not the left side's own fault, and the trace it is in. Queries
    /// that the left side itself answers in two ways stay in it, for the right side alone.
    fn judge(&mut self, mut trace: Trace) -> Result<Option<(Trace, Difference)>> {
        let mut doubted = BTreeSet::new();
        loop {
            let (left, right) = self.converse(&trace)?;
            let Some(difference) = first_difference(&trace, &left, &right, &doubted) else {
                return Ok(None);
            };
            let query = match &difference.blame {
                Blame::Right(query) if self.excuse == Excuse::Both => query,
                Blame::Rows(query) if self.is_left_wrong(&trace, difference.step, query)? => query,
                Blame::Right(_) | Blame::Rows(_) | Blame::Replies | Blame::Trace => {
                    return Ok(Some((trace, difference)));
                }
            };
            let command = trace.steps.iter().find(|step| step.name() == *query);
            self.contradicted.extend(command.map(|step| step.command.to_string()));
            match self.excuse {
                Excuse::Left => drop(doubted.insert(query.clone())),
                Excuse::Both => trace = trace.without_query(query),
            }
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
        wrong: Wrong,
    }

    /// When it has one row too many in a query that it keeps.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Wrong {
        Never,
        AtTwo,
        /// When all queries are asked anew.
        InTheEnd,
    }

    impl Toy {
        fn boxed(wrong: Wrong) -> Box<dyn Side> {
            Box::new(Self { syncs: 0, wrong })
        }

        fn answer(&mut self, command: &Value) -> Value {
            match command["op"].as_str() {
                Some("reset") => self.syncs = 0,
                Some("sync") => self.syncs += 1,
                Some("dump") => {
                    let names = command["what"].as_array().unwrap();
                    let is_end = names.iter().any(|name| name == "q0-again");
                    let rows = names.iter().map(|name| self.rows(name.as_str().unwrap(), is_end));
                    return json!({ "rows": rows.collect::<serde_json::Map<_, _>>() });
                }
                _ if command.to_string().contains("refused") => return json!({ "error": "No" }),
                _ => {}
            }
            json!({})
        }

        fn rows(&self, name: &str, is_end: bool) -> (String, Value) {
            let rows = self.syncs % 5;
            let is_wrong = match self.wrong {
                Wrong::Never => false,
                Wrong::AtTwo => rows == 2,
                Wrong::InTheEnd => is_end,
            };
            let more = usize::from(is_wrong && name == "q1");
            (name.to_owned(), json!(vec![0; rows + more]))
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
        excusing(Excuse::Left, sides)
    }

    fn excusing(excuse: Excuse, sides: &(dyn Fn() -> [Box<dyn Side>; 2] + Sync)) -> Verdict {
        run(&Plan { seeds: 0..8, commands: 60, taste: Taste::Wild }, excuse, sides).unwrap()
    }

    #[test]
    fn sides_that_agree_have_no_mismatch() {
        let verdict = verdict(&|| [Toy::boxed(Wrong::Never), Toy::boxed(Wrong::Never)]);
        assert!(verdict.mismatches.is_empty(), "{}", verdict.mismatches[0]);
        assert!(verdict.contradictions.is_empty() && verdict.has_compared_enough());
        assert!(verdict.queries >= 8 * 6);
    }

    #[test]
    fn a_liar_is_found_and_explained() {
        let liar = || Box::new(Liar(Toy { syncs: 0, wrong: Wrong::Never }));
        let verdict = verdict(&|| [Toy::boxed(Wrong::Never), liar()]);
        let mismatch = &verdict.mismatches[0];
        // The query, three syncs, and their collections.
        assert!(mismatch.lines.len() <= 7, "{mismatch}");
        assert!(mismatch.what.contains("left 0"), "{mismatch}");
    }

    #[test]
    fn the_left_side_may_contradict_itself() {
        let verdict = verdict(&|| [Toy::boxed(Wrong::AtTwo), Toy::boxed(Wrong::Never)]);
        assert!(verdict.mismatches.is_empty(), "{}", verdict.mismatches[0]);
        assert_eq!(verdict.contradictions.len(), 8);
    }

    #[test]
    fn but_not_about_too_many_queries() {
        let verdict = verdict(&|| [Toy::boxed(Wrong::AtTwo), Toy::boxed(Wrong::Never)]);
        assert!(!verdict.has_compared_enough(), "8 of {}", verdict.queries);
        let few = Verdict { queries: 400, ..verdict };
        assert!(few.has_compared_enough());
    }

    #[test]
    fn the_right_side_may_not() {
        let verdict = verdict(&|| [Toy::boxed(Wrong::Never), Toy::boxed(Wrong::AtTwo)]);
        assert!(!verdict.mismatches.is_empty());
        assert!(verdict.contradictions.is_empty());
    }

    #[test]
    fn the_right_side_may_not_even_if_the_left_side_does_the_same() {
        for wrong in [Wrong::InTheEnd, Wrong::AtTwo] {
            let sides = || [Toy::boxed(wrong), Toy::boxed(wrong)];
            let found = verdict(&sides);
            assert!(!found.mismatches.is_empty() && found.contradictions.is_empty());
            // Unless it is no engine of ours.
            assert!(excusing(Excuse::Both, &sides).mismatches.is_empty());
        }
    }

    #[test]
    fn the_right_side_may_not_about_a_query_that_the_left_side_is_doubted_about() {
        let verdict = verdict(&|| [Toy::boxed(Wrong::AtTwo), Toy::boxed(Wrong::InTheEnd)]);
        let mismatch = &verdict.mismatches[0];
        let of_it = |contradiction: &Contradiction| contradiction.seed == mismatch.seed;
        assert!(verdict.contradictions.iter().any(of_it), "{mismatch}");
    }
}
