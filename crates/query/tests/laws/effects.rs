//! Effects by name: each is a defect that `@tanstack/db` 0.15 has, and what is right here.

use query::{
    Change, ChangeKind, Database, Mutation, MutationKind, Published, Query, QueryId, Schema, Tick,
    Value, Write,
};

/// A database of `posts` and `users`, and one query that is watched.
struct Watched {
    db: Database,
    id: QueryId,
}

const ALL: &str = r#"{"from":{"col":"posts","as":"p"}}"#;
const LEFT_JOIN: &str = r#"{"from":{"col":"posts","as":"p"},
    "join":[{"type":"left","col":"users","as":"u","on":[[{"ref":["p","by"]},{"ref":["u","id"]}]]}],
    "select":{"post":{"ref":["p","id"]},"user":{"ref":["u","id"]}}}"#;

fn watched(query: &str) -> Watched {
    let mut db = Database::new();
    for name in ["posts", "users"] {
        db.collection(name, Schema::open("id")).unwrap();
    }
    let (id, now) = db.watch(&Query::from_json(query).unwrap()).unwrap();
    assert_eq!(now, []);
    Watched { db, id }
}

impl Watched {
    /// Applies writes as one tick; `+` puts a row, `-` deletes a key, `!` removes all.
    fn tick(&mut self, writes: &[(&str, &str)]) -> Vec<String> {
        let mut tick = Tick::default();
        for (target, json) in writes {
            let (sign, name) = target.split_at(1);
            let collection = self.db.find(name).unwrap();
            let write = match sign {
                "+" => Write::Put(self.db.record(collection, json).unwrap(), Default::default()),
                "-" => Write::Delete(serde_json::from_str(json).unwrap()),
                _ => Write::Truncate,
            };
            tick.writes.push((collection, write));
        }
        let published = self.db.apply(tick).unwrap();
        self.told(published)
    }

    fn told(&self, published: Published) -> Vec<String> {
        let own = published.queries.into_iter().filter(|(id, _)| *id == self.id);
        own.flat_map(|(_, changes)| changes).map(|change| told(&change)).collect()
    }
}

