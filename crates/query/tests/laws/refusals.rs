//! What is refused, and what is said: the name of what is wrong, and what to do.

use query::{
    ColumnDef, Database, Expr, Kind, Meta, Mutation, MutationKind, Query, Rows, Schema, Source,
    Tick, Value, View, Write, WriteError,
};

/// `notes` is open; `tasks` has declared columns.
fn database() -> Database {
    let mut db = Database::new();
    let column =
        |name: &str, kind, is_required| ColumnDef { kind, is_required, ..ColumnDef::any(name) };
    let columns = [
        column("id", Kind::Text, true),
        column("title", Kind::Text, true),
        column("rank", Kind::Number, false),
        column("done", Kind::Bool, false),
        column("tags", Kind::List, false),
    ];
    db.collection("tasks", Schema::declared("id", columns)).unwrap();
    db.collection("notes", Schema::open("id")).unwrap();
    write(&mut db, "tasks", r#"{"id":"t1","title":"one","rank":1}"#).unwrap();
    write(&mut db, "notes", r#"{"id":"n1","task":"t1"}"#).unwrap();
    db
}

fn write(db: &mut Database, name: &str, json: &str) -> Result<(), WriteError> {
    let collection = db.find(name).unwrap();
    let record = db.record(collection, json)?;
    let writes = vec![(collection, Write::Put(record, Meta::default()))];
    db.apply(Tick { writes, retires: vec![] }).map(drop)
}

/// Everything that can be seen of a database.
fn seen(db: &Database) -> String {
    let rows = |name| {
        let collection = db.find(name).unwrap();
        let views = [View::Visible, View::Synced];
        views.map(|view| db.rows(collection, view).cloned().collect::<Vec<_>>())
    };
    format!("{:?} {:?}", rows("tasks"), rows("notes"))
}

/// A query over `tasks t` with other clauses.
fn tasks(clauses: &str) -> String {
    format!(r#"{{"from":{{"col":"tasks","as":"t"}}{clauses}}}"#)
}

/// The query is refused by all ways to ask it, and the message has all these parts.
#[track_caller]
fn check_query(query: &Query, parts: &[&str]) {
    let mut db = database();
    let before = seen(&db);
    let refused = db.live(query).expect_err(&format!("{} is fine", query.to_json()));
    let told = refused.to_string();
    for part in parts {
        assert!(told.contains(part), "{} says {told:?}, not {part:?}", query.to_json());
    }
    assert_eq!(db.once(query).unwrap_err(), refused);
    assert_eq!(db.watch(query).unwrap_err(), refused);
    assert_eq!(seen(&db), before);
    // Nobody listens who was never let in.
    let collection = db.find("tasks").unwrap();
    let record = db.record(collection, r#"{"id":"t2","title":"two"}"#).unwrap();
    let writes = vec![(collection, Write::Put(record, Meta::default()))];
    assert_eq!(db.apply(Tick { writes, retires: vec![] }).unwrap().queries, []);
}

#[track_caller]
fn check(query: &str, parts: &[&str]) {
    check_query(&Query::from_json(query).unwrap_or_else(|why| panic!("{why}: {query}")), parts);
}

#[test]
fn names_that_mean_nothing() {
    check(
        r#"{"from":{"col":"task","as":"t"}}"#,
        &[r#""task" (did you mean "tasks"?)"#, "tasks, notes"],
    );
    check(
        &tasks(r#","where":[{"fn":"eq","args":[{"ref":["t","titel"]},{"val":"x"}]}]"#),
        &[r#""t", collection "tasks""#, r#""titel" (did you mean "title"?)"#, "rank"],
    );
    check(&tasks(r#","orderBy":[{"expr":{"ref":["x","title"]}}]"#), &[r#""x""#]);
    let joined = r#","join":[{"type":"inner","col":"notes","as":"n",
        "on":[[{"ref":["t","id"]},{"ref":["n","task"]}]]}]"#;
    check(
        &tasks(&format!(r#"{joined},"select":{{"a":{{"ref":["x","title"]}}}}"#)),
        &["x.title", "t, n"],
    );
    check(
        r#"{"from":{"query":{"from":{"col":"tasks","as":"t"},
            "select":{"a":{"ref":["t","id"]}}},"as":"s"},"where":[{"ref":["s","title"]}]}"#,
        &[r#""s", a sub-query"#, r#""title""#, "it has: a"],
    );
    check(
        &tasks(
            r#","join":[{"type":"inner","col":"notes","as":"t",
            "on":[[{"ref":["t","id"]},{"ref":["t","task"]}]]}]"#,
        ),
        &[r#""t""#, "another name"],
    );
}

#[test]
fn functions_that_cannot_be_called_so() {
    let filter = |json: &str| tasks(&format!(r#","where":[{json}]"#));
    check(&filter(r#"{"fn":"equals","args":[]}"#), &[r#""equals""#, "eq, ne"]);
    check(&filter(r#"{"fn":"lenght","args":[]}"#), &[r#"did you mean "length"?"#]);
    check(&filter(r#"{"fn":"eq","args":[{"ref":["t","id"]}]}"#), &[r#""eq""#, "2", "not 1"]);
    check(
        &filter(r#"{"fn":"caseWhen","args":[{"val":true}]}"#),
        &[r#""caseWhen""#, "at least 2", "not 1"],
    );
    for (args, parts) in [
        (
            r#""eq","args":[{"ref":["t","rank"]},{"val":"high"}]"#,
            [
                r#"a number in eq(t.rank, "high")"#,
                r#""high" is a text"#,
                r#"sources: t is collection "tasks""#,
            ],
        ),
        (
            r#""gt","args":[{"val":1},{"ref":["t","title"]}]"#,
            ["gt(1, t.title)", "a number", "t.title is a text"],
        ),
        (r#""and","args":[{"ref":["t","title"]}]"#, ["and", "a boolean", "a text"]),
        (r#""like","args":[{"ref":["t","rank"]},{"val":"%"}]"#, ["like", "a text", "a number"]),
        (r#""in","args":[{"ref":["t","id"]},{"val":"x"}]"#, ["in", "a list", "a text"]),
        (
            r#""upper","args":[{"fn":"length","args":[{"ref":["t","id"]}]}]"#,
            ["upper", "a text", "a number"],
        ),
    ] {
        check(&filter(&format!("{{\"fn\":{args}}}")), &parts);
    }
    let select = |json: &str| tasks(&format!(r#","select":{{"x":{json}}}"#));
    check(&select(r#"{"agg":"median","args":[{"ref":["t","rank"]}]}"#), &["median", "count, "]);
    check(&select(r#"{"agg":"sum","args":[]}"#), &[r#""sum""#, "takes 1 arg", "not 0"]);
}

#[test]
fn clauses_that_need_another() {
    check(&tasks(r#","limit":3"#), &["limit", "order by"]);
    check(&tasks(r#","offset":3"#), &["offset", "order by"]);
    check(&tasks(r#","distinct":true"#), &["distinct needs select"]);
    check(&tasks(r#","having":[{"val":true}]"#), &["having", "group by"]);
    check(&tasks(r#","orderBy":[{"expr":{"agg":"count","args":[]}}]"#), &["order by", "group by"]);
    let grouped = |rest: &str| tasks(&format!(r#","groupBy":[{{"ref":["t","done"]}}],{rest}"#));
    check(&grouped(r#""select":{"x":{"ref":["t","rank"]}}"#), &["t.rank", "grouped by"]);
    check(&grouped(r#""orderBy":[{"expr":{"ref":["t","rank"]}}]"#), &["t.rank", "grouped by"]);
    check(
        &tasks(
            r#","distinct":true,"select":{"x":{"ref":["t","rank"]}},
            "orderBy":[{"expr":{"ref":["t","id"]}}]"#,
        ),
        &["t.id"],
    );
    check(&tasks(r#","where":[{"agg":"count","args":[]}]"#), &[r#""count""#, "select, having"]);
    check(
        &grouped(r#""select":{"x":{"agg":"sum","args":[{"agg":"count","args":[]}]}}"#),
        &[r#""count""#, "not in another"],
    );
}

#[test]
fn joins_without_a_condition_that_joins() {
    let on = |on: &str| {
        tasks(&format!(r#","join":[{{"type":"left","col":"notes","as":"n","on":[{on}]}}]"#))
    };
    check(&on(""), &[r#""n""#, "a pair of expressions"]);
    check(&on(r#"[{"ref":["t","id"]},{"val":1}]"#), &[r#""n""#, "both sides must name a source"]);
    check(&on(r#"[{"ref":["n","id"]},{"ref":["n","task"]}]"#), &[r#""n""#, "same source"]);
    check(&on(r#"[{"ref":["t","id"]},{"ref":["t","title"]}]"#), &[r#""n""#]);
    check(&on(r#"[{"ref":["t","id"]},{"ref":["x","task"]}]"#), &["x.task", "t, n"]);
}

#[test]
fn includes_out_of_place() {
    let note = r#"{"from":{"col":"notes","as":"n"},
        "where":[{"fn":"eq","args":[{"ref":["n","task"]},{"ref":["t","id"]}]}]}"#;
    let include = format!(r#"{{"include":{note}}}"#);
    let loose = r#"{"include":{"from":{"col":"notes","as":"n"}}}"#;
    check(&tasks(&format!(r#","select":{{"notes":{loose}}}"#)), &[r#""notes""#, "eq("]);
    check(&tasks(&format!(r#","where":[{include}]"#)), &["include", "select"]);
    check(
        &tasks(&format!(r#","distinct":true,"select":{{"notes":{include}}}"#)),
        &["include", "distinct"],
    );
    check(
        &tasks(&format!(r#","groupBy":[{{"ref":["t","id"]}}],"select":{{"notes":{include}}}"#)),
        &["include", "groups"],
    );
    check(
        &tasks(&format!(r#","select":{{"notes":{{"include":{note},"as":"text"}}}}"#)),
        &[r#""notes""#, "exactly one column"],
    );
    check(
        &tasks(&format!(r#","select":{{"x":{{"fn":"coalesce","args":[{include}]}}}}"#)),
        &["include", "by itself"],
    );
    for (clause, name) in [
        (r#""distinct":true,"select":{"n":{"ref":["n","id"]}},"#, "distinct"),
        (r#""groupBy":[{"ref":["n","id"]}],"#, "groups"),
        (r#""select":{"n":{"agg":"count","args":[]}},"#, "aggregates"),
    ] {
        let grouped = note.replacen('{', &format!("{{{clause}"), 1);
        check(
            &tasks(&format!(r#","select":{{"notes":{{"include":{grouped}}}}}"#)),
            &[r#""notes""#, name, "sub-query"],
        );
    }
    // Only the tie may name the outer query: with one source of its own, `t` would be a column.
    let twice = note.replacen(r#""where":["#, r#""where":[{"ref":["t","done"]},"#, 1);
    check(
        &tasks(&format!(r#","select":{{"notes":{{"include":{twice}}}}}"#)),
        &["t.done", "there are: n"],
    );
    let limited = note.replacen('{', r#"{"limit":1,"#, 1);
    check(
        &tasks(&format!(r#","select":{{"notes":{{"include":{limited}}}}}"#)),
        &["limit", "order by"],
    );
}

#[test]
fn queries_beyond_bounds() {
    let of = |rows| Query::of(Source { rows, alias: "t".into() });
    let mut deep = of(Rows::Collection("tasks".into()));
    for _ in 0..query::caps::DEPTH_MAX {
        deep = of(Rows::Query(Box::new(deep)));
    }
    check_query(&deep, &["deeper", "64"]);
    let mut expr = Expr::val(true);
    for _ in 0..query::caps::DEPTH_MAX + 1 {
        expr = Expr::call("not", [expr]);
    }
    let mut query = of(Rows::Collection("tasks".into()));
    query.filters = vec![expr];
    check_query(&query, &["deeper", "64"]);
    query.filters = vec![Expr::val(true); query::caps::EXPRESSIONS_MAX + 1];
    check_query(&query, &["10000"]);
    let branch = of(Rows::Collection("tasks".into()));
    check_query(&of(Rows::Union(vec![branch; query::caps::SOURCES_MAX + 1])), &["32"]);
}

/// What a transaction or a tick is refused for, and that nothing of it was applied.
#[track_caller]
fn check_writes(
    mutations: impl FnOnce(&mut Database) -> Vec<Mutation>,
    tick: impl FnOnce(&mut Database) -> Vec<(query::CollectionId, Write)>,
    parts: &[&str],
) {
    let mut db = database();
    let live = db.live(&Query::from_json(&tasks("")).unwrap()).unwrap();
    let open = db.begin();
    let before = seen(&db);
    let (mutations, writes) = (mutations(&mut db), tick(&mut db));
    let mut refused = Vec::new();
    if !mutations.is_empty() {
        refused.push(db.mutate(open, mutations).unwrap_err());
    }
    if !writes.is_empty() {
        refused.push(db.apply(Tick { writes, retires: vec![open] }).unwrap_err());
    }
    for told in refused.iter().map(ToString::to_string) {
        for part in parts {
            assert!(told.contains(part), "{told:?} does not say {part:?}");
        }
    }
    assert_eq!(seen(&db), before);
    assert_eq!(db.result_len(live), 1);
    assert!(db.is_open(open), "a tick that is refused retires nothing");
}

/// A good insert, then this.
fn mutations(
    name: &'static str,
    write: MutationKind,
) -> impl FnOnce(&mut Database) -> Vec<Mutation> {
    move |db| {
        let tasks = db.find("tasks").unwrap();
        let good = db.record(tasks, r#"{"id":"good","title":"x"}"#).unwrap();
        let collection = db.find(name).unwrap();
        let good = Mutation { collection: tasks, write: MutationKind::Insert(good) };
        vec![good, Mutation { collection, write }]
    }
}

/// A good put and a truncate, then this row.
fn puts(json: &'static str) -> impl FnOnce(&mut Database) -> Vec<(query::CollectionId, Write)> {
    move |db| {
        let tasks = db.find("tasks").unwrap();
        let good = db.record(tasks, r#"{"id":"good","title":"x"}"#).unwrap();
        let bad = db.record(tasks, json).unwrap();
        let meta = Meta::default;
        vec![
            (tasks, Write::Truncate),
            (tasks, Write::Put(good, meta())),
            (tasks, Write::Insert(bad, meta())),
        ]
    }
}

fn inserts(json: &'static str) -> impl FnOnce(&mut Database) -> Vec<Mutation> {
    move |db| {
        let collection = db.find("tasks").unwrap();
        let record = db.record(collection, json).unwrap();
        mutations("tasks", MutationKind::Insert(record))(db)
    }
}

#[test]
fn rows_that_do_not_fit() {
    let check = |json, parts: &[&str]| check_writes(inserts(json), puts(json), parts);
    check(r#"{"id":"t9"}"#, &[r#""tasks""#, r#""t9""#, r#""title""#, "a text", "nothing"]);
    check(r#"{"id":"t9","title":null}"#, &[r#""t9""#, r#""title""#, "not null"]);
    check(
        r#"{"id":"t9","title":"x","rank":"high"}"#,
        &[r#""tasks""#, r#""t9""#, r#""rank""#, "a number", "a text"],
    );
    check(r#"{"id":"t9","title":"x","tags":{}}"#, &[r#""tags""#, "a list", "an object"]);
    check(r#"{"title":"x"}"#, &[r#""tasks""#, r#""id""#, "nothing"]);
    check(r#"{"id":[1],"title":"x"}"#, &[r#""tasks""#, r#""id""#, "a list"]);
    check(r#"{"id":1,"title":"x"}"#, &[r#""tasks""#, r#""id""#, "a text", "a number"]);
    check(r#"{"id":"good","title":"other"}"#, &[r#""tasks""#, "already", r#""good""#]);
}

#[test]
fn updates_that_do_not_fit() {
    let none = |_: &mut Database| Vec::new();
    let update = |key: &str, column: &str, value: Value| {
        mutations("tasks", MutationKind::Update(key.into(), vec![(column.into(), value)]))
    };
    check_writes(update("t7", "rank", 1.into()), none, &["tasks", r#""t7""#, "to update"]);
    check_writes(update("t1", "rank", "x".into()), none, &["tasks", r#""t1""#, r#""rank""#]);
    check_writes(update("t1", "title", Value::Null), none, &[r#""title""#, "not null"]);
    check_writes(update("t1", "rnak", 1.into()), none, &["tasks", r#""t1""#, "\"rank\"?"]);
    check_writes(
        update("t1", "id", "t2".into()),
        none,
        &["tasks", r#""t1""#, r#""t2""#, "delete it and insert"],
    );
    check_writes(update("t1", "id", Value::Null), none, &["tasks", r#""id""#, "null"]);
    let delete = mutations("tasks", MutationKind::Delete("t7".into()));
    check_writes(delete, none, &["tasks", r#""t7""#, "to delete"]);
}

/// Its columns have other numbers there, and would be taken for others.
#[test]
fn records_of_another_collection() {
    let foreign = |db: &mut Database| {
        let notes = db.find("notes").unwrap();
        db.record(notes, r#"{"id":"t9","text":"x","title":"y"}"#).unwrap()
    };
    let parts = [r#""tasks""#, "id, task, text, title", "id, title, rank", "Database::record"];
    check_writes(
        |db| {
            let record = foreign(db);
            mutations("tasks", MutationKind::Insert(record))(db)
        },
        |db| vec![(db.find("tasks").unwrap(), Write::Put(foreign(db), Meta::default()))],
        &parts,
    );
    // One that was made before the collection learned of more columns is its own.
    let mut db = database();
    let notes = db.find("notes").unwrap();
    let early = db.record(notes, r#"{"id":"n2"}"#).unwrap();
    write(&mut db, "notes", r#"{"id":"n3","late":1}"#).unwrap();
    let writes = vec![(notes, Write::Put(early, Meta::default()))];
    db.apply(Tick { writes, retires: vec![] }).unwrap();
}

#[test]
fn collections_of_another_database() {
    let (mut db, mut other) = (database(), database());
    let stranger = other.collection("more", Schema::open("id")).unwrap();
    let before = seen(&db);
    let record = other.record(stranger, r#"{"id":1}"#).unwrap();
    let writes = vec![
        (db.find("tasks").unwrap(), Write::Truncate),
        (stranger, Write::Put(record.clone(), Meta::default())),
    ];
    let refused = db.apply(Tick { writes, retires: vec![] }).unwrap_err();
    assert!(refused.to_string().contains("another database"), "{refused}");
    let open = db.begin();
    let insert = Mutation { collection: stranger, write: MutationKind::Insert(record) };
    assert_eq!(db.mutate(open, vec![insert]).unwrap_err(), refused);
    assert!(!refused.is_retryable());
    assert_eq!(seen(&db), before);
}

#[test]
fn json_that_is_no_row() {
    let mut db = database();
    let tasks = db.find("tasks").unwrap();
    for json in ["[]", "1", r#"{"id":"#, ""] {
        let told = db.record(tasks, json).unwrap_err().to_string();
        assert!(told.contains(r#""tasks""#) && told.contains("JSON object"), "{told}");
    }
    let wide: Vec<_> = (0..=query::caps::COLUMNS_MAX).map(|n| format!(r#""c{n}":1"#)).collect();
    let notes = db.find("notes").unwrap();
    let told = db.record(notes, &format!("{{{}}}", wide.join(","))).unwrap_err().to_string();
    assert!(told.contains(r#""notes""#) && told.contains("1024"), "{told}");
    // What is refused has taught the collection nothing, so there is room for others.
    db.record(notes, r#"{"id":"n2","fresh":1}"#).unwrap();
}

#[test]
fn transactions_that_ended() {
    let mut db = database();
    let open = db.begin();
    db.end(open);
    let told = db.mutate(open, vec![]).unwrap_err().to_string();
    assert!(told.contains(&open.get().to_string()) && told.contains("not open"), "{told}");
    assert_eq!(db.end(open), query::Published::default());
    let told = db.collection("tasks", Schema::open("id")).unwrap_err().to_string();
    assert!(told.contains(r#""tasks""#), "{told}");
}
