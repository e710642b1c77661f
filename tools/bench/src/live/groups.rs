//! Scenarios e: a hundred thousand jobs in groups.

use anyhow::Result;
use query::Query;

use super::{
    figure::{Calls, Outcome, whole},
    sample::{Chance, Job, Jobs, Size},
};

/// Rows that come, then rows that change within their group.
pub(super) fn grouped(size: Size, by: &str, aggregates: &[&str], count: usize) -> Result<Outcome> {
    let mut chance = Chance::new(6);
    let mut jobs = Job::many(size.rows(), &mut chance);
    let mut own = Jobs::new(&jobs)?;
    let query = query(by, aggregates)?;
    let (hydrate, query) = whole("hydrate", || Ok(own.db.live(&query)?))?;
    let calls = |name| Calls { name, count, warm: count / 11 };
    let mut came = Vec::new();
    let next = |own: &mut Jobs, number| {
        came.push(Job::new(size.rows() + number, &mut chance));
        own.record(&came[came.len() - 1])
    };
    let insert = calls("insert").measure(&mut own, next, Jobs::insert)?;
    let next = |own: &mut Jobs, _| {
        let job = &mut jobs[chance.below(size.rows() as u32)];
        job.priority = chance.below(1_000_000);
        own.record(job)
    };
    let update = calls("update").measure(&mut own, next, Jobs::update)?;
    let total = |name: &str| -> i64 {
        own.db.result(query).filter_map(|group| group.record.get(name).as_int()).sum()
    };
    let priorities: usize = jobs.iter().chain(&came).map(|job| job.priority).sum();
    let is_summed = !aggregates.contains(&"sum") || total("sum") == priorities as i64;
    let ok = total("count") == (size.rows() + count) as i64 && is_summed;
    Ok(Outcome { ok, figures: vec![insert, update, hydrate], heap: None })
}

fn query(by: &str, aggregates: &[&str]) -> Result<Query> {
    let column = |name: &str| if name == "count" { "id" } else { "priority" };
    let field = |name: &&str| {
        format!(r#""{name}":{{"agg":"{name}","args":[{{"ref":["j","{}"]}}]}}"#, column(name))
    };
    let fields: Vec<_> = aggregates.iter().map(field).collect();
    Ok(Query::from_json(&format!(
        r#"{{"from":{{"col":"jobs","as":"j"}},"groupBy":[{{"ref":["j","{by}"]}}],
        "select":{{"{by}":{{"ref":["j","{by}"]}},{}}}}}"#,
        fields.join(",")
    ))?)
}
