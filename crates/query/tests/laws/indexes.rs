//! Indexes change nothing but the time: collections that are large enough to get some, asked again
//! and again, against the evaluator that reads everything.

use proptest::prelude::*;
use query::{
    Database, Expr, Meta, Order, Query, QueryId, Rows, Schema, Source, Tick, Value, View, Write,
    caps,
};

use crate::{
    choices::{Choices, check, choices},
    model::{Local, Row, Synced},
    naive,
    world::{Folded, Step, World, changes_of, check_folded, fold},
};

/// Rows of `users`, more than an index needs.
const ROWS: usize = 3 * caps::INDEX_ROWS_MIN / 2;

/// Few have the same value in `a`, many in `b`, and `s` has more than texts. One choice for all:
/// there are many rows.
fn row(c: &mut Choices, id: usize) -> Row {
    let chance = c.below(1 << 24);
    let a = match chance % 10 {
        0 => Value::Missing,
        1 => Value::Null,
        _ => Value::number((chance / 10 % 400) as f64 / 2.0),
    };
    let b = match chance / 4_000 % 6 {
        0 => Value::Null,
        1 => true.into(),
        number => Value::number(number as f64 / 2.0),
    };
    let s = match chance / 24_000 % 12 {
        0 => Value::number(0.5),
        1 => Value::list([1.into()]),
        _ => text(chance / 288_000),
    };
    let row = [("id", Value::from(id)), ("a", a), ("b", b), ("s", s)];
    let is_there = |(_, value): &(_, Value)| !matches!(value, Value::Missing);
    row.into_iter().filter(is_there).map(|(name, value)| (name.into(), value)).collect()
}

fn text(chance: usize) -> Value {
    let letters = ["", "a", "ab", "abc", "b", "é", "\u{10ffff}"];
    format!("{}{}", letters[chance % 7], letters[chance / 7 % 7]).into()
}

fn column(c: &mut Choices) -> Expr {
    Expr::path(["u", c.pick(&["a", "a", "b", "s", "id", "$key"])])
}

fn constant(c: &mut Choices, column: &Expr) -> Expr {
    let Expr::Ref(path) = column else { return Expr::val(1) };
    Expr::Val(match path[1].as_str() {
        _ if c.chance(1, 20) => Value::Null,
        "a" => Value::number(c.below(400) as f64 / 2.0),
        "b" => c.pick(&[1.into(), Value::number(1.5), 2.into(), Value::number(2.5), true.into()]),
        "s" => text(c.below(49)),
        _ => c.below(ROWS).into(),
    })
}

/// Filters of which each can be looked up, and some that cannot.
fn filter(c: &mut Choices) -> Expr {
    let column = column(c);
    let value = constant(c, &column);
    let compare = |c: &mut Choices| c.pick(&["gt", "gte", "lt", "lte"]);
    match c.below(12) {
        0..3 => Expr::call("eq", [column, value]),
        3 => Expr::call(compare(c), [column, value]),
        4 => Expr::call(compare(c), [value, column]),
        5 => {
            let (from, to) = (c.pick(&["gt", "gte"]), c.pick(&["lt", "lte"]));
            let other = constant(c, &column);
            let from = Expr::call(from, [column.clone(), value]);
            Expr::call("and", [from, Expr::call(to, [column, other])])
        }
        6 => {
            let prefix = text(c.below(49)).as_text().unwrap().into_owned();
            let pattern = format!("{prefix}{}", c.pick(&["%", "", "_", "%b"]));
            Expr::call("like", [Expr::path(["u", "s"]), Expr::val(pattern)])
        }
        7 => Expr::call("startsWith", [Expr::path(["u", "s"]), text(c.below(49)).into()]),
        8 => {
            let list: Vec<_> = (0..c.below(4)).map(|_| Value::from(c.below(4))).collect();
            Expr::call("in", [column, Expr::Val(Value::list(list))])
        }
        9 => Expr::call("eq", [Expr::path(["u", "$origin"]), Expr::val("local")]),
        10 => {
            let truth = c.chance(1, 2);
            Expr::call("eq", [Expr::path(["u", "$synced"]), Expr::val(truth)])
        }
        _ => {
            let name = c.pick(&["users", "users", "posts"]);
            Expr::call("eq", [Expr::path(["u", "$collection"]), Expr::val(name)])
        }
    }
}

