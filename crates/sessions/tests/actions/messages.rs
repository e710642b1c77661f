//! What people say, and stop.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use log::{Answer, Append, AppendError, Appended, Layer, Log, MemoryLog, Unavailable};
use serde_json::{Value, json};
use server::Access;
use sessions::caps::{ACTION_BODY_BYTES_MAX, TEXT_BYTES_MAX};

use sys::Sys;
use wire::Address;

use crate::support::{Tokens, World};

#[tokio::test]
async fn a_message_is_a_row_of_whoever_has_the_token() {
    let world = World::new().await;
    let done = world.act("messages", &json!({"id": "m1", "text": "hi"})).await.expect(201);
    assert_eq!(done.body["id"], "m1");
    let rows = world.stream().await;
    let row = &rows[0];
    assert_eq!((&row["type"], &row["key"]), (&json!("message"), &json!("m1")));
    assert_eq!(row["headers"]["operation"], "insert");
    assert_eq!(row["headers"]["txid"], done.body["txid"]);
    let value = &row["value"];
    assert_eq!(value["role"], "user");
    assert_eq!(value["content"], "hi");
    assert_eq!(value["actorId"], "ada");
    assert_eq!(value["targetAgent"], "assistant");
    assert!(value["createdAt"].as_str().unwrap().ends_with('Z'));

    let other = json!({"text": "to you", "targetAgent": "critic"});
    let drawn = world.act("messages", &other).await.expect(201);
    let rows = world.stream().await;
    assert_eq!(rows[1]["key"], drawn.body["id"]);
    assert_eq!(rows[1]["value"]["targetAgent"], "critic");
    let head =
        world.ask_with("HEAD", "/v1/stream/main/sessions/s", "host: localhost\r\n", "").await;
    let offset = drawn.body["offset"].as_str().unwrap();
    assert!(head.head.contains(&format!("stream-next-offset: {offset}")), "{}", head.head);
}

#[tokio::test]
async fn the_same_id_is_the_same_message_in_every_life() {
    let world = World::new().await;
    let hi = json!({"id": "m1", "text": "hi"});
    let first = world.act("messages", &hi).await.expect(201);
    world.act("messages", &json!({"id": "m2", "text": "hi"})).await.expect(201);
    let again = world.act("messages", &hi).await.expect(200);
    assert_eq!(first.body, again.body);
    let other = world.act("messages", &json!({"id": "m1", "text": "ho"})).await.expect(409);
    other.says("\"m1\" was used for something else");

    let reborn = world.again().await;
    assert_eq!(reborn.act("messages", &hi).await.expect(200).body, first.body);
    reborn.act("messages", &json!({"id": "m1", "text": "ho"})).await.expect(409);
    // A stop may have the id of a message.
    reborn.act("stop", &json!({"id": "m1"})).await.expect(201);
    reborn.act("stop", &json!({"id": "m1"})).await.expect(200);
    assert_eq!(world.stream().await.len(), 3);
}

