//! One answer after the other, byte by byte as written here, and what a collection shows then.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

mod script;

use std::time::Duration;

use live::{Collection, Db, Loading, Retry, Row, Status};
use serde::{Deserialize, Serialize};
use source_electric::{BadShape, Following, Replica, Shape, ShapeBuilder};
use sys::Sys;

use crate::script::{Reply, Script};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
struct Todo {
    id: i64,
    text: String,
    done: bool,
    #[serde(default)]
    note: Option<String>,
}

const SCHEMA: &str = r#"{"id":{"type":"int8","pk_index":0,"not_null":true},
    "text":{"type":"text"},"done":{"type":"bool"},"note":{"type":"text"}}"#;
const UP: &str = r#"{"headers":{"control":"up-to-date","global_last_seen_lsn":"0"}}"#;

fn insert(id: i64, text: &str) -> String {
    change("insert", id, &format!(r#","text":"{text}","done":"f","note":null"#), 0)
}

fn change(operation: &str, id: i64, rest: &str, txid: u64) -> String {
    format!(
        r#"{{"key":"\"public\".\"todos\"/\"{id}\"","value":{{"id":"{id}"{rest}}},
            "headers":{{"operation":"{operation}","txids":[{txid}],"lsn":"5"}}}}"#
    )
}

/// A piece of the log `handle` that ends at `offset`.
fn page(handle: &str, offset: &str, messages: &[&str]) -> Reply {
    Reply::new(200)
        .header("content-type", "application/json; charset=utf-8")
        .header("electric-handle", handle)
        .header("electric-offset", offset)
        .header("electric-cursor", "7")
        .header("electric-schema", &SCHEMA.replace('\n', ""))
        .body(&format!("[{}]", messages.join(",")))
}

fn builder(sys: &Sys, script: &Script) -> ShapeBuilder<Todo> {
    let soon = Duration::from_millis(1);
    let retry = Retry { attempts_max: 5, pause_min: soon, pause_max: soon };
    Shape::builder(sys, &script.url()).table("todos").retry(retry)
}

fn texts(todos: &Collection<Todo>) -> Vec<String> {
    todos.rows().iter().map(|row| format!("{}:{}", row.id, row.text)).collect()
}

/// Waits until the collection shows this.
async fn shows(todos: &Collection<Todo>, wanted: &[&str]) {
    let mut changes = todos.changes().unwrap();
    while texts(todos) != wanted {
        changes.next().await;
    }
}

async fn fails(todos: &Collection<Todo>) -> String {
    todos.ready().await.unwrap_err().to_string()
}