fn query(c: &mut Choices) -> Query {
    let source = Source { rows: Rows::Collection("users".into()), alias: "u".into() };
    let filters = c.pick(&[0, 1, 1, 1, 2]);
    let mut query =
        Query { filters: (0..filters).map(|_| filter(c)).collect(), ..Query::of(source) };
    let orders = c.pick(&[0, 1, 1, 1, 2]);
    query.order_by = (0..orders)
        .map(|_| Order {
            expr: column(c),
            is_descending: c.chance(1, 2),
            is_nulls_last: c.chance(1, 2),
            folds_case: c.chance(1, 8),
        })
        .collect();
    if orders > 0 && c.chance(3, 4) {
        query.limit = Some(c.pick(&[1, 3, 10, 0, 30, 150]));
        query.offset = c.pick(&[0, 0, 0, 2, 20]);
    }
    query.view = if c.chance(1, 4) { View::Synced } else { View::Visible };
    query
}

/// Some rows or very many: windows run dry, and are flooded.
fn step(c: &mut Choices, begun: u64) -> Step {
    let any = |c: &mut Choices| c.below(ROWS + 20);
    match c.below(8) {
        0..3 => {
            let put = |c: &mut Choices| {
                let id = any(c);
                (0, Synced::Put(row(c, id)))
            };
            let count = c.pick(&[1, 1, 5, 60]);
            Step::Tick { writes: (0..count).map(|_| put(c)).collect(), retires: vec![] }
        }
        3 | 4 => {
            let (from, count) = (any(c), c.pick(&[1, 5, 80, 200]));
            let keys = (from..from + count).map(|key| (0, Synced::Delete(key.into())));
            Step::Tick { writes: keys.collect(), retires: vec![] }
        }
        5 => Step::End(1 + c.below(begun as usize) as u64),
        _ => {
            let id = any(c);
            let write = match c.below(3) {
                0 => Local::Delete(id.into()),
                1 => Local::Insert(row(c, id)),
                _ => Local::Update(id.into(), Row::from([("a".into(), c.below(200).into())])),
            };
            Step::Mutate(1 + c.below(begun as usize) as u64, vec![(0, write)])
        }
    }
}

/// Deletes the first rows of a window one after the other, until it must read the next ones.
fn behead(c: &mut Choices, world: &World, query: &Query) -> Step {
    let all = Query { limit: None, offset: 0, view: View::Synced, ..query.clone() };
    let rows = naive::answer(&all, &world.model);
    let spare = query.limit.unwrap_or(0).max(caps::WINDOW_SPARE_MIN);
    let count = c.pick(&[1, 2, spare - 1, spare, spare + 1]);
    let keys = rows.into_iter().take(count).map(|fact| (0, Synced::Delete(fact.key)));
    Step::Tick { writes: keys.collect(), retires: vec![] }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        max_shrink_iters: 300,
        ..crate::laws::cases()
    })]

    /// What is read by an index is what is read without one, once and live, whatever happens.
    #[test]
    fn an_index_changes_nothing(c in choices(1_600)) {
        check(|| an_index_changes_nothing_in(c))?;
    }
}

