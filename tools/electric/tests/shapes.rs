//! Our source reads the fixture: whatever happens there, it comes to the rows of the table.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use std::{collections::BTreeMap, time::Duration};

use electric_fixture::{Cells, Fault, Fixture, Operation, Todo};
use live::{Action, Collection, Db, PersistError, Retry};
use source_electric::{Following, Replica, Shape, ShapeBuilder};
use sys::{Chance, Sys};

fn cells(cells: &[(&str, &str)]) -> Cells {
    cells.iter().map(|(name, text)| ((*name).to_owned(), Some((*text).to_owned()))).collect()
}

fn insert(id: u64, text: &str) -> Operation {
    let id = id.to_string();
    Operation::Insert(cells(&[("id", &id), ("text", text), ("done", "f"), ("amount", "1.50")]))
}

fn update(id: u64, set: &[(&str, &str)]) -> Operation {
    Operation::Update { id: id.to_string(), set: cells(set) }
}

fn shape(sys: &Sys, fixture: &Fixture) -> ShapeBuilder<Todo> {
    let (pause_min, pause_max) = (Duration::from_millis(1), Duration::from_millis(4));
    let retry = Retry { attempts_max: 100, pause_min, pause_max };
    Shape::builder(sys, &fixture.url()).table("todos").retry(retry)
}

/// What the table says, as far as all rows have it.
fn truth(fixture: &Fixture) -> BTreeMap<String, (String, String)> {
    let rows = fixture.table().rows();
    let text = |row: &Cells, name: &str| row[name].clone().unwrap_or_default();
    rows.iter().map(|row| (text(row, "id"), (text(row, "text"), text(row, "done")))).collect()
}

fn shown(todos: &Collection<Todo>) -> BTreeMap<String, (String, String)> {
    let done = |done| if done { "t" } else { "f" }.to_owned();
    let rows = todos.rows();
    rows.iter().map(|row| (row.id.to_string(), (row.text.clone(), done(row.done)))).collect()
}

/// Waits until the collection shows the table, and looks at everything it shows until then.
async fn catches_up(
    todos: &Collection<Todo>,
    fixture: &Fixture,
    check: impl Fn(&Collection<Todo>),
) {
    let mut changes = todos.changes().unwrap();
    loop {
        check(todos);
        if shown(todos) == truth(fixture) {
            return;
        }
        changes.next().await;
    }
}

