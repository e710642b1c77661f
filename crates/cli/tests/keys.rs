//! Keys: replaced while a server runs, with nothing dropped and nothing doubted.

#![allow(clippy::disallowed_methods, reason = "processes, and what they leave behind, are real")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::Method;
use ring::signature::{ED25519, UnparsedPublicKey};
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Client, Hook, Launch, Output, Program, Receiver};

fn keys(dir: &Path, verb: &str) -> Output {
    Program::in_dir(dir).args(["keys", verb, "--data-dir", "data"]).run()
}

/// What is published, the key that signs first.
async fn published(client: &Client) -> Vec<Value> {
    let answer = client.ask(Method::GET, "__ds/jwks.json").send().await.unwrap();
    let document: Value = serde_json::from_slice(&answer.body).unwrap();
    document["keys"].as_array().unwrap().clone()
}

/// Asserts that this key signed the call.
fn verify(hook: &Hook, key: &Value) {
    let mut parts = hook.signature.split(',').map(|part| part.split_once('=').unwrap().1);
    let [time, kid, seal] = std::array::from_fn(|_| parts.next().unwrap());
    assert_eq!(key["kid"], kid);
    let public = URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap();
    let signed = [time.as_bytes(), b".", &hook.body].concat();
    let seal = URL_SAFE_NO_PAD.decode(seal).unwrap();
    UnparsedPublicKey::new(&ED25519, public).verify(&signed, &seal).unwrap();
}

async fn ask(client: &Client, method: Method, path: &str, body: Value) -> u16 {
    let asking = client.ask(method, path).body("application/json", body.to_string());
    asking.send().await.unwrap().status
}

#[tokio::test]
async fn a_running_server_takes_a_new_key_and_forgets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut hooks = Receiver::start();
    let mut server = Launch::new(&data).start().unwrap();
    let client = Client::new(&server.address);
    let config = json!({ "type": "webhook", "pattern": "a/*", "webhook": { "url": hooks.url } });
    assert_eq!(ask(&client, Method::PUT, "__ds/subscriptions/s", config).await, 201);
    assert_eq!(ask(&client, Method::PUT, "a/1", json!([1])).await, 201);
    let first = hooks.next().await;
    let old = published(&client).await;
    assert_eq!(old.len(), 1);
    verify(&first, &old[0]);
    let wake = first.json();
    first.answer(202, "");

    let listed = keys(dir.path(), "rotate").ok();
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert_eq!(keys(dir.path(), "list").ok(), listed);
    let mode = fs::metadata(data.join("keys.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(published(&client).await, old, "nobody told the server yet");
    server.signal(Signal::HUP);
    server.logged("keys renewed");
    let both = published(&client).await;
    assert_eq!((both.len(), &both[1]), (2, &old[0]));
    assert!(listed.starts_with(&format!("{} signs\n", both[0]["kid"].as_str().unwrap())));

    // The wake that the old key signed is still good, and so is its token.
    let path = wake["streams"][0]["path"].as_str().unwrap();
    let acks = json!([{ "stream": path, "offset": wake["streams"][0]["tail_offset"] }]);
    let (id, generation) = (&wake["wake_id"], &wake["generation"]);
    let report = json!({ "wake_id": id, "generation": generation, "acks": acks, "done": true });
    let asking = client.ask(Method::POST, "__ds/subscriptions/s/callback");
    let asking = asking.header("authorization", format_args!("Bearer {}", token(&wake)));
    let answer = asking.body("application/json", report.to_string()).send().await.unwrap();
    assert_eq!(answer.status, 200);

    assert_eq!(ask(&client, Method::POST, "a/1", json!([2])).await, 204);
    let second = hooks.next().await;
    verify(&second, &both[0]);
    second.answer(200, r#"{"done":true}"#);
    assert!(server.stop().0.success());

    let server = Launch::new(&data).start().unwrap();
    let client = Client::new(&server.address);
    assert_eq!(published(&client).await, both, "a restart keeps them");
}

fn token(wake: &Value) -> &str {
    wake["callback_token"].as_str().unwrap()
}

#[tokio::test]
async fn keys_that_cannot_be_read_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let refused = keys(dir.path(), "rotate").failed(1);
    assert!(refused.contains("there are no keys; a server makes them"), "{refused}");
    assert!(!data.exists());
    let mut server = Launch::new(&data).start().unwrap();
    let client = Client::new(&server.address);
    let before = published(&client).await;
    fs::write(data.join("keys.json"), "{}").unwrap();
    assert!(keys(dir.path(), "list").failed(1).contains("the keys cannot be read"));
    server.signal(Signal::HUP);
    server.logged("the keys are as they were");
    assert_eq!(published(&client).await, before);
}