fn an_index_changes_nothing_in(mut c: Choices) {
    let c = &mut c;
    let mut world = World::new();
    let writes = (0..ROWS).map(|id| (0, Synced::Put(row(c, id)))).collect();
    let _ = world.take(&Step::Tick { writes, retires: vec![] });
    (0..3).for_each(|_| drop(world.take(&Step::Begin)));
    let queries: Vec<_> = (0..4).map(|_| query(c)).collect();
    let mut running: Vec<(usize, QueryId, Folded)> = Vec::new();
    for _ in 0..12 {
        let at = c.below(queries.len());
        let id = world.db.live(&queries[at]).unwrap();
        let rows = world.db.result(id).map(|row| (row.key.clone(), row.clone())).collect();
        running.push((at, id, rows));
        for _ in 0..c.pick(&[1, 2, caps::INDEX_ORDERS_MIN]) {
            world.db.once(&queries[at]).unwrap();
        }
        world.check_once(&queries[at]);
        let step = match c.below(3) {
            0 => step(c, 3),
            _ => behead(c, &world, &queries[at]),
        };
        if let Ok(published) = world.take(&step) {
            for (_, id, folded) in &mut running {
                fold(folded, changes_of(&published, *id));
                check_folded(folded, &world.db, *id);
            }
        }
        running.iter().for_each(|(at, id, _)| world.check_live(*id, &queries[*at]));
        if c.chance(1, 4) {
            let (_, id, _) = running.remove(c.below(running.len()));
            world.db.drop_query(id);
        }
    }
}

/// A collection of jobs `0..rows`; `n` counts down, `room` is one of ten.
fn jobs(rows: usize) -> Database {
    let mut db = Database::new();
    db.collection("jobs", Schema::open("id")).unwrap();
    (0..rows).for_each(|id| put(&mut db, id, rows - id));
    db
}