#[tokio::test]
async fn many_at_once_are_one() {
    let world = World::new().await;
    let hi = json!({"id": "m1", "text": "hi"});
    let asks = (0..20).map(|_| world.act("messages", &hi));
    let answers = futures_util::future::join_all(asks).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    let same = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((made, same), (1, 19));
    assert_eq!(world.stream().await.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_said_is_refused_and_changes_nothing() {
    let world = World::new().await;
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    let rows: Vec<(Value, u16, &str)> = vec![
        (json!({"text": ""}), 422, "text: it says nothing"),
        (json!({"text": " \n\t"}), 422, "text: it says nothing"),
        (json!({}), 422, "missing field `text`"),
        (json!({"text": 7}), 422, "expected a string"),
        (json!([]), 422, "invalid"),
        (json!({"text": "x", "role": "system"}), 422, "unknown field `role`"),
        (json!({"text": "x", "actorId": "eve"}), 422, "unknown field `actorId`"),
        (json!({"text": "x", "id": ""}), 422, "id: use 1 to"),
        (json!({"text": "x", "id": "a:b"}), 422, "id: use 1 to"),
        (json!({"text": "x", "id": "a".repeat(65)}), 422, "id: use 1 to"),
        (json!({"text": "x", "targetAgent": "a\nb"}), 422, "targetAgent"),
        (json!({"text": long}), 413, "at most 262144"),
    ];
    for (body, status, words) in rows {
        world.act("messages", &body).await.expect(status).says(words);
    }
    let token = world.token("s", "ada", &[Access::Act]);
    for body in ["", "{", "text", "{\"text\":\"x\"}}"] {
        world.ask("POST", "/v1/sessions/s/messages", &token, body).await.expect(400);
    }
    let huge = " ".repeat(ACTION_BODY_BYTES_MAX + 1);
    let refused = world.ask("POST", "/v1/sessions/s/messages", &token, &huge).await;
    assert_eq!(refused.status, 413);
    world.act("stop", &json!({"reason": "x".repeat(2000)})).await.expect(413);
    assert_eq!(world.stream().await.len(), 0);
    // As long as it may be, and everything escaped.
    let text = "\u{1}".repeat(TEXT_BYTES_MAX);
    world.act("messages", &json!({ "text": text })).await.expect(201);
}

#[tokio::test]
async fn who_may_not_act_does_not() {
    let world = World::new().await;
    let hi = json!({"text": "hi"}).to_string();
    let say = |token: String| {
        let (world, hi) = (&world, &hi);
        async move { world.ask("POST", "/v1/sessions/s/messages", &token, hi).await }
    };
    let nobody = say(String::new()).await.expect(401);
    assert!(nobody.head.contains("www-authenticate: bearer"), "{}", nobody.head);
    say("nonsense".to_owned()).await.expect(401);
    let all_but_act = [Access::Read, Access::Write, Access::Admin];
    say(world.token("s", "eve", &all_but_act)).await.expect(403).says("lacks the scope act");
    say(world.token("other", "eve", &[Access::Act])).await.expect(403);
    assert_eq!(world.stream().await.len(), 0);
    // The token of a page reads its session, and cannot write to its stream.
    let page = world.token("s", "ada", &[Access::Read, Access::Act]);
    let read = world.ask("GET", "/v1/stream/main/sessions/s", &page, "").await;
    assert_eq!(read.status, 200);
    let write = world.ask("POST", "/v1/stream/main/sessions/s", &page, "{}").await;
    assert_eq!(write.status, 403);
}

#[tokio::test]
async fn there_must_be_a_session() {
    let world = World::empty(Tokens::Kept).await;
    let refused = world.act("messages", &json!({"text": "hi"})).await.expect(404);
    refused.says("PUT /v1/sessions/s");
    world.ask("PUT", "/v1/sessions/s", "", "").await.expect(201);
    world.act("messages", &json!({"text": "hi"})).await.expect(201);
    world.ask("DELETE", "/v1/stream/main/sessions/s", "", "").await;
    world.act("messages", &json!({"text": "hi"})).await.expect(404);
    // A session made anew has no past.
    world.ask("PUT", "/v1/sessions/s", "", "").await.expect(201);
    world.act("messages", &json!({"id": "m1", "text": "hi"})).await.expect(201);
    assert_eq!(world.stream().await.len(), 1);
}

#[tokio::test]
async fn a_closed_session_says_so() {
    let world = World::new().await;
    let headers = "host: localhost\r\nstream-closed: true\r\n";
    world.ask_with("POST", "/v1/stream/main/sessions/s", headers, "").await;
    world.act("messages", &json!({"text": "hi"})).await.expect(409).says("takes nothing");
}

#[tokio::test]
async fn a_stop_needs_no_words() {
    let world = World::new().await;
    let token = world.token("s", "ada", &[Access::Act]);
    world.ask("POST", "/v1/sessions/s/stop", &token, "").await.expect(201);
    let stop = json!({"generationId": "assistant-4", "reason": "enough"});
    world.act("stop", &stop).await.expect(201);
    let rows = world.stream().await;
    assert_eq!(rows[0]["type"], "stop");
    assert_eq!(rows[0]["value"]["actorId"], "ada");
    assert_eq!(rows[0]["value"].get("generationId"), None);
    assert_eq!(rows[1]["value"]["generationId"], "assistant-4");
    assert_eq!(rows[1]["value"]["reason"], "enough");
}

#[tokio::test]
async fn a_full_disk_is_told_as_what_it_is() {
    let sys = Sys::real();
    let is_full = Arc::new(AtomicBool::new(false));
    let log = Filling { log: MemoryLog::new(&sys), is_full: is_full.clone() };
    let world = World::over(sys, Arc::new(log), Tokens::Given).await;
    let token = world.token("s", "ada", &[Access::Act]);
    world.ask("PUT", "/v1/sessions/s", &token, "").await.expect(201);

    is_full.store(true, Ordering::Relaxed);
    let hi = json!({"id": "m1", "text": "hi"});
    let refused = world.act("messages", &hi).await.expect(507);
    assert_eq!(refused.body["code"], "disk-full");
    assert!(refused.head.contains("retry-after: 10"), "{}", refused.head);
    refused.says("nothing was stored");
    world.act("stop", &json!({})).await.expect(507);
    world.ask("GET", "/readyz", "", "").await.expect(507);
    world.ask("GET", "/healthz", "", "").await.expect(200);

    is_full.store(false, Ordering::Relaxed);
    world.act("messages", &hi).await.expect(201);
    assert_eq!(world.stream().await.len(), 1);
    world.ask("GET", "/readyz", "", "").await.expect(200);
}

/// A log whose disk may be full.
#[derive(Debug)]
struct Filling {
    log: MemoryLog,
    is_full: Arc<AtomicBool>,
}

impl Layer for Filling {
    fn behind(&self) -> &dyn Log {
        &self.log
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Box::pin(async { Err(Unavailable::DiskFull(String::new()).into()) }),
            false => self.log.append(address, append),
        }
    }
}