#[tokio::test]
async fn pages_are_shown_together_and_followed() {
    let sys = Sys::real();
    let script = Script::serve([
        page("h1", "0_0", &[&insert(1, "a")]),
        page("h1", "1_0", &[&insert(2, "b")]),
        page("h1", "2_0", &[UP]),
        page(
            "h1",
            "3_0",
            &[&change("update", 1, r#","done":"t""#, 41), &change("delete", 2, "", 41), UP],
        ),
    ])
    .await;
    let db = Db::new(&sys);
    let shape = builder(&sys, &script).build().unwrap();
    let handle = shape.handle();
    let todos = db.collection::<Todo>(shape).unwrap();
    assert_eq!(todos.status(), Status::Loading);
    todos.ready().await.unwrap();
    handle.await_txid(41, Duration::from_secs(20)).await.unwrap();
    let rows = todos.rows();
    let wanted = Todo { id: 1, text: "a".into(), done: true, note: None };
    assert_eq!(rows.iter().map(|row| (**row).clone()).collect::<Vec<_>>(), [wanted]);
    assert_eq!(
        script.asked_for(5).await,
        [
            "log=full&offset=-1&table=todos",
            "handle=h1&log=full&offset=0_0&table=todos",
            "handle=h1&log=full&offset=1_0&table=todos",
            "cursor=7&handle=h1&live=true&log=full&offset=2_0&table=todos",
            "cursor=7&handle=h1&live=true&log=full&offset=3_0&table=todos",
        ]
    );
}

#[tokio::test]
async fn a_log_that_is_given_up_is_never_seen_half_or_empty() {
    let sys = Sys::real();
    let script = Script::serve([
        page("h1", "0_0", &[&insert(1, "a"), &insert(2, "b"), UP]),
        Reply::new(409)
            .header("electric-handle", "h2")
            .body(r#"[{"headers":{"control":"must-refetch"}}]"#),
        page("h2", "0_0", &[&insert(2, "B")]),
        page("h2", "1_0", &[&insert(3, "C"), UP]),
    ])
    .await;
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
    todos.ready().await.unwrap();
    let mut seen = vec![texts(&todos)];
    let mut changes = todos.changes().unwrap();
    while texts(&todos) != ["2:B", "3:C"] {
        changes.next().await;
        seen.push(texts(&todos));
    }
    seen.dedup();
    assert!(seen.iter().all(|rows| *rows == ["1:a", "2:b"] || *rows == ["2:B", "3:C"]), "{seen:?}");
    let asked = script.asked_for(4).await;
    assert!(asked[2].contains("expired_handle=h1&handle=h2&log=full&offset=-1"), "{}", asked[2]);
    assert!(asked[2].contains("cache-buster="), "{}", asked[2]);
}

#[tokio::test]
async fn what_passes_is_tried_again_from_the_same_place() {
    let sys = Sys::real();
    let whole = page("h1", "0_0", &[&insert(1, "a"), UP]);
    let script = Script::serve([
        Reply::new(429).header("retry-after", "0").body("slow down"),
        Reply::new(503).body(r#"{"message":"not ready"}"#),
        Reply::new(500).body(""),
        whole.clone().cut_at(40),
        whole,
    ])
    .await;
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
    shows(&todos, &["1:a"]).await;
    let asked = script.asked_for(5).await;
    assert!(asked[..5].iter().all(|asked| asked.contains("offset=-1")), "{asked:?}");
}

#[tokio::test]
async fn a_page_that_is_cut_anywhere_shows_nothing() {
    let sys = Sys::real();
    let whole = page("h1", "0_0", &[&insert(1, "ü"), UP]);
    let cuts = whole.body_len();
    for cut in (0..cuts).step_by(7) {
        let script = Script::serve([whole.clone().cut_at(cut), page("h1", "0_0", &[UP])]).await;
        let db = Db::new(&sys);
        let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
        todos.ready().await.unwrap();
        assert!(todos.is_empty(), "cut at {cut}");
    }
}

#[tokio::test]
async fn what_does_not_pass_is_told_with_the_words_of_the_server() {
    let sys = Sys::real();
    for status in [400, 401, 403, 404, 301] {
        let script =
            Script::serve([Reply::new(status).body(r#"{"message":"no such thing"}"#)]).await;
        let db = Db::new(&sys);
        let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
        let why = fails(&todos).await;
        assert!(why.contains(&status.to_string()) && why.contains("no such thing"), "{why}");
        assert!(why.contains("\"todos\""), "{why}");
    }
}

#[tokio::test]
async fn attempts_are_bounded_if_that_is_asked_for() {
    let sys = Sys::real();
    let script = Script::serve(std::iter::repeat_n(Reply::new(500).body("down"), 9)).await;
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
    let why = fails(&todos).await;
    assert!(why.ends_with("down; given up after 5 attempts"), "{why}");
}

#[tokio::test]
async fn answers_that_are_no_log_are_refused() {
    let sys = Sys::real();
    let plain = || page("h1", "0_0", &[UP]);
    for (reply, word) in [
        (plain().header("content-type", "text/html"), "text/html"),
        (plain().without("electric-handle"), "electric-handle"),
        (plain().without("electric-offset"), "electric-offset"),
        (plain().without("electric-schema"), "electric-schema"),
        (plain().header("electric-schema", "[]"), "electric-schema"),
        (plain().body("[{]"), "no JSON"),
        (plain().body("{}"), "another form"),
        (page("h1", "0_0", &[r#"{"headers":{"event":"move-out","patterns":[]}}"#]), "subquery"),
    ] {
        let script = Script::serve([reply]).await;
        let db = Db::new(&sys);
        let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
        let why = fails(&todos).await;
        assert!(why.contains(word), "{word}: {why}");
    }
}

#[tokio::test]
async fn a_body_without_end_is_refused() {
    let sys = Sys::real();
    let endless = page("h1", "0_0", &[]).repeating(source_electric::caps::ANSWER_BYTES_MAX + 1);
    let script = Script::serve([endless]).await;
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
    let why = fails(&todos).await;
    assert!(why.contains("more than"), "{why}");
}

#[tokio::test]
async fn rows_that_do_not_fit_are_left_out_and_come_back_whole() {
    let sys = Sys::real();
    let null = change("insert", 1, r#","text":null,"done":"f""#, 0);
    let bad = change("insert", 2, r#","text":"b","done":"maybe""#, 0);
    let script = Script::serve([
        page("h1", "0_0", &[&null, &bad, &insert(3, "c"), &insert(4, "d"), UP]),
        // Part of a row that is not there, a row that ceases to fit, and one that is whole again.
        page(
            "h1",
            "1_0",
            &[
                &change("update", 1, r#","done":"t""#, 1),
                &change("update", 4, r#","text":null"#, 1),
                &change("update", 2, r#","text":"B","done":"t","note":"now""#, 1),
                UP,
            ],
        ),
    ])
    .await;
    let db = Db::new(&sys);
    let shape = builder(&sys, &script).replica(Replica::Full).build().unwrap();
    let todos = db.collection::<Todo>(shape).unwrap();
    shows(&todos, &["3:c", "4:d"]).await;
    shows(&todos, &["2:B", "3:c"]).await;
    assert!(script.asked_for(1).await[0].contains("replica=full"));
}

#[tokio::test]
async fn a_cache_that_keeps_a_log_that_was_given_up_is_passed_by_or_told_of() {
    let sys = Sys::real();
    let old = || page("h1", "0_0", &[&insert(1, "old"), UP]);
    let gone = || Reply::new(409).header("electric-handle", "h2").body("[]");
    let new = page("h2", "0_0", &[&insert(1, "new"), UP]);
    let script = Script::serve([old(), gone(), old(), old(), new]).await;
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
    shows(&todos, &["1:new"]).await;
    let script = Script::serve([old(), gone(), old(), old(), old(), old()]).await;
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
    todos.ready().await.unwrap();
    while !matches!(todos.status(), Status::Error(_)) {
        tokio::task::yield_now().await;
    }
    assert_eq!(texts(&todos), ["1:old"]);
}

#[tokio::test]
async fn events_are_followed_and_what_is_not_finished_is_not_shown() {
    let sys = Sys::real();
    let up = |lsn: u32| {
        format!(r#"{{"headers":{{"control":"up-to-date","global_last_seen_lsn":"{lsn}"}}}}"#)
    };
    let data = |message: &str| format!("data: {}\n\n", message.replace('\n', ""));
    let events = |body: String| {
        page("h1", "1_0", &[]).header("content-type", "text/event-stream").body(&body)
    };
    let script = Script::serve([
        page("h1", "0_0", &[&insert(1, "a"), UP]),
        events(
            [": keep-alive\n\n", &data(&insert(2, "b")), &data(&up(8)), &data(&insert(3, "half"))]
                .concat(),
        ),
        events([data(&insert(4, "d")), data(&up(9))].concat()),
    ])
    .await;
    let db = Db::new(&sys);
    let shape = builder(&sys, &script).following(Following::Events).build().unwrap();
    let todos = db.collection::<Todo>(shape).unwrap();
    shows(&todos, &["1:a", "2:b"]).await;
    shows(&todos, &["1:a", "2:b", "4:d"]).await;
    let asked = script.asked_for(4).await;
    assert!(asked[1].contains("live=true&live_sse=true"), "{}", asked[1]);
    assert!(asked[2].contains("offset=8_0"), "{}", asked[2]);
    assert!(asked[3].contains("offset=9_0"), "{}", asked[3]);
}

#[tokio::test]
async fn on_demand_a_subset_is_asked_for_and_nothing_it_has_is_shown_twice() {
    let sys = Sys::real();
    let at = |id, text: &str, txid| {
        change("insert", id, &format!(r#","text":"{text}","done":"f","note":null"#), txid)
    };
    let snapshot = format!(
        r#"{{"metadata":{{"snapshot_mark":1,"database_lsn":"9","xmin":"40","xmax":"45",
            "xip_list":["42"]}},"data":[{}]}}"#,
        at(1, "in the snapshot", 0)
    );
    let script = Script::serve([
        page("h1", "3_0", &[UP]),
        // A long-poll that is given up for the subset.
        Reply::waiting(),
        page("h1", "3_0", &[]).body(&snapshot),
        // In the snapshot; not in it, as it had not ended; for a row that nobody wants.
        page("h1", "5_0", &[&at(1, "old", 41), &at(2, "b", 42), &at(9, "unwanted", 43), UP]),
    ])
    .await;
    let db = Db::new(&sys);
    let shape = builder(&sys, &script).loading(Loading::OnDemand).build().unwrap();
    let handle = shape.handle();
    let todos = db.collection::<Todo>(shape).unwrap();
    todos.ready().await.unwrap();
    script.asked_for(2).await;
    let few = db.live(live::from::<Todo>().filter(Todo::id.lt(5))).unwrap();
    few.ready().await.unwrap();
    handle.await_txid(42, Duration::from_secs(20)).await.unwrap();
    assert_eq!(texts(&todos), ["1:in the snapshot", "2:b"]);
    // What is in the snapshot has come, too.
    handle.await_txid(41, Duration::from_secs(20)).await.unwrap();
    let asked = script.asked_for(4).await;
    assert_eq!(asked[0], "log=changes_only&offset=now&replica=full&table=todos");
    let subset = "handle=h1&log=changes_only&offset=3_0&replica=full&table=todos \
        {\"params\":{\"1\":\"5\"},\"where\":\"(\\\"id\\\" < $1)\"}";
    assert_eq!(asked[2], subset);
    assert!(asked[3].contains("live=true"), "{}", asked[3]);
}

#[tokio::test]
async fn requests_end_with_the_database() {
    let sys = Sys::real();
    let script = Script::serve([page("h1", "0_0", &[UP])]).await;
    let db = Db::new(&sys);
    let todos = db.collection::<Todo>(builder(&sys, &script).build().unwrap()).unwrap();
    todos.ready().await.unwrap();
    script.asked_for(2).await;
    drop((db, todos));
    script.hangs_up().await;
}

#[test]
fn a_shape_needs_a_url() {
    let refused = Shape::<Todo>::builder(&Sys::real(), "todos").build().unwrap_err();
    assert!(matches!(refused, BadShape::Url { .. }) && !refused.is_retryable());
}
