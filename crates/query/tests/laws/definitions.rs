//! Queries with a name: they are what would be there in their place, and never need themselves.

use proptest::prelude::*;
use query::{Database, Dynamic, Query, QueryError, Rows, Schema, Source, Tick, Write, from_as};

use crate::{
    choices::{Choices, check, choices},
    generate,
    world::{Step, World, steps},
};

proptest! {
    #![proptest_config(crate::laws::cases())]

    /// A query over names has the rows of the query that has everything in place.
    #[test]
    fn a_name_is_the_query_it_stands_for(c in choices(1_200)) {
        check(|| a_name_is_the_query_it_stands_for_in(c))?;
    }
}

fn a_name_is_the_query_it_stands_for_in(mut c: Choices) {
    let mut world = World::new();
    let query = generate::query(&mut c);
    let mut named = query.clone();
    let mut definitions = Vec::new();
    name_sources(&mut named, &mut definitions);
    world.db.define_all(definitions).unwrap();
    world.db.define("all", &named).unwrap();
    let whole = Query::of(Source { rows: Rows::Collection("all".into()), alias: "a".into() });
    let whole = Query { view: query.view, ..whole };
    let _ = world.take(&Step::Tick { writes: generate::rows(&mut c), retires: vec![] });
    let ids = [world.db.live(&named).unwrap(), world.db.live(&whole).unwrap()];
    for step in steps(&mut c, 6) {
        let _ = world.take(&step);
        world.check_live(ids[0], &query);
        let sorted = |mut facts: Vec<crate::model::Fact>| {
            facts.sort_by(|a, b| a.key.cmp(&b.key));
            facts
        };
        assert_eq!(world.result(ids[1]), sorted(world.result(ids[0])));
    }
}

/// Takes every sub-query out and leaves a name in its place.
fn name_sources(query: &mut Query, definitions: &mut Vec<(String, Query)>) {
    let joins = query.joins.iter_mut().map(|join| &mut join.source);
    for source in std::iter::once(&mut query.from).chain(joins) {
        match &mut source.rows {
            Rows::Collection(_) => {}
            Rows::Union(branches) => {
                branches.iter_mut().for_each(|branch| name_sources(branch, definitions));
            }
            Rows::Query(inner) => {
                name_sources(inner, definitions);
                let name = format!("named {}", definitions.len());
                definitions.push((name.clone(), (**inner).clone()));
                source.rows = Rows::Collection(name.into());
            }
        }
    }
}

fn database() -> Database {
    let mut db = Database::new();
    db.collection("tasks", Schema::open("id")).unwrap();
    db
}

fn of(name: &str) -> Query {
    Query::of(Source { rows: Rows::Collection(name.into()), alias: "s".into() })
}

/// All are refused with this path, and none is defined.
#[track_caller]
fn check_cycle(definitions: &[(&str, &str)], path: &str) {
    let mut db = database();
    db.define("good", &of("tasks")).unwrap();
    let queries = definitions.iter().map(|(name, json)| (name, Query::from_json(json).unwrap()));
    let refused = db.define_all(queries).unwrap_err();
    assert!(
        matches!(&refused, QueryError::Cycle { cycle } if cycle.join(" → ") == path),
        "{refused}"
    );
    assert!(refused.to_string().starts_with(path), "{refused}");
    for (name, _) in definitions {
        assert_eq!(db.definition(name), None);
        assert!(db.once(&of(name)).is_err());
    }
    assert_eq!(db.once(&of("good")).unwrap(), []);
}

#[test]
fn queries_that_need_themselves() {
    check_cycle(&[("a", r#"{"from":{"col":"a","as":"x"}}"#)], "a → a");
    check_cycle(
        &[
            ("a", r#"{"from":{"col":"b","as":"x"}}"#),
            (
                "b",
                r#"{"from":{"col":"good","as":"g"},"join":[{"type":"left","col":"c","as":"x",
                "on":[[{"ref":["g","id"]},{"ref":["x","id"]}]]}]}"#,
            ),
            (
                "c",
                r#"{"from":{"union":[{"from":{"col":"tasks","as":"t"}},
                {"from":{"query":{"from":{"col":"a","as":"y"}},"as":"z"}}],"as":"x"}}"#,
            ),
        ],
        "a → b → c → a",
    );
    // Whoever only leads to them is not among them.
    check_cycle(
        &[
            ("first", r#"{"from":{"col":"a","as":"x"}}"#),
            (
                "a",
                r#"{"from":{"col":"tasks","as":"t"},"select":{"x":{"include":
                {"from":{"query":{"from":{"col":"b","as":"b"}},"as":"k"},
                 "where":[{"fn":"eq","args":[{"ref":["k","id"]},{"ref":["t","id"]}]}]}}}}"#,
            ),
            ("b", r#"{"from":{"col":"a","as":"x"}}"#),
        ],
        "a → b → a",
    );
}

#[test]
fn names_that_are_taken_unknown_or_needed() {
    let mut db = database();
    let told = |outcome: Result<(), QueryError>| outcome.unwrap_err().to_string();
    db.define_all([("b", of("a")), ("a", of("tasks"))]).unwrap();
    assert!(told(db.define("a", &of("tasks"))).contains(r#""a" already"#));
    assert!(told(db.define("tasks", &of("a"))).contains(r#""tasks" already"#));
    assert!(told(db.define_all([("c", of("a")), ("c", of("b"))])).contains(r#""c" already"#));
    assert_eq!(db.definition("c"), None);
    let unknown = told(db.define("c", &of("bb")));
    assert!(unknown.contains(r#""bb""#) && unknown.contains("tasks, a, b"), "{unknown}");
    assert_eq!(db.definition("c"), None);
    assert!(db.collection("a", Schema::open("id")).is_err());
    assert!(told(db.undefine("a")).contains("source of b"));
    assert!(told(db.undefine("x")).contains(r#""x""#));
    db.undefine("b").unwrap();
    db.undefine("a").unwrap();
    db.define("a", &of("tasks")).unwrap();
}

#[test]
fn names_nest_as_deep_as_queries() {
    let mut db = database();
    let mut below = "tasks".to_owned();
    for depth in 0..query::caps::DEPTH_MAX {
        let name = format!("q{depth}");
        db.define(&name, &of(&below)).unwrap();
        below = name;
    }
    assert_eq!(db.define("beyond", &of(&below)), Err(QueryError::TooDeep));
    for number in query::caps::DEPTH_MAX..query::caps::DEFINITIONS_MAX {
        db.define(&format!("q{number}"), &of("tasks")).unwrap();
    }
    assert_eq!(db.define("beyond", &of("tasks")), Err(QueryError::TooManyDefinitions));
}

#[test]
fn a_running_query_outlives_its_names() {
    let mut db = database();
    db.define("a", &of("tasks")).unwrap();
    let built = from_as::<Dynamic>("a", "x");
    let live = db.live(built.query()).unwrap();
    assert!(db.explain(live).contains("query a"));
    db.undefine("a").unwrap();
    let tasks = db.find("tasks").unwrap();
    let row = db.record(tasks, r#"{"id":1}"#).unwrap();
    let writes = vec![(tasks, Write::Put(row, Default::default()))];
    db.apply(Tick { writes, retires: vec![] }).unwrap();
    assert_eq!(db.result_len(live), 1);
}
