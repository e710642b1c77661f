//! Typed rows, as a user writes them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use std::collections::HashMap;

use query::{
    Column, Columns, Database, Field, Key, Meta, Mutation, MutationKind, Query, Record, Row, Tick,
    Value, View, Write, count_rows, from, include_text,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[serde(rename_all = "camelCase")]
struct Message {
    id: String,
    session_id: String,
    role: Role,
    #[serde(default)]
    tokens: Option<u32>,
    #[serde(rename = "isDone", default)]
    done: bool,
    #[row(json)]
    #[serde(default)]
    extra: HashMap<String, i32>,
    #[serde(skip)]
    cache: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Field)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Clone, Debug, Serialize, Deserialize, Row)]
#[row(name = "chunks")]
struct Chunk {
    #[row(key)]
    at: i64,
    message_id: String,
    text: String,
}

fn message(id: &str, role: Role, tokens: Option<u32>) -> Message {
    Message {
        id: id.into(),
        session_id: "s".into(),
        role,
        tokens,
        done: false,
        extra: HashMap::from([("n".to_owned(), 1)]),
        cache: None,
    }
}

fn put<R: Row>(db: &mut Database, row: R) -> query::Published {
    let collection = db.find(R::NAME).unwrap();
    let writes = vec![(collection, Write::Put(Record::typed(row), Meta::default()))];
    db.apply(Tick { writes, retires: Vec::new() }).unwrap()
}

fn database() -> Database {
    let mut db = Database::new();
    db.collection(Message::NAME, Message::schema()).unwrap();
    db.collection(Chunk::NAME, Chunk::schema()).unwrap();
    db
}

#[test]
fn a_row_has_columns_as_serde_names_them() {
    let row = message("m1", Role::User, None);
    let names = ["id", "sessionId", "role", "tokens", "isDone", "extra"];
    assert_eq!(row.names(), names);
    let said = (Message::NAME, Message::KEY, Chunk::NAME, Chunk::KEY);
    assert_eq!(said, ("message", "id", "chunks", "at"));
    assert_eq!(Row::key(&row), Key::from("m1"));
    let columns: Vec<_> = (0..7).map(|index| row.column(index)).collect();
    let expected = serde_json::json!(["m1", "s", "user", null, false, {"n": 1}]);
    assert_eq!(Value::list(columns[..6].iter().cloned()), Value::from(expected));
    assert_eq!(columns[6], Value::Missing);
    let done: Column<Message, bool> = Message::done;
    assert_eq!(done.name(), "isDone");
}

#[test]
fn a_row_tells_its_json_schema() {
    let schema: serde_json::Value = serde_json::to_value(Message::json_schema()).unwrap();
    assert_eq!(schema["properties"]["role"]["enum"], serde_json::json!(["user", "assistant"]));
    assert_eq!(schema["properties"]["tokens"]["anyOf"][0]["type"], "integer");
    assert_eq!(schema["required"], serde_json::json!(["id", "sessionId", "role"]));
}

#[test]
fn queries_give_typed_rows_back() {
    let mut db = database();
    let users = from::<Message>()
        .filter(Message::role.eq(Role::User).and(Message::done.eq(false)))
        .order_by(Message::tokens.desc());
    let users = db.live(users.query()).unwrap();
    for (id, role, tokens) in
        [("a", Role::User, None), ("b", Role::User, Some(7)), ("c", Role::Assistant, Some(9))]
    {
        put(&mut db, message(id, role, tokens));
    }
    let ids = |db: &Database| -> Vec<String> {
        db.result(users).map(|row| row.record.as_typed::<Message>().unwrap().id.clone()).collect()
    };
    assert_eq!(ids(&db), ["a", "b"]);
    put(&mut db, Message { done: true, ..message("a", Role::User, None) });
    assert_eq!(ids(&db), ["b"]);
}