#[tokio::test]
async fn every_kind_of_column_is_read() {
    let sys = Sys::real();
    let fixture = Fixture::start(&sys).await.unwrap();
    fixture.transact(vec![Operation::Insert(cells(&[
        ("id", "9007199254740993"),
        ("text", "ü \"x\""),
        ("done", "t"),
        ("score", "0.1"),
        ("tags", r#"{a,NULL,"b,c"}"#),
        ("meta", r#"{"a": [1, null]}"#),
        ("amount", "12345678901234567890.10"),
    ]))]);
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(shape(&sys, &fixture).build().unwrap()).unwrap();
    todos.ready().await.unwrap();
    let wanted = Todo {
        id: 9_007_199_254_740_993,
        text: "ü \"x\"".into(),
        done: true,
        score: Some(0.1),
        tags: Some(vec![Some("a".into()), None, Some("b,c".into())]),
        meta: Some(serde_json::json!({"a": [1, null]})),
        amount: Some("12345678901234567890.10".into()),
        owner: None,
    };
    assert_eq!(*todos.rows()[0], wanted);
    fixture.transact(vec![update(9_007_199_254_740_993, &[("tags", "{}")])]);
    catches_up(&todos, &fixture, |_| ()).await;
    let mut changes = todos.changes().unwrap();
    while todos.rows()[0].tags != Some(vec![]) {
        changes.next().await;
    }
    assert_eq!(*todos.rows()[0], Todo { tags: Some(vec![]), ..wanted });
}

#[tokio::test]
async fn a_condition_lets_rows_in_and_out() {
    let sys = Sys::real();
    let fixture = Fixture::start(&sys).await.unwrap();
    fixture.transact(vec![insert(1, "a"), update(1, &[("owner", "ada")]), insert(2, "b")]);
    let mine = shape(&sys, &fixture)
        .where_("owner = $1")
        .param("ada")
        .columns(["id", "text", "done", "owner"]);
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(mine.build().unwrap()).unwrap();
    todos.ready().await.unwrap();
    let ids = |todos: &Collection<Todo>| todos.rows().iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!((ids(&todos), todos.rows()[0].amount.clone()), (vec![1], None));
    let mut changes = todos.changes().unwrap();
    // One leaves, one enters, one changes its key.
    fixture.transact(vec![update(1, &[("owner", "bob")]), update(2, &[("owner", "ada")])]);
    while ids(&todos) != [2] {
        changes.next().await;
    }
    fixture.transact(vec![update(2, &[("id", "7")])]);
    while ids(&todos) != [7] {
        changes.next().await;
    }
}

#[tokio::test]
async fn an_action_waits_until_its_write_comes_back() {
    let sys = Sys::real();
    let fixture = Fixture::start(&sys).await.unwrap();
    fixture.transact(vec![insert(1, "a")]);
    let db = Db::new(&sys);
    let source = shape(&sys, &fixture).build().unwrap();
    let handle = source.handle();
    let todos = db.collection::<Todo>(source).unwrap();
    todos.ready().await.unwrap();
    let service = fixture.clone();
    let finish = Action::new(
        &db,
        |id: &i64, writes| writes.update::<Todo>(*id, |todo| todo.done = true),
        move |id| {
            let (service, handle) = (service.clone(), handle.clone());
            async move {
                let txid = service.transact(vec![update(id.unsigned_abs(), &[("done", "t")])]);
                let came = handle.await_txid(txid, Duration::from_secs(20)).await;
                came.map_err(|late| PersistError::fatal(late.to_string()))
            }
        },
    );
    let finishing = finish.run(1).unwrap();
    assert!(todos.rows()[0].done && !todos.rows()[0].is_synced());
    finishing.settled().await.unwrap();
    assert!(todos.rows()[0].done && todos.rows()[0].is_synced());
}

#[tokio::test]
async fn one_long_poll_after_the_other_is_waited_for() {
    let sys = Sys::real();
    let fixture = Fixture::start(&sys).await.unwrap();
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(shape(&sys, &fixture).build().unwrap()).unwrap();
    todos.ready().await.unwrap();
    for id in 1..=20 {
        fixture.transact(vec![insert(id, "x")]);
        catches_up(&todos, &fixture, |_| ()).await;
    }
    // The start, the end, and about one for each change: nobody asks in vain.
    assert!(fixture.requests() <= 2 + 20 + 2, "{}", fixture.requests());
}

/// Pairs of rows always have the same text: each transaction writes both.
fn is_whole(todos: &Collection<Todo>, seed: u64) {
    let rows = shown(todos);
    for (id, (text, _)) in &rows {
        let id: u64 = id.parse().unwrap();
        let twin = rows.get(&(id ^ 1).to_string()).map(|(text, _)| text);
        assert_eq!(twin, Some(text), "seed {seed}: half of a transaction is shown");
    }
}

fn random(chance: &Chance, step: u64) -> Vec<Operation> {
    let pair = 2 * chance.below(6);
    let text = format!("t{step}");
    match chance.below(5) {
        0 => vec![Operation::Delete(pair.to_string()), Operation::Delete((pair + 1).to_string())],
        1 | 2 => vec![insert(pair, &text), insert(pair + 1, &text)],
        3 => vec![
            insert(pair, &text),
            update(pair, &[("done", "t")]),
            insert(pair + 1, &text),
            update(pair + 1, &[("score", "1.5")]),
        ],
        _ => {
            let set: &[(&str, &str)] = &[("text", &text), ("owner", "ada")];
            vec![update(pair, set), update(pair + 1, set)]
        }
    }
}

async fn storm(seed: u64) {
    let chance = Chance::seeded(seed);
    let sys = Sys::real();
    let fixture = Fixture::start(&sys).await.unwrap();
    for step in 0..chance.below(12) {
        fixture.transact(random(&chance, step));
    }
    let replica = if seed.is_multiple_of(2) { Replica::Default } else { Replica::Full };
    let following = if seed.is_multiple_of(3) { Following::Events } else { Following::LongPoll };
    let source = shape(&sys, &fixture).replica(replica).following(following).build().unwrap();
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(source).unwrap();
    todos.ready().await.unwrap();
    for step in 100..130 {
        match chance.below(12) {
            0 => fixture.rotate(),
            1 => fixture.fail(Fault::Status(429)),
            2 => fixture.fail(Fault::Status(500)),
            3 if following == Following::LongPoll => {
                fixture.fail(Fault::Cut(usize::try_from(chance.below(300)).unwrap()));
            }
            _ => drop(fixture.transact(random(&chance, step))),
        }
        if chance.below(4) == 0 {
            catches_up(&todos, &fixture, |todos| is_whole(todos, seed)).await;
        }
    }
    catches_up(&todos, &fixture, |todos| is_whole(todos, seed)).await;
}

#[tokio::test]
async fn storms_end_with_the_rows_of_the_table() {
    for seed in 0..60 {
        let within = Duration::from_secs(60);
        let ended = Sys::real().clock.timeout(within, storm(seed)).await;
        assert!(ended.is_ok(), "seed {seed}: it does not end");
    }
}
