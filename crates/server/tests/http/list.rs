//! The list of streams.

use serde_json::Value;

use crate::support::{Harness, Request};

async fn page(server: &Harness, query: &str) -> Value {
    let answer = server.get(&format!("/v1/stream/{query}")).await.expect(200);
    serde_json::from_slice(&answer.body).unwrap()
}

fn paths(page: &Value) -> Vec<&str> {
    let streams = page["streams"].as_array().unwrap();
    streams.iter().map(|stream| stream["path"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pages_follow_each_other() {
    let server = Harness::start().await;
    for name in ["b/1", "a", "b/2", "b/3", "c d"] {
        server.create(&format!("/v1/stream/{}", name.replace(' ', "%20")), "text/plain").await;
    }
    assert_eq!(paths(&page(&server, "").await), ["a", "b/1", "b/2", "b/3", "c d"]);
    let first = page(&server, "?prefix=b/&limit=2").await;
    assert_eq!(paths(&first), ["b/1", "b/2"]);
    assert_eq!(first["next"], "b/2");
    let second = page(&server, "?prefix=b/&limit=2&after=b%2F2").await;
    assert_eq!(paths(&second), ["b/3"]);
    assert_eq!(second.get("next"), None);
    server.get("/v1/stream/?limit=none").await.expect(400);
    server.get("/v1/stream/?after=//").await.expect(400);
}

#[tokio::test]
async fn a_stream_is_listed_with_what_head_would_tell() {
    let server = Harness::start().await;
    let put = Request::new("PUT", "/v1/stream/a").header("content-type", "application/json");
    server.ask(put.header("stream-ttl", "60").body("[1]")).await.expect(201);
    let put = Request::new("PUT", "/v1/stream/b").header("stream-closed", "true");
    server.ask(put.header("stream-expires-at", "2099-01-01T00:00:00Z")).await.expect(201);
    let page = page(&server, "").await;
    let [a, b] = &page["streams"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!(a["tail"], "0000000000000001_0000000000000001");
    assert_eq!((&a["contentType"], &a["closed"]), (&"application/json".into(), &false.into()));
    assert_eq!((&a["ttl"], a.get("expiresAt")), (&60.into(), None));
    assert_eq!((&b["closed"], b.get("ttl")), (&true.into(), None));
    assert_eq!(b["expiresAt"], "2099-01-01T00:00:00.000Z");
    assert!(a["createdAt"].as_str().unwrap().ends_with('Z'));
}
