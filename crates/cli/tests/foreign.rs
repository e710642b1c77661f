//! Writers that know nothing of sessions: they append a message to the stream of one, over HTTP or
//! while no server runs, and its agent answers.

#![allow(clippy::disallowed_methods, reason = "processes, and the time they take, are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;
#[path = "sessions/world.rs"]
#[allow(dead_code, reason = "each test target uses its own part of this")]
mod world;

use std::path::Path;

use http::Method;
use serde_json::{Value, json};
use support::Client;
use world::{Dev, answer_in, has_ended, rows, run};

fn path(session: &str) -> String {
    format!("main/sessions/{session}")
}

/// A message of a person, as it stands in the stream of a session.
fn message(id: &str) -> Value {
    let value = json!({
        "id": id, "role": "user", "content": format!("I am {id}."), "actorId": "ada",
        "targetAgent": "assistant", "createdAt": "2026-01-01T00:00:00.000Z",
    });
    json!({ "type": "message", "key": id, "value": value, "headers": { "operation": "insert" } })
}

/// Waits until so many messages of a session are answered, the last of them this one.
fn answered(dev: &Dev, session: &str, count: usize, id: &str) {
    let messages = dev.until(session, |messages| has_ended(messages, count));
    let generations = rows(&messages, "generation");
    assert!(generations.iter().all(|row| row["status"] == "completed"), "{generations:?}");
    let answer = answer_in(&messages);
    assert!(answer.contains(&format!("I am {id}.")), "{answer}");
}

/// Appends a message to the stream of a session, on the disk alone.
fn append_offline(dir: &Path, session: &str, id: &str) {
    let append = ["stream", "append", &path(session), "--data-dir", "data"];
    run(dir, &append, &(message(id).to_string() + "\n")).ok();
}

#[tokio::test]
async fn a_message_that_is_posted_to_the_stream_of_a_session_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path());
    let client = Client::new(&dev.address);
    let own = dev.session.clone();
    for session in [&*own, "made-by-a-stranger"] {
        let create = client.ask(Method::PUT, &path(session)).body("application/json", "");
        let created = create.send().await.unwrap().status;
        assert!(matches!(created, 200 | 201), "{session}: {created}");
        for (count, id) in [(1, "one"), (2, "two")] {
            let text = message(id).to_string();
            let post = client.ask(Method::POST, &path(session)).body("application/json", text);
            let posted = post.send().await.unwrap();
            assert!(matches!(posted.status, 200 | 204), "{session}: {posted:?}");
            answered(&dev, session, count, id);
        }
    }
    dev.stop();
}

#[test]
fn a_message_that_was_appended_between_two_lives_of_a_server_is_answered_by_the_second() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path());
    let session = dev.session.clone();
    let token = dev.token(&session);
    assert_eq!(dev.say(&session, &token, "m1", "I am one.").status, 201);
    answered(&dev, &session, 1, "one");
    dev.stop();

    append_offline(dir.path(), &session, "two");
    let dev = Dev::start(dir.path());
    answered(&dev, &session, 2, "two");
    dev.kill();

    append_offline(dir.path(), &session, "three");
    let dev = Dev::start(dir.path());
    answered(&dev, &session, 3, "three");
    dev.stop();
}
