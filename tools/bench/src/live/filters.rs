//! Scenarios a: a hundred thousand jobs, and a live query for those that are pending.

use anyhow::Result;
use query::{Mutation, MutationKind, Query, Tick, Write};

use super::{
    figure::{Calls, Heap, Outcome, resident_bytes, whole},
    sample::{Chance, Job, Jobs, Size, count_pending},
};

const PENDING: &str = r#"{"from":{"col":"jobs","as":"j"},
    "where":[{"fn":"eq","args":[{"ref":["j","status"]},{"val":"pending"}]}]}"#;

fn pending() -> Result<Query> {
    Ok(Query::from_json(PENDING)?)
}

/// All rows in one transaction.
pub(super) fn bulk(size: Size) -> Result<Outcome> {
    let jobs = Job::many(size.rows(), &mut Chance::new(1));
    let before = resident_bytes()?;
    let mut own = Jobs::new(&[])?;
    let query = own.db.live(&pending()?)?;
    let insert = |job| {
        let record = own.record(job)?;
        anyhow::Ok((own.collection, Write::Insert(record, Default::default())))
    };
    let writes = jobs.iter().map(insert).collect::<Result<_>>()?;
    let (figure, _) = whole("all rows", || {
        own.db.apply(Tick { writes, retires: Vec::new() })?;
        Ok(())
    })?;
    let heap = Heap { bytes: resident_bytes()? - before, rows: jobs.len() };
    let ok = own.db.result_len(query) == count_pending(&jobs);
    Ok(Outcome { ok, figures: vec![figure], heap: Some(heap) })
}

/// One row after the other, from none.
pub(super) fn grow(size: Size, mut key: impl FnMut(usize) -> String) -> Result<Outcome> {
    let mut chance = Chance::new(1);
    let mut own = Jobs::new(&[])?;
    let query = own.db.live(&pending()?)?;
    let job = |number| Job { id: key(number), ..Job::new(number, &mut chance) };
    let jobs: Vec<_> = (0..size.rows()).map(job).collect();
    let records = jobs.iter().map(|job| own.record(job)).collect::<Result<Vec<_>>>()?;
    let mut records = records.into_iter();
    let calls = Calls {
        name: "insert, the last tenth",
        count: jobs.len(),
        warm: jobs.len() - jobs.len() / 10,
    };
    let next = |_: &mut Jobs, _| Ok(records.next());
    let figure = calls.measure(&mut own, next, |own, record| {
        record.map_or(Ok(()), |record| own.insert(record))
    })?;
    let ok = own.db.result_len(query) == count_pending(&jobs);
    Ok(Outcome { ok, figures: vec![figure], heap: None })
}

/// Who looks at the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    Live,
    ByNobody,
}

/// One more row.
pub(super) fn steady(size: Size, status: &'static str, watched: Watched) -> Result<Outcome> {
    let mut chance = Chance::new(2);
    let mut own = Jobs::new(&Job::many(size.rows(), &mut chance))?;
    let query = match watched {
        Watched::Live => Some(own.db.live(&pending()?)?),
        Watched::ByNobody => None,
    };
    let len = |own: &Jobs| query.map_or(0, |query| own.db.result_len(query));
    let (before, count) = (len(&own), size.of(12_000));
    let calls = Calls { name: "insert", count, warm: count / 6 };
    let next = |own: &mut Jobs, number| {
        own.record(&Job { status, ..Job::new(size.rows() + number, &mut chance) })
    };
    let figure = calls.measure(&mut own, next, Jobs::insert)?;
    let is_seen = status == "pending" && watched == Watched::Live;
    let ok = len(&own) - before == if is_seen { count } else { 0 };
    Ok(Outcome { ok, figures: vec![figure], heap: None })
}

/// Rows that begin or cease to be pending.
pub(super) fn enter_and_leave(size: Size) -> Result<Outcome> {
    let mut chance = Chance::new(2);
    let mut jobs = Job::many(size.rows(), &mut chance);
    let mut own = Jobs::new(&jobs)?;
    let query = own.db.live(&pending()?)?;
    let count = size.of(12_000);
    let calls = Calls { name: "update", count, warm: count / 6 };
    let next = |own: &mut Jobs, _| {
        let at = chance.below(size.rows() as u32);
        let job = &mut jobs[at];
        job.status = if job.is_pending() { "running" } else { "pending" };
        job.attempt += 1;
        own.record(job)
    };
    let figure = calls.measure(&mut own, next, Jobs::update)?;
    let ok = own.db.result_len(query) == count_pending(&jobs);
    Ok(Outcome { ok, figures: vec![figure], heap: None })
}

/// Rows of this client that nobody confirms.
pub(super) fn optimistic(size: Size) -> Result<Outcome> {
    let mut chance = Chance::new(3);
    let mut own = Jobs::new(&[])?;
    let query = own.db.live(&pending()?)?;
    let count = size.of(5_000);
    let calls = Calls { name: "insert, the last tenth", count, warm: count - count / 10 };
    let next = |own: &mut Jobs, number| own.record(&Job::pending(number, &mut chance));
    let figure = calls.measure(&mut own, next, |own, record| {
        let write = MutationKind::Insert(record);
        let transaction = own.db.begin();
        own.db.mutate(transaction, vec![Mutation { collection: own.collection, write }])?;
        Ok(())
    })?;
    let ok = own.db.result_len(query) == count;
    Ok(Outcome { ok, figures: vec![figure], heap: None })
}

/// Rows of this client that are confirmed at once.
pub(super) fn local_only(size: Size) -> Result<Outcome> {
    let mut chance = Chance::new(3);
    let mut own = Jobs::new(&[])?;
    let query = own.db.live(&pending()?)?;
    let count = size.of(10_000);
    let calls = Calls { name: "insert", count, warm: count / 10 };
    let next = |own: &mut Jobs, number| own.record(&Job::pending(number, &mut chance));
    let figure = calls.measure(&mut own, next, |own, record| {
        let (collection, transaction) = (own.collection, own.db.begin());
        let write = MutationKind::Insert(record.clone());
        own.db.mutate(transaction, vec![Mutation { collection, write }])?;
        let writes = vec![(collection, Write::Insert(record, Default::default()))];
        own.db.apply(Tick { writes, retires: vec![transaction] })?;
        Ok(())
    })?;
    let ok = own.db.result_len(query) == count;
    Ok(Outcome { ok, figures: vec![figure], heap: None })
}