/// The same, by writes of one call of a transaction.
#[test]
fn a_transaction_tells_what_its_writes_come_to() {
    use MutationKind::{Delete, Insert, Update};
    let mut all = watched(ALL);
    let collection = all.db.find("posts").unwrap();
    let row = all.db.record(collection, r#"{"id":1,"n":1}"#).unwrap();
    let insert = || Insert(row.clone());
    let update = || Update(1.into(), vec![("n".into(), 2.into())]);
    let mut mutate = |writes: Vec<MutationKind>| {
        let transaction = all.db.begin();
        let mutations = writes.into_iter().map(|write| Mutation { collection, write });
        let written = all.db.mutate(transaction, mutations.collect()).unwrap();
        let ended = all.db.end(transaction);
        [written, ended].map(|published| all.told(published))
    };
    assert_eq!(mutate(vec![insert(), update()]), [["enter 1 2"], ["exit 1 2"]]);
    assert_eq!(mutate(vec![insert(), Delete(1.into())]), [const { &[] as &[&str] }; 2]);
    let again = vec![insert(), Delete(1.into()), insert()];
    assert_eq!(mutate(again), [["enter 1 1"], ["exit 1 1"]]);
}

fn told(change: &Change) -> String {
    let kind = match change.kind() {
        ChangeKind::Enter => "enter",
        ChangeKind::Update => "update",
        ChangeKind::Exit => "exit",
    };
    let row = change.new.as_ref().or(change.old.as_ref()).unwrap();
    let fields: Vec<_> =
        row.record.to_tuple().present().map(|(_, value)| value.to_string()).collect();
    format!("{kind} {}", fields.join(" "))
}

#[test]
fn a_row_that_is_inserted_and_updated_at_once_enters() {
    let mut all = watched(ALL);
    let told = all.tick(&[("+posts", r#"{"id":1,"n":1}"#), ("+posts", r#"{"id":1,"n":2}"#)]);
    assert_eq!(told, ["enter 1 2"]);
}

#[test]
fn a_row_that_is_inserted_and_deleted_at_once_never_was() {
    let mut all = watched(ALL);
    assert!(all.tick(&[("+posts", r#"{"id":1}"#), ("-posts", "1")]).is_empty());
    assert!(all.tick(&[("+posts", r#"{"id":1}"#), ("!posts", "")]).is_empty());
    assert!(all.tick(&[("-posts", "1")]).is_empty());
}

#[test]
fn a_row_that_is_deleted_and_inserted_at_once_is_an_update() {
    let mut all = watched(ALL);
    all.tick(&[("+posts", r#"{"id":1,"n":1}"#)]);
    let told = all.tick(&[("-posts", "1"), ("+posts", r#"{"id":1,"n":2}"#)]);
    assert_eq!(told, ["update 1 2"]);
    assert!(all.tick(&[("-posts", "1"), ("+posts", r#"{"id":1,"n":2}"#)]).is_empty());
}

#[test]
fn a_left_join_shows_no_row_without_its_partner_if_both_come_at_once() {
    let mut joined = watched(LEFT_JOIN);
    let told = joined.tick(&[("+posts", r#"{"id":10,"by":1}"#), ("+users", r#"{"id":1}"#)]);
    assert_eq!(told, ["enter 10 1"]);
    let mut joined = watched(LEFT_JOIN);
    let told = joined.tick(&[("+users", r#"{"id":1}"#), ("+posts", r#"{"id":10,"by":1}"#)]);
    assert_eq!(told, ["enter 10 1"]);
}

#[test]
fn a_left_join_tells_one_row_for_one_matching_insert() {
    let mut joined = watched(LEFT_JOIN);
    joined.tick(&[("+users", r#"{"id":1}"#)]);
    assert_eq!(joined.tick(&[("+posts", r#"{"id":10,"by":1}"#)]), ["enter 10 1"]);
}

#[test]
fn a_row_that_finds_its_partner_late_leaves_alone_and_enters_joined() {
    let mut joined = watched(LEFT_JOIN);
    assert_eq!(joined.tick(&[("+posts", r#"{"id":10,"by":1}"#)]), ["enter 10"]);
    let mut told = joined.tick(&[("+users", r#"{"id":1}"#)]);
    told.sort();
    assert_eq!(told, ["enter 10 1", "exit 10"]);
    let mut told = joined.tick(&[("!users", "")]);
    told.sort();
    assert_eq!(told, ["enter 10", "exit 10 1"]);
}

#[test]
fn an_unrelated_write_wakes_nobody_who_looks_at_synced_rows() {
    let mut synced = watched(r#"{"from":{"col":"posts","as":"p"},"synced":true}"#);
    synced.tick(&[("+posts", r#"{"id":1,"n":1}"#)]);
    let collection = synced.db.find("posts").unwrap();
    let transaction = synced.db.begin();
    let write = MutationKind::Update(1.into(), vec![("n".into(), 2.into())]);
    let published = synced.db.mutate(transaction, vec![Mutation { collection, write }]).unwrap();
    assert!(published.queries.is_empty());
    assert!(synced.db.end(transaction).queries.is_empty());
}

#[test]
fn a_filter_for_a_list_hears_of_the_rows_that_have_it() {
    let query = r#"{"from":{"col":"posts","as":"p"},
        "where":[{"fn":"in","args":[{"ref":["p","tags"]},{"val":[1,["a"]]}]}]}"#;
    let mut tagged = watched(query);
    assert_eq!(tagged.tick(&[("+posts", r#"{"id":1,"tags":["a"]}"#)]), [r#"enter 1 ["a"]"#]);
}

#[test]
fn a_union_shows_columns_that_came_after_it() {
    let query = r#"{"from":{"union":[{"from":{"col":"posts","as":"p"}},
        {"from":{"col":"users","as":"u"}}],"as":"all"}}"#;
    let mut all = watched(query);
    assert_eq!(all.tick(&[("+posts", r#"{"id":1,"new":2}"#)]), ["enter 1 2"]);
}

#[test]
fn groups_of_nothing_on_both_sides_of_a_full_join_are_two_rows() {
    let grouped = |name: &str| {
        format!(
            r#""query":{{"from":{{"col":"{name}","as":"r"}},"groupBy":[{{"ref":["r","g"]}}],
            "select":{{"g":{{"ref":["r","g"]}},"n":{{"agg":"count","args":[]}}}}}}"#
        )
    };
    let query = format!(
        r#"{{"from":{{{},"as":"a"}},"join":[{{"type":"full",{},"as":"b",
        "on":[[{{"ref":["a","g"]}},{{"ref":["b","g"]}}]]}}],
        "select":{{"a":{{"ref":["a","n"]}},"b":{{"ref":["b","n"]}}}}}}"#,
        grouped("posts"),
        grouped("users")
    );
    let mut joined = watched(&query);
    let rows = [("+posts", r#"{"id":1}"#), ("+posts", r#"{"id":2}"#), ("+users", r#"{"id":1}"#)];
    assert_eq!(joined.tick(&rows), ["enter 2", "enter 1"]);
    assert_eq!(joined.db.once(&Query::from_json(&query).unwrap()).unwrap().len(), 2);
    let rows = joined.db.watch(&Query::from_json(&query).unwrap()).unwrap().1;
    let mut keys: Vec<_> = rows.into_iter().map(|change| change.key).collect();
    keys.sort();
    let nobody = |one, other| Value::list([one, other]);
    let expected = [nobody(Value::Missing, Value::Null), nobody(Value::Null, Value::Missing)];
    assert_eq!(keys, expected);
}

#[test]
fn a_text_that_was_edited_grows_again_by_what_is_added() {
    let mut message = watched(
        r#"{"from":{"col":"users","as":"u"},"select":{"text":{"include":{
            "from":{"col":"posts","as":"p"},"select":{"text":{"ref":["p","text"]}},
            "where":[{"fn":"eq","args":[{"ref":["p","by"]},{"ref":["u","id"]}]}]},"as":"text"}}}"#,
    );
    message.tick(&[("+users", r#"{"id":1}"#), ("+posts", r#"{"id":1,"by":1,"text":"a"}"#)]);
    message.tick(&[("+posts", r#"{"id":2,"by":1,"text":"b"}"#)]);
    assert_eq!(message.tick(&[("+posts", r#"{"id":1,"by":1,"text":"A"}"#)]), [r#"update "Ab""#]);
    let posts = message.db.find("posts").unwrap();
    let row = message.db.record(posts, r#"{"id":3,"by":1,"text":"c"}"#).unwrap();
    let writes = vec![(posts, Write::Put(row, Default::default()))];
    let published = message.db.apply(Tick { writes, retires: vec![] }).unwrap();
    let change = &published.queries[0].1[0];
    let text = |row: &Option<std::sync::Arc<query::Entry>>| match row
        .as_ref()
        .unwrap()
        .record
        .get("text")
        .into_owned()
    {
        Value::Rope(rope) => rope,
        other => panic!("{other} is no rope"),
    };
    assert_eq!(text(&change.new).added_to(&text(&change.old)), Some("c"));
}

#[test]
fn a_row_that_looks_the_same_in_the_same_place_is_not_told() {
    // What is selected does not change, nor does what it is sorted by.
    let select = r#""select":{"id":{"ref":["p","id"]}},"orderBy":[{"expr":{"ref":["p","n"]}}]"#;
    for window in ["", r#","limit":2"#] {
        let mut ordered =
            watched(&format!(r#"{{"from":{{"col":"posts","as":"p"}},{select}{window}}}"#));
        ordered.tick(&[("+posts", r#"{"id":1,"n":1}"#), ("+posts", r#"{"id":2,"n":2}"#)]);
        assert!(ordered.tick(&[("+posts", r#"{"id":1,"n":1,"text":"x"}"#)]).is_empty());
        // It moves behind the other, and somebody who shows them in order must know.
        assert_eq!(ordered.tick(&[("+posts", r#"{"id":1,"n":3}"#)]), ["update 1"]);
    }
}

#[test]
fn rows_outside_the_window_of_an_include_wake_nobody() {
    let nested = |form: &str, rest: &str| {
        format!(
            r#"{{"from":{{"col":"users","as":"u"}},"select":{{"posts":{{"include":{{
            "from":{{"col":"posts","as":"p"}},"select":{{"id":{{"ref":["p","id"]}}}},
            "where":[{{"fn":"eq","args":[{{"ref":["p","by"]}},{{"ref":["u","id"]}}]}}],
            "orderBy":[{{"expr":{{"ref":["p","n"]}}}}]{rest}}},"as":"{form}"}}}}}}"#
        )
    };
    for (form, rest) in [("list", r#","limit":1"#), ("text", r#","limit":1"#), ("one", "")] {
        let mut user = watched(&nested(form, rest));
        user.tick(&[("+users", r#"{"id":1}"#), ("+posts", r#"{"id":1,"by":1,"n":1}"#)]);
        assert!(user.tick(&[("+posts", r#"{"id":2,"by":1,"n":2}"#)]).is_empty(), "{form}");
        assert!(user.tick(&[("+users", r#"{"id":1,"name":"x"}"#)]).is_empty(), "{form}");
        assert_eq!(user.tick(&[("+posts", r#"{"id":3,"by":1,"n":0}"#)]).len(), 1, "{form}");
    }
    // Nor does a nested row of which nothing is shown that changed.
    let mut user = watched(&nested("list", ""));
    user.tick(&[("+users", r#"{"id":1}"#), ("+posts", r#"{"id":1,"by":1,"n":1}"#)]);
    assert!(user.tick(&[("+posts", r#"{"id":1,"by":1,"n":1,"text":"x"}"#)]).is_empty());
}

#[test]
fn a_union_of_open_collections_may_be_asked_for_what_no_row_has_yet() {
    let query = r#"{"from":{"union":[{"from":{"col":"posts","as":"p"}},
        {"from":{"col":"users","as":"u"}}],"as":"all"},
        "where":[{"fn":"eq","args":[{"ref":["all","state","open"]},{"val":true}]}],
        "select":{"id":{"ref":["all","id"]},"mood":{"ref":["mood"]}},
        "orderBy":[{"expr":{"ref":["all","rank"]}}]}"#;
    let mut all = watched(query);
    assert!(all.tick(&[("+posts", r#"{"id":1,"rank":2}"#)]).is_empty());
    let told = all.tick(&[("+users", r#"{"id":2,"state":{"open":true},"mood":"good","rank":1}"#)]);
    assert_eq!(told, [r#"enter 2 "good""#]);
    let told = all.tick(&[("+posts", r#"{"id":1,"state":{"open":true},"rank":0}"#)]);
    assert_eq!(told, ["enter 1"]);
    let order = all.db.once(&Query::from_json(query).unwrap()).unwrap();
    let ids: Vec<_> = order.iter().map(|row| row.record.get("id").into_owned()).collect();
    assert_eq!(ids, [Value::Int(1), Value::Int(2)]);
}