fn put(db: &mut Database, id: usize, n: usize) {
    let jobs = db.find("jobs").unwrap();
    let json = format!(r#"{{"id":{id},"n":{n},"room":{},"s":"job {n:05}"}}"#, id % 10);
    let record = db.record(jobs, &json).unwrap();
    let meta = Meta { position: Some(id as u64), ..Meta::default() };
    db.apply(Tick { writes: vec![(jobs, Write::Put(record, meta))], retires: vec![] }).unwrap();
}

fn parsed(clauses: &str) -> Query {
    Query::from_json(&format!(r#"{{"from":{{"col":"jobs","as":"j"}}{clauses}}}"#)).unwrap()
}

fn ids(rows: &[std::sync::Arc<query::Entry>]) -> Vec<i64> {
    rows.iter().map(|row| row.key.as_int().unwrap()).collect()
}

#[test]
fn a_window_holds_what_it_needs_and_shares_the_rest() {
    let mut db = jobs(5_000);
    let all = parsed(r#","orderBy":[{"expr":{"ref":["j","n"]},"dir":"desc"}],"limit":10"#);
    let of_room = |room: usize| {
        parsed(&format!(
            r#","where":[{{"fn":"eq","args":[{{"ref":["j","room"]}},{{"val":{room}}}]}}],
            "orderBy":[{{"expr":{{"ref":["j","n"]}}}}],"limit":10"#
        ))
    };
    let jobs = db.find("jobs").unwrap();
    let all = db.live(&all).unwrap();
    assert!(db.explain(all).contains("jobs is read by its index ordered by n\n"));
    assert_eq!(db.footprint(all).index_rows, 5_000);
    let rooms: Vec<_> = (0..10).map(|room| db.live(&of_room(room)).unwrap()).collect();
    assert!(db.explain(rooms[0]).contains("index ordered by n within room"));
    for id in rooms.iter().chain([&all]) {
        let held = db.footprint(*id).rows;
        assert!((10..=10 + 2 * caps::WINDOW_SPARE_MIN).contains(&held), "{held}");
    }
    // They run dry again and again, and are filled each time.
    for id in 0..4_000 {
        let writes = vec![(jobs, Write::Delete(id.into()))];
        db.apply(Tick { writes, retires: vec![] }).unwrap();
        assert_eq!(db.result(all).next().unwrap().key.as_int(), Some(id + 1));
        assert!(rooms.iter().chain([&all]).all(|id| db.result_len(*id) == 10));
    }
    let last: Vec<_> = db.result(rooms[3]).cloned().collect();
    assert_eq!(ids(&last), (0..10).map(|n| 4_993 - 10 * n).collect::<Vec<_>>());
    assert_eq!(db.indexes(jobs).len(), 2);
    rooms.into_iter().for_each(|id| db.drop_query(id));
    db.drop_query(all);
    // Nobody reads them any more, and keeping them has cost more than they are worth.
    for round in 0..3 {
        (4_000..5_000).for_each(|id| put(&mut db, id, round + id));
    }
    assert_eq!(db.indexes(jobs), Vec::<String>::new());
}

#[test]
fn an_index_is_made_when_it_is_missed_again() {
    let mut db = jobs(1_000);
    let range = |column: &str, args: &str| {
        parsed(&format!(r#","where":[{{"fn":"{column}","args":[{args}]}}]"#))
    };
    let jobs = db.find("jobs").unwrap();
    for (query, expected, index) in [
        (range("lte", r#"{"ref":["j","n"]},{"val":3}"#), vec![997, 998, 999], "ordered by n"),
        (
            range("like", r#"{"ref":["j","s"]},{"val":"job 0000%"}"#),
            (991..1_000).collect(),
            "ordered by s",
        ),
        (range("lt", r#"{"ref":["j","$position"]},{"val":2}"#), vec![0, 1], "ordered by $position"),
        (range("eq", r#"{"ref":["j","$position"]},{"val":7}"#), vec![7], "ordered by $position"),
    ] {
        for _ in 0..=caps::INDEX_ORDERS_MIN {
            let mut found = ids(&db.once(&query).unwrap());
            found.sort_unstable();
            assert_eq!(found, expected);
        }
        assert!(db.indexes(jobs).iter().any(|own| own.contains(index)), "{index}");
        let live = db.live(&query).unwrap();
        assert!(db.explain(live).contains(&format!("jobs is read by its index {index}")));
    }
    // Rows are in the order of their keys already.
    let before = db.indexes(jobs);
    for _ in 0..3 {
        assert_eq!(
            ids(&db.once(&range("gte", r#"{"ref":["j","id"]},{"val":998}"#)).unwrap()),
            [998, 999]
        );
        assert_eq!(ids(&db.once(&range("eq", r#"{"val":5},{"ref":["j","$key"]}"#)).unwrap()), [5]);
    }
    assert_eq!(db.indexes(jobs), before);
}

#[test]
fn a_small_collection_has_no_index() {
    let mut db = jobs(caps::INDEX_ROWS_MIN - 1);
    let window = parsed(r#","orderBy":[{"expr":{"ref":["j","n"]}}],"limit":3"#);
    let live = db.live(&window).unwrap();
    assert!(!db.explain(live).contains("index"));
    assert_eq!(db.footprint(live).index_rows, 0);
    assert_eq!(db.result_len(live), 3);
}

#[test]
fn who_looks_between_values_is_told_of_rows_between_them() {
    let mut db = jobs(0);
    let between = |from: usize| {
        parsed(&format!(
            r#","where":[{{"fn":"gte","args":[{{"ref":["j","n"]}},{{"val":{from}}}]}},
            {{"fn":"lt","args":[{{"ref":["j","n"]}},{{"val":{}}}]}}]"#,
            from + 10
        ))
    };
    let watched: Vec<_> = (0..100).map(|n| db.watch(&between(10 * n)).unwrap().0).collect();
    assert!(db.explain(watched[0]).contains("told by n, between two values"));
    let never =
        parsed(r#","where":[{"fn":"eq","args":[{"ref":["j","$collection"]},{"val":"others"}]}]"#);
    let never = db.live(&never).unwrap();
    let jobs = db.find("jobs").unwrap();
    let record = db.record(jobs, r#"{"id":1,"n":555}"#).unwrap();
    let writes = vec![(jobs, Write::Put(record, Meta::default()))];
    let told = db.apply(Tick { writes, retires: vec![] }).unwrap().queries;
    assert_eq!(told.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [watched[55]]);
    assert_eq!(db.result_len(never), 0);
    watched.into_iter().for_each(|id| db.drop_query(id));
    let writes = vec![(jobs, Write::Delete(1.into()))];
    assert_eq!(db.apply(Tick { writes, retires: vec![] }).unwrap().queries, []);
}