#[test]
fn an_optimistic_update_of_a_typed_row_changes_its_fields_alone() {
    let mut db = database();
    put(&mut db, message("m", Role::User, None));
    let collection = db.find(Message::NAME).unwrap();
    let transaction = db.begin();
    let update = |columns: Vec<(&str, Value)>| {
        let columns = columns.into_iter().map(|(name, value)| (name.into(), value)).collect();
        vec![Mutation { collection, write: MutationKind::Update(Key::from("m"), columns) }]
    };
    db.mutate(transaction, update(vec![("tokens", Value::from(3))])).unwrap();
    put(&mut db, Message { done: true, ..message("m", Role::Assistant, Some(1)) });
    let row = |db: &Database, view| {
        let entry = db.get(collection, &Key::from("m"), view).unwrap();
        entry.record.as_typed::<Message>().unwrap().clone()
    };
    let synced = Message { done: true, ..message("m", Role::Assistant, Some(1)) };
    assert_eq!(row(&db, View::Synced), synced);
    assert_eq!(row(&db, View::Visible), Message { tokens: Some(3), ..synced.clone() });
    for (column, value) in [("tokens", Value::from("many")), ("role", Value::from("robot"))] {
        let error = db.mutate(transaction, update(vec![(column, value)])).unwrap_err();
        assert!(error.to_string().contains(column), "{error}");
    }
    db.end(transaction);
    assert_eq!(row(&db, View::Visible), synced);
}

#[test]
fn chunks_come_together_as_a_text() {
    let mut db = database();
    let text = from::<Chunk>()
        .filter(Chunk::message_id.eq(Message::id))
        .order_by(Chunk::at)
        .select("text", Chunk::text);
    let messages = from::<Message>().select("id", Message::id).select("text", include_text(text));
    let messages = db.live(messages.query()).unwrap();
    put(&mut db, message("m", Role::Assistant, None));
    for (at, text) in [(1, "a"), (3, "c"), (2, "b"), (4, "d")] {
        put(&mut db, Chunk { at, message_id: "m".into(), text: text.into() });
    }
    let shown = db.result_get(messages, &Key::from("m")).unwrap();
    assert_eq!(*shown.record.get("text"), Value::from("abcd"));
}

#[test]
fn a_query_of_the_builder_is_data() {
    let query: Query = from::<Message>()
        .left_join::<Chunk>(Message::id, Chunk::message_id)
        .group_by(Message::id)
        .select("id", Message::id)
        .select("chunks", count_rows())
        .having(count_rows().gt(1))
        .into();
    assert_eq!(Query::from_json(&query.to_json()).unwrap(), query);
}

#[test]
fn a_row_of_another_type_is_refused() {
    let mut db = database();
    put(&mut db, message("m", Role::User, None));
    let collection = db.find(Message::NAME).unwrap();
    let chunk = Record::typed(Chunk { at: 1, message_id: "m".into(), text: "x".into() });
    let writes = vec![
        (collection, Write::Delete("m".into())),
        (collection, Write::Put(chunk.clone(), Meta::default())),
    ];
    let refused = db.apply(Tick { writes, retires: vec![] }).unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("at, message_id, text") && told.contains("id, sessionId"), "{told}");
    let transaction = db.begin();
    let insert = Mutation { collection, write: MutationKind::Insert(chunk) };
    assert_eq!(db.mutate(transaction, vec![insert]).unwrap_err(), refused);
    assert_eq!(db.len(collection, View::Visible), 1);
}

#[test]
fn windows_of_typed_rows_are_read_by_an_index() {
    let mut db = database();
    let id = |n: usize| format!("{n:04}");
    for n in 0..1_000 {
        let role = if n % 2 == 0 { Role::User } else { Role::Assistant };
        put(&mut db, message(&id(n), role, (n % 5 > 0).then_some(n as u32)));
    }
    let most = from::<Message>()
        .filter(Message::role.eq(Role::User))
        .order_by(Message::tokens.desc().nulls_last())
        .limit(3);
    let live = db.live(most.query()).unwrap();
    assert!(db.explain(live).contains("index ordered by tokens within role"));
    let shown = |db: &Database| -> Vec<String> {
        db.result(live).map(|row| row.record.as_typed::<Message>().unwrap().id.clone()).collect()
    };
    assert_eq!(shown(&db), ["0998", "0996", "0994"]);
    let collection = db.find(Message::NAME).unwrap();
    for n in (500..1_000).rev() {
        let writes = vec![(collection, Write::Delete(id(n).into()))];
        db.apply(Tick { writes, retires: vec![] }).unwrap();
    }
    assert_eq!(shown(&db), ["0498", "0496", "0494"]);
    put(&mut db, message("0001", Role::User, Some(497)));
    assert_eq!(shown(&db), ["0498", "0001", "0496"]);
}
