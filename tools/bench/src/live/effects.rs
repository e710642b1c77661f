//! Scenarios b: ten thousand jobs, and effects that wait for some of them.

use anyhow::Result;
use query::{ChangeKind, Query, Tick, Write};

use super::{
    figure::{Calls, Outcome, whole},
    filters::pending,
    sample::{Chance, Job, Jobs, Size},
};

/// What an effect waits for.
#[derive(Clone, Copy)]
pub(super) enum Waits {
    /// Any job that is pending.
    Pending,
    /// A pending job of one of this many agents, each in turn.
    PendingOf { agents: usize },
}

impl Waits {
    fn query(self, number: usize) -> Result<Query> {
        match self {
            Self::Pending => pending(),
            Self::PendingOf { agents } => Ok(Query::from_json(&format!(
                r#"{{"from":{{"col":"jobs","as":"j"}},"where":[{{"fn":"and","args":[
                {{"fn":"eq","args":[{{"ref":["j","agent"]}},{{"val":"agent-{}"}}]}},
                {{"fn":"eq","args":[{{"ref":["j","status"]}},{{"val":"pending"}}]}}]}}]}}"#,
                number % agents
            ))?),
        }
    }
}

/// One more row, which `wanted` of the effects are told of.
pub(super) fn effects(size: Size, total: usize, waits: Waits, wanted: usize) -> Result<Outcome> {
    let (mut chance, rows) = (Chance::new(4), size.of(10_000));
    let mut own = Jobs::new(&Job::many(rows, &mut chance))?;
    let (create, ()) = whole(&format!("create {total}"), || {
        for number in 0..total {
            own.db.watch(&waits.query(number)?)?;
        }
        Ok(())
    })?;
    let (mut ok, mut hits) = (true, wanted);
    let count = size.of(1_200);
    let calls = Calls { name: "insert, all handlers", count, warm: count / 6 };
    let next = |own: &mut Jobs, number| own.record(&Job::pending(rows + number, &mut chance));
    let insert = calls.measure(&mut own, next, |own, record| {
        ok &= hits == wanted;
        hits = 0;
        let writes = vec![(own.collection, Write::Insert(record, Default::default()))];
        let published = own.db.apply(Tick { writes, retires: Vec::new() })?;
        for (_, changes) in &published.queries {
            hits += changes.iter().filter(|change| change.kind() == ChangeKind::Enter).count();
        }
        Ok(())
    })?;
    ok &= hits == wanted;
    Ok(Outcome { ok, figures: vec![insert, create], heap: None })
}
