//! What live queries may remember, and what happens to one that remembers more.

use query::{
    CollectionId, Database, Meta, Published, Query, QueryError, Schema, Tick, Write,
    caps::{JOIN_ROWS_MAX, QUERY_BYTES_MAX},
};

struct World {
    db: Database,
    rows: CollectionId,
    more: CollectionId,
}

impl World {
    fn new() -> Self {
        let mut db = Database::new();
        let rows = db.collection("rows", Schema::open("id")).unwrap();
        let more = db.collection("more", Schema::open("id")).unwrap();
        Self { db, rows, more }
    }

    /// Rows of these numbers, each with a text of its own and one of ten groups.
    fn put(&mut self, collection: CollectionId, numbers: std::ops::Range<usize>) -> Published {
        let write = |n: usize| {
            let json = format!(r#"{{"id":{n},"text":"{n:0>100}","part":{},"all":1}}"#, n % 10);
            (collection, Write::Put(self.db.record(collection, &json).unwrap(), Meta::default()))
        };
        let writes = numbers.map(write).collect();
        self.db.apply(Tick { writes, retires: vec![] }).unwrap()
    }
}

fn query(json: &str) -> Query {
    Query::from_json(json).unwrap()
}

fn of_rows(clauses: &str) -> Query {
    query(&format!(r#"{{"from":{{"col":"rows","as":"r"}}{clauses}}}"#))
}

const TEXT: &str = r#""select":{"text":{"fn":"upper","args":[{"ref":["r","text"]}]}}"#;

#[test]
fn a_footprint_is_near_what_rows_take() {
    let mut world = World::new();
    world.put(world.rows, 0..1_000);
    world.put(world.more, 0..1_000);
    let collect = r#"{"agg":"collect","args":[{"ref":["r","text"]}]}"#;
    let include = r#"{"include":{"from":{"col":"more","as":"m"},"where":[{"fn":"eq","args":[
        {"ref":["m","id"]},{"ref":["r","id"]}]}],"select":{"t":{"ref":["m","text"]}}}}"#;
    let join = r#","join":[{"type":"inner","col":"more","as":"m",
        "on":[[{"ref":["r","id"]},{"ref":["m","id"]}]]}]"#;
    // Bytes for each of 1,000 rows: at least, at most. A text of 100 is one of at least 116.
    for (clauses, least, most) in [
        (String::new(), 24, 100),
        (format!(",{TEXT}"), 200, 500),
        (format!(r#",{TEXT},"distinct":true"#), 200, 1_000),
        (
            format!(r#",{TEXT},"orderBy":[{{"expr":{{"ref":["r","text"]}}}}],"limit":2000"#),
            400,
            1_400,
        ),
        (
            r#","groupBy":[{"ref":["r","text"]}],"select":{"t":{"ref":["r","text"]}}"#.into(),
            400,
            1_400,
        ),
        (format!(r#","groupBy":[{{"ref":["r","part"]}}],"select":{{"all":{collect}}}"#), 116, 800),
        (format!(r#","select":{{"id":{{"ref":["r","id"]}},"more":{include}}}"#), 300, 1_400),
        (format!(r#"{join},"select":{{"a":{{"ref":["r","all"]}}}}"#), 250, 1_000),
    ] {
        let live = world.db.live(&of_rows(&clauses)).unwrap();
        let footprint = world.db.footprint(live);
        let each = footprint.bytes / 1_000;
        assert!((least..=most).contains(&each), "{each} bytes a row for {clauses}");
        assert!(footprint.bytes >= footprint.result_bytes);
        assert_eq!(footprint.bytes_max, QUERY_BYTES_MAX);
    }
}

#[test]
fn a_query_that_outgrows_its_bound_is_stopped_and_all_others_go_on() {
    let mut world = World::new();
    world.db.bound_queries(100_000);
    let texts = of_rows(&format!(",{TEXT}"));
    let large = world.db.live(&texts).unwrap();
    let (watched, _) = world.db.watch(&texts).unwrap();
    let small = world
        .db
        .live(&of_rows(r#","where":[{"fn":"lt","args":[{"ref":["r","id"]},{"val":5}]}]"#))
        .unwrap();
    let mut stopped = Vec::new();
    for n in 0..2_000 {
        let published = world.put(world.rows, n..n + 1);
        let is_told = |id| published.queries.iter().any(|(query, _)| *query == id);
        assert!(is_told(watched) && is_told(small) == (n < 5));
        assert_eq!(is_told(large), stopped.is_empty() && published.stopped.is_empty());
        stopped.extend(published.stopped);
        // It may hold twice its bound before it is weighed, and no more.
        assert!(world.db.footprint(large).bytes <= 200_000);
    }
    let [(id, error)] = &stopped[..] else { panic!("{stopped:?}") };
    assert_eq!((*id, world.db.failure(large)), (large, Some(error)));
    let QueryError::Outgrown { query, bytes, bytes_max: 100_000 } = error else {
        panic!("{error}")
    };
    assert!(*bytes > 100_000 && query.contains("upper"), "{error}");
    assert_eq!((world.db.result_len(large), world.db.footprint(large).bytes), (0, 0));
    assert!(world.db.result(large).next().is_none() && world.db.explain(large).is_empty());
    assert_eq!((world.db.result_len(small), world.db.failure(small)), (5, None));
    // What asks for as much again is refused at once, and nothing stays of either.
    assert!(matches!(world.db.live(&texts), Err(QueryError::Outgrown { .. })));
    world.db.drop_query(large);
    assert_eq!(world.db.failure(large), None);
    world.db.bound_queries(usize::MAX);
    let again = world.db.live(&texts).unwrap();
    assert_eq!(world.db.result_len(again), 2_000);
}

#[test]
fn a_join_of_all_with_all_is_refused_before_it_fills_the_memory() {
    let mut world = World::new();
    let side = 1 + JOIN_ROWS_MAX.isqrt();
    let all = of_rows(
        r#","join":[{"type":"inner","col":"more","as":"m",
        "on":[[{"ref":["r","all"]},{"ref":["m","all"]}]]}],
        "groupBy":[{"ref":["r","all"]}],"select":{"n":{"agg":"count","args":[]}}"#,
    );
    let live = world.db.live(&all).unwrap();
    world.put(world.rows, 0..side);
    let published = world.put(world.more, 0..side + 1);
    let [(id, error)] = &published.stopped[..] else { panic!("{:?}", published.stopped) };
    assert!(*id == live && matches!(error, QueryError::JoinTooLarge { .. }), "{error}");
    assert_eq!(world.db.failure(live), Some(error));
    assert!(published.queries.is_empty());
    for refused in [world.db.live(&all).unwrap_err(), world.db.once(&all).unwrap_err()] {
        assert!(refused.to_string().contains("more"), "{refused}");
        assert!(matches!(refused, QueryError::JoinTooLarge { .. }), "{refused}");
    }
}
