//! A shape that is loaded on demand brings what queries ask for, and what becomes of it.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use std::time::Duration;

use electric_fixture::{Cells, Fixture, Operation, Todo};
use live::{Collection, Db, LiveQuery, Loading, Retry};
use source_electric::Shape;
use sys::{Chance, Sys};

const OWNERS: [&str; 3] = ["ada", "bob", "eve"];

fn cells(cells: &[(&str, &str)]) -> Cells {
    cells.iter().map(|(name, text)| ((*name).to_owned(), Some((*text).to_owned()))).collect()
}

fn insert(id: u64, owner: &str, score: &str) -> Operation {
    let id = id.to_string();
    let set = [("id", &*id), ("text", "x"), ("done", "f"), ("owner", owner), ("score", score)];
    Operation::Insert(cells(&set))
}

fn update(id: u64, set: &[(&str, &str)]) -> Operation {
    Operation::Update { id: id.to_string(), set: cells(set) }
}

async fn start(sys: &Sys) -> (Fixture, Db, Collection<Todo>) {
    let fixture = Fixture::start(sys).await.unwrap();
    for id in 0..30 {
        let owner = OWNERS[usize::try_from(id % 3).unwrap()];
        fixture.transact(vec![insert(id, owner, &format!("{id}.5"))]);
    }
    let soon = Duration::from_millis(1);
    let retry = Retry { attempts_max: 100, pause_min: soon, pause_max: soon };
    let shape = Shape::<Todo>::builder(sys, &fixture.url()).table("todos").retry(retry);
    let db = Db::new(sys);
    let shape = shape.loading(Loading::OnDemand).build().unwrap();
    let todos = db.collection::<Todo>(shape).unwrap();
    (fixture, db, todos)
}

fn of(owner: &str) -> live::Find<Todo> {
    live::from::<Todo>().filter(Todo::owner.eq(owner))
}

fn ids(query: &LiveQuery<Todo>) -> Vec<i64> {
    let mut ids: Vec<_> = query.rows().iter().map(|row| row.id).collect();
    ids.sort_unstable();
    ids
}

async fn shows(query: &LiveQuery<Todo>, wanted: &[i64]) {
    let mut changes = query.changes().unwrap();
    while ids(query) != wanted {
        changes.next().await;
    }
}

#[tokio::test]
async fn a_query_brings_its_rows_and_follows_them() {
    let sys = Sys::real();
    let (fixture, db, todos) = start(&sys).await;
    todos.ready().await.unwrap();
    assert!(todos.is_empty());
    let hers = db.live(of("ada")).unwrap();
    hers.ready().await.unwrap();
    assert_eq!((hers.len(), todos.len()), (10, 10));
    // One leaves, one enters with an update, one is new, one is nobody's business.
    fixture.transact(vec![update(0, &[("owner", "bob")]), update(1, &[("owner", "ada")])]);
    fixture.transact(vec![insert(100, "ada", "1"), insert(101, "eve", "1")]);
    shows(&hers, &[1, 3, 6, 9, 12, 15, 18, 21, 24, 27, 100]).await;
    assert_eq!(todos.len(), 11);
    fixture.transact(vec![Operation::Delete("3".into()), update(6, &[("text", "y")])]);
    shows(&hers, &[1, 6, 9, 12, 15, 18, 21, 24, 27, 100]).await;
}

#[tokio::test]
async fn a_window_is_read_as_one_and_unloaded_with_its_query() {
    let sys = Sys::real();
    let (_fixture, db, todos) = start(&sys).await;
    let best = live::from::<Todo>().order_by(Todo::score.desc()).limit(3);
    let best = db.live(best).unwrap();
    best.ready().await.unwrap();
    assert_eq!((ids(&best), todos.len()), (vec![27, 28, 29], 3));
    let hers = db.live(of("ada")).unwrap();
    hers.ready().await.unwrap();
    assert_eq!(todos.len(), 12);
    drop(best);
    while todos.len() > 10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(hers.len(), 10);
    // What SQL cannot say is asked for without it, and what is not wanted is not kept.
    let odd = live::from::<Todo>().filter(Todo::owner.gt("bob")).filter(Todo::id.lt(9));
    let odd = db.live(odd).unwrap();
    odd.ready().await.unwrap();
    assert_eq!((ids(&odd), todos.len()), (vec![2, 5, 8], 13));
}

#[tokio::test]
async fn a_log_that_is_given_up_is_read_again_for_those_who_look() {
    let sys = Sys::real();
    let (fixture, db, _todos) = start(&sys).await;
    let (hers, his) = (db.live(of("ada")).unwrap(), db.live(of("bob")).unwrap());
    hers.ready().await.unwrap();
    his.ready().await.unwrap();
    let mut changes = hers.changes().unwrap();
    let mut least = hers.len();
    fixture.rotate();
    fixture.transact(vec![insert(200, "ada", "1"), insert(201, "bob", "1")]);
    while !ids(&hers).contains(&200) {
        changes.next().await;
        least = least.min(hers.len());
    }
    shows(&his, &[1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 201]).await;
    assert_eq!((least, hers.len()), (10, 11));
}

#[tokio::test]
async fn a_subset_that_is_refused_says_why_and_the_others_go_on() {
    let sys = Sys::real();
    let (fixture, db, _todos) = start(&sys).await;
    let hers = db.live(of("ada")).unwrap();
    hers.ready().await.unwrap();
    fixture.refuse_subsets("not today");
    let refused = db.once_ready(of("eve")).await.unwrap_err().to_string();
    assert!(refused.contains("400") && refused.contains("not today"), "{refused}");
    fixture.transact(vec![insert(300, "ada", "1")]);
    shows(&hers, &[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 300]).await;
}

/// Queries come and go while rows change and logs are given up.
async fn storm(seed: u64) {
    let chance = Chance::seeded(seed);
    let owner = |chance: &Chance| OWNERS[usize::try_from(chance.below(3)).unwrap()];
    let sys = Sys::real();
    let (fixture, db, _todos) = start(&sys).await;
    let mut queries: Vec<(&str, LiveQuery<Todo>)> = Vec::new();
    for step in 0..60 {
        let id = chance.below(40);
        match chance.below(10) {
            0 if chance.below(3) == 0 => fixture.rotate(),
            0 | 1 => {
                let owner = owner(&chance);
                queries.push((owner, db.live(of(owner)).unwrap()));
            }
            2 if !queries.is_empty() => drop(queries.remove(0)),
            3 => drop(fixture.transact(vec![Operation::Delete(id.to_string())])),
            4..=6 => drop(fixture.transact(vec![update(id, &[("owner", owner(&chance))])])),
            _ => drop(fixture.transact(vec![insert(id, owner(&chance), &format!("{step}.5"))])),
        }
        if chance.below(3) == 0 {
            tokio::task::yield_now().await;
        }
    }
    for (owner, query) in &queries {
        query.ready().await.unwrap();
        let rows = fixture.table().rows().into_iter();
        let own = rows.filter(|row| row["owner"].as_deref() == Some(*owner));
        let mut wanted: Vec<i64> =
            own.map(|row| row["id"].clone().unwrap().parse().unwrap()).collect();
        wanted.sort_unstable();
        shows(query, &wanted).await;
    }
}

#[tokio::test]
async fn storms_end_with_the_rows_that_are_wanted() {
    for seed in 0..60 {
        let ended = Sys::real().clock.timeout(Duration::from_secs(60), storm(seed)).await;
        assert!(ended.is_ok(), "seed {seed}: it does not end");
    }
}
