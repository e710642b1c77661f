//! Making a failing trace small enough to read.
//!
//! Commands are taken away, a transaction only as a whole: a trace that is shorter but ends in an
//! agreed deviation would explain nothing. Then rows, writes and clauses go one by one.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::Value;

use super::{
    compare::{Blame, Difference},
    query::Order,
    simplify::simpler,
    trace::{Role, Trace},
};

/// A failing trace and where it fails.
#[derive(Debug, Clone)]
pub(super) struct Failing {
    pub(super) trace: Trace,
    pub(super) difference: Difference,
}

/// How many traces may be tried; each is a whole run of both sides.
const TRIES_MAX: usize = 400;

/// How long that may take, should a side need long for each.
const TIME_MAX: Duration = Duration::from_secs(45);

/// The smallest trace found that still fails; `fails` runs one.
pub(super) fn shrink(
    failing: Failing,
    fails: &mut dyn FnMut(&Trace) -> Result<Option<Difference>>,
) -> Result<Failing> {
    let mut search = Search { best: failing, tries: 0, started: Instant::now(), fails };
    search.cut_the_end()?;
    search.take_commands()?;
    search.take_parts()?;
    search.simplify_queries()?;
    search.take_commands()?;
    Ok(search.best)
}

struct Search<'a> {
    best: Failing,
    tries: usize,
    started: Instant,
    fails: &'a mut dyn FnMut(&Trace) -> Result<Option<Difference>>,
}

