//! A trace: the commands of one seed, in the order both sides get them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    expression::Taste,
    query::{Order, QueryMaker, refused},
    random::Random,
    schema::Table,
    world::World,
};

/// Commands, each with what a comparison needs to know.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    pub(super) steps: Vec<Step>,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) command: Value,
    pub(super) role: Role,
}

/// What a command is to the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    Collection,
    /// A query whose result is looked at after every later command.
    Query(Order),
    /// A query that both sides must refuse.
    Refused,
    /// A query that was there before under another name, and must have the same result.
    Again {
        first: String,
        order: Order,
    },
    Write,
}

const QUERIES_AT_FIRST: usize = 6;
const QUERIES_MAX: usize = 10;

/// How often the world is asked before a trace stays shorter than wanted.
const TRIES_PER_COMMAND: usize = 20;

impl Trace {
    /// The trace of this seed, with about `commands` writes.
    pub(super) fn generate(seed: u64, commands: usize, taste: Taste) -> Self {
        let random = &mut Random::new(seed);
        let tables = Table::generate_all(random);
        let (mut world, collections) = World::create(&tables, random);
        let create = |command| Step { command, role: Role::Collection };
        let mut steps: Vec<_> = collections.into_iter().map(create).collect();
        let mut queries = 0;
        while queries < QUERIES_AT_FIRST {
            steps.push(query(queries, random, &tables, taste));
            queries += 1;
        }
        let end = steps.len() + commands;
        for _ in 0..commands * TRIES_PER_COMMAND {
            if steps.len() >= end {
                break;
            }
            match random.below(100) {
                0..=1 if queries < QUERIES_MAX => {
                    steps.push(query(queries, random, &tables, taste));
                    queries += 1;
                }
                2 => steps.push(refused_query(steps.len(), random, &tables)),
                _ => steps.extend(world.step(random).into_iter().map(write)),
            }
        }
        let again = steps.iter().filter_map(Step::again).collect::<Vec<_>>();
        steps.extend(again);
        Self { steps }
    }

    /// The lines that a side is sent: a fresh start, then every command, each followed by a look
    /// at everything there is.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![json!({ "op": "reset" }).to_string()];
        let mut names = Vec::new();
        for step in &self.steps {
            lines.push(step.command.to_string());
            if step.role.is_visible() {
                names.push(step.name());
            }
            lines.push(json!({ "op": "dump", "what": names }).to_string());
        }
        lines
    }

    /// This trace without the commands that name a collection it does not create.
    pub(super) fn without_orphans(mut self) -> Self {
        let mut collections = BTreeSet::new();
        self.steps.retain(|step| {
            if step.role == Role::Collection {
                collections.insert(step.name().to_owned());
            }
            let mut named = Vec::new();
            collections_in(&step.command, &mut named);
            named.iter().all(|name| collections.contains(*name))
        });
        let queries: BTreeSet<_> = self.steps.iter().map(|step| step.name().to_owned()).collect();
        self.steps.retain(|step| match &step.role {
            Role::Again { first, .. } => queries.contains(first),
            _ => true,
        });
        self
    }

    /// This trace up to the command with this index, and then `query` asked anew.
    pub(super) fn asking_again(&self, index: usize, query: &str) -> Option<Self> {
        let again = self.steps.iter().find(|step| step.name() == query)?.again()?;
        let steps = self.steps[..=index].iter().cloned().chain([again]);
        Some(Self { steps: steps.collect() })
    }

    /// This trace without one query.
    pub(super) fn without_query(mut self, query: &str) -> Self {
        self.steps.retain(|step| step.name() != query);
        self.without_orphans()
    }

    /// This trace with every second query the same as its first.
    pub(super) fn with_twins_alike(mut self) -> Self {
        let firsts = self.steps.clone();
        for step in &mut self.steps {
            let Role::Again { first, order } = &mut step.role else { continue };
            let mut found = firsts.iter().filter(|step| step.name() == *first);
            if let Some(Step { command, role: Role::Query(first_order) }) = found.next() {
                *order = *first_order;
                step.command["ir"] = command["ir"].clone();
            }
        }
        self
    }
}

impl Step {
    /// The name of the collection or query it creates; empty for others.
    pub(super) fn name(&self) -> &str {
        self.command["name"].as_str().unwrap_or_default()
    }

    /// The transaction it is part of.
    pub(super) fn transaction(&self) -> Option<&str> {
        self.command["tx"].as_str()
    }

    /// The same query once more, over the rows there are in the end.
    fn again(&self) -> Option<Self> {
        let Role::Query(order) = self.role else { return None };
        let first = self.name().to_owned();
        let mut command = self.command.clone();
        command["name"] = json!(format!("{first}-again"));
        Some(Self { command, role: Role::Again { first, order } })
    }
}

impl Role {
    pub(super) const fn is_visible(&self) -> bool {
        matches!(self, Self::Collection | Self::Query(_) | Self::Again { .. })
    }
}

fn write(command: Value) -> Step {
    Step { command, role: Role::Write }
}

fn query(index: usize, random: &mut Random, tables: &[Table], taste: Taste) -> Step {
    let query = QueryMaker { random, tables, taste }.query();
    let command = json!({ "op": "query", "name": format!("q{index}"), "ir": query.ir });
    Step { command, role: Role::Query(query.order) }
}

fn refused_query(index: usize, random: &mut Random, tables: &[Table]) -> Step {
    let table = random.below(tables.len());
    let ir = refused(random, &tables[table]);
    let command = json!({ "op": "query", "name": format!("refused{index}"), "ir": ir });
    Step { command, role: Role::Refused }
}

/// Every collection that a command speaks of.
fn collections_in<'a>(json: &'a Value, found: &mut Vec<&'a str>) {
    match json {
        Value::Object(fields) => {
            found.extend(fields.get("col").and_then(Value::as_str));
            fields.values().for_each(|value| collections_in(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collections_in(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_trace() {
        let lines = |seed| Trace::generate(seed, 100, Taste::Wild).lines();
        assert_eq!(lines(1), lines(1));
        assert_ne!(lines(1), lines(2));
    }

    #[test]
    fn what_a_missing_collection_leaves_behind_goes_with_it() {
        let mut trace = Trace::generate(3, 100, Taste::Tame);
        let before = trace.steps.len();
        let removed = trace.steps.remove(0).name().to_owned();
        let trace = trace.without_orphans();
        assert!(trace.steps.len() < before - 1);
        let mut left = Vec::new();
        trace.steps.iter().for_each(|step| collections_in(&step.command, &mut left));
        assert!(!left.contains(&removed.as_str()));
    }
}
