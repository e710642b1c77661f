//! Scenarios c: a hundred thousand jobs in the order of their priority, or the first of them.

use anyhow::Result;
use query::Query;

use super::{
    figure::{Calls, Outcome, whole},
    sample::{Chance, Job, Jobs, Size},
};

const ORDERED: &str = r#"{"from":{"col":"jobs","as":"j"},
    "orderBy":[{"expr":{"ref":["j","priority"]},"dir":"desc"}]}"#;

/// Rows that move, then rows that come to the top.
pub(super) fn ordered(size: Size, limit: Option<usize>) -> Result<Outcome> {
    let mut chance = Chance::new(5);
    let mut jobs = Job::many(size.rows(), &mut chance);
    let mut own = Jobs::new(&jobs)?;
    let query = Query { limit, ..Query::from_json(ORDERED)? };
    let (hydrate, query) = whole("hydrate", || Ok(own.db.live(&query)?))?;
    let is_whole = own.db.result_len(query) == limit.unwrap_or(jobs.len());

    let (count, warm) = match limit {
        Some(_) => (size.of(5_500), size.of(500)),
        None => (size.of(700), size.of(200)),
    };
    let next = |own: &mut Jobs, _| {
        let job = &mut jobs[chance.below(size.rows() as u32)];
        job.priority = chance.below(1_000_000);
        own.record(job)
    };
    let calls = Calls { name: "update", count, warm };
    let update = calls.measure(&mut own, next, Jobs::update)?;
    let next = |own: &mut Jobs, number| {
        let job = Job::new(size.rows() + number, &mut chance);
        jobs.push(Job { priority: 1_000_000 + number, ..job });
        own.record(&jobs[jobs.len() - 1])
    };
    let calls = Calls { name: "insert at the top", count, warm };
    let insert = calls.measure(&mut own, next, Jobs::insert)?;

    jobs.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.id.cmp(&b.id)));
    jobs.truncate(limit.unwrap_or(jobs.len()));
    let ids = jobs.iter().map(|job| job.id.as_str());
    let shown: Vec<_> = own.db.result(query).map(|entry| entry.key.as_text()).collect();
    let ok = is_whole && shown.iter().map(Option::as_deref).eq(ids.map(Some));
    Ok(Outcome { ok, figures: vec![update, insert, hydrate], heap: None })
}