impl Search<'_> {
    /// Keeps `trace` if it fails as well, and not only because it makes no sense any more.
    fn attempt(&mut self, trace: Trace) -> Result<bool> {
        if self.tries == TRIES_MAX || self.started.elapsed() > TIME_MAX {
            return Ok(false);
        }
        self.tries += 1;
        let trace = trace.with_twins_alike();
        let Some(difference) = (self.fails)(&trace)? else { return Ok(false) };
        let makes_sense = |difference: &Difference| difference.blame != Blame::Trace;
        let is_alike = makes_sense(&difference) == makes_sense(&self.best.difference);
        if is_alike {
            self.best = Failing { trace, difference };
        }
        Ok(is_alike)
    }

    /// What comes after the difference has no part in it.
    fn cut_the_end(&mut self) -> Result<()> {
        let mut trace = self.best.trace.clone();
        trace.steps.truncate(self.best.difference.step + 1);
        self.attempt(trace).map(drop)
    }

    /// Takes away ever smaller runs of commands.
    fn take_commands(&mut self) -> Result<()> {
        let mut size = units(&self.best.trace).len() / 2;
        while size > 0 {
            let mut start = 0;
            while start < units(&self.best.trace).len() {
                let units = units(&self.best.trace);
                let taken: Vec<_> =
                    units.iter().skip(start).take(size).flatten().copied().collect();
                if !self.attempt(without(&self.best.trace, &taken))? {
                    start += size;
                }
            }
            size /= 2;
        }
        Ok(())
    }

    /// Takes away rows, writes and clauses.
    fn take_parts(&mut self) -> Result<()> {
        // From the end, so that the indexes of what is still to come stay true.
        for step in (0..self.best.trace.steps.len()).rev() {
            for list in ["/init", "/writes", "/muts", "/ir/where", "/ir/join"] {
                self.take_items(step, list)?;
            }
            for clause in ["having", "limit", "offset", "distinct", "orderBy"] {
                self.take_field(step, "/ir", clause)?;
            }
            // With a window, a result depends on every field that its order depends on.
            if !has_window(&self.best.trace, step) {
                self.take_items(step, "/ir/orderBy")?;
                for name in fields(&self.best.trace, step, "/ir/select") {
                    self.take_field(step, "/ir/select", &name)?;
                }
            }
        }
        Ok(())
    }

    /// Makes queries simpler, as long as that changes nothing.
    fn simplify_queries(&mut self) -> Result<()> {
        for step in 0..self.best.trace.steps.len() {
            while self.simplify_query(step)? {}
        }
        Ok(())
    }

    fn simplify_query(&mut self, step: usize) -> Result<bool> {
        let Role::Query(_) = self.best.trace.steps[step].role else { return Ok(false) };
        for ir in simpler(&self.best.trace.steps[step].command["ir"]) {
            let mut trace = self.best.trace.clone();
            trace.steps[step].command["ir"] = ir;
            if self.attempt(trace)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take_items(&mut self, step: usize, list: &str) -> Result<()> {
        let items = self.best.trace.steps[step].command.pointer(list).and_then(Value::as_array);
        for index in (0..items.map_or(0, Vec::len)).rev() {
            let mut trace = self.best.trace.clone();
            let command = &mut trace.steps[step].command;
            let items = command.pointer_mut(list).and_then(Value::as_array_mut);
            let taken = items.map(|items| items.remove(index));
            // Nothing says what a name means that nothing has.
            let alias = taken.as_ref().and_then(|taken| taken["as"].as_str());
            if alias.is_some_and(|alias| command.to_string().contains(&format!(r#"["{alias}""#))) {
                continue;
            }
            remove_empty_clauses(command);
            loosen(&mut trace, step);
            self.attempt(trace)?;
        }
        Ok(())
    }

    fn take_field(&mut self, step: usize, object: &str, name: &str) -> Result<()> {
        let mut trace = self.best.trace.clone();
        let command = &mut trace.steps[step].command;
        let is_looked_at = command.to_string().contains(&format!(r#"["$selected","{name}""#));
        let object = command.pointer_mut(object).and_then(Value::as_object_mut);
        let is_taken =
            object.is_some_and(|object| object.len() > 1 && object.remove(name).is_some());
        if is_taken && !is_looked_at {
            loosen(&mut trace, step);
            self.attempt(trace)?;
        }
        Ok(())
    }
}

fn remove_empty_clauses(command: &mut Value) {
    if let Some(ir) = command.get_mut("ir").and_then(Value::as_object_mut) {
        ir.retain(|_, clause| clause.as_array().is_none_or(|items| !items.is_empty()));
    }
}

fn fields(trace: &Trace, step: usize, object: &str) -> Vec<String> {
    let object = trace.steps[step].command.pointer(object).and_then(Value::as_object);
    object.into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

fn has_window(trace: &Trace, step: usize) -> bool {
    let ir = &trace.steps[step].command["ir"];
    ir.get("limit").is_some() || ir.get("offset").is_some()
}

/// A query that lost a clause may leave its order open, unless it has a window on it.
fn loosen(trace: &mut Trace, step: usize) {
    if !has_window(trace, step)
        && let Role::Query(order) = &mut trace.steps[step].role
    {
        *order = Order::Any;
    }
}

/// The indexes of commands that stay or go together.
fn units(trace: &Trace) -> Vec<Vec<usize>> {
    let mut units: Vec<Vec<usize>> = Vec::new();
    let mut transactions = BTreeMap::new();
    for (index, step) in trace.steps.iter().enumerate() {
        let unit = match step.transaction() {
            Some(name) => *transactions.entry(name).or_insert(units.len()),
            None => units.len(),
        };
        match units.get_mut(unit) {
            Some(unit) => unit.push(index),
            None => units.push(vec![index]),
        }
    }
    units
}

fn without(trace: &Trace, taken: &[usize]) -> Trace {
    let steps = trace.steps.iter().enumerate().filter(|(index, _)| !taken.contains(index));
    Trace { steps: steps.map(|(_, step)| step.clone()).collect() }.without_orphans()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::expression::Taste;

    /// Fails wherever one certain query stands before a deletion.
    fn fails(trace: &Trace) -> Option<Difference> {
        let query = trace.steps.iter().position(|step| step.name() == "q3")?;
        let deletion = |text: String| text.contains(r#""type":"delete""#);
        let step = trace.steps.iter().position(|step| deletion(step.command.to_string()))?;
        (query < step).then(|| Difference {
            step,
            blame: Blame::Replies,
            what: "as expected".to_owned(),
        })
    }

    #[test]
    fn little_is_left_of_a_long_trace() {
        let trace = Trace::generate(5, 300, Taste::Wild);
        let difference = fails(&trace).unwrap();
        let failing = Failing { trace, difference };
        let shrunk = shrink(failing, &mut |trace| Ok(fails(trace))).unwrap();
        let left: Vec<_> = shrunk.trace.steps.iter().map(|step| step.command.to_string()).collect();
        // The query, the collections it reads, and the write (or the transaction around it).
        assert!(left.len() <= 8, "{}", left.join("\n"));
        assert!(fails(&shrunk.trace).is_some());
    }

    #[test]
    fn a_transaction_is_one_unit() {
        let trace = Trace::generate(5, 300, Taste::Tame);
        for unit in units(&trace) {
            let names: Vec<_> =
                unit.iter().map(|index| trace.steps[*index].transaction()).collect();
            assert!(names.windows(2).all(|pair| pair[0].is_some() && pair[0] == pair[1]));
        }
        assert_eq!(units(&trace).concat().len(), trace.steps.len());
    }
}
