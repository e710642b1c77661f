//! Requests that could mean two things are refused.

use crate::support::{Harness, Request};

#[tokio::test]
async fn a_header_sent_twice_is_refused() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let post = || Request::new("POST", "/v1/stream/a").header("content-type", "text/plain");
    let producer = || {
        post().header("producer-id", "p").header("producer-epoch", "0").header("producer-seq", "0")
    };
    let put = || Request::new("PUT", "/v1/stream/b");
    for request in [
        post().header("content-type", "text/plain").body("x"),
        post().header("stream-seq", "1").header("stream-seq", "2").body("x"),
        post().header("stream-closed", "true").header("stream-closed", "false"),
        producer().header("producer-id", "p").body("x"),
        producer().header("producer-epoch", "0").body("x"),
        producer().header("producer-seq", "0").body("x"),
        post()
            .header("stream-expected-offset", "a")
            .header("stream-expected-offset", "b")
            .body("x"),
        put().header("stream-ttl", "60").header("stream-ttl", "60"),
        put().header("stream-ttl", "60").header("stream-expires-at", "2099-01-01T00:00:00Z"),
        put().header("stream-forked-from", "a").header("stream-forked-from", "a"),
    ] {
        let shown = request.to_string();
        let answer = server.ask(request).await;
        assert_eq!((answer.status, answer.code()), (400, "bad-request".to_owned()), "{shown}");
    }
    server.get("/v1/stream/b").await.expect(404);
    assert_eq!(server.get("/v1/stream/a").await.text(), "");
}

#[tokio::test]
async fn names_are_plain() {
    let server = Harness::start().await;
    for path in [
        "a%zz",
        "a%2",
        "a%2Fb",
        "a%00",
        "a%0a",
        "a//b",
        "a/",
        "/a",
        "a/../b",
        "a/%2e%2e/b",
        "%ff",
        "a%5Cb",
    ] {
        let answer = server.ask(Request::new("PUT", &format!("/v1/stream/{path}"))).await;
        assert_eq!((answer.status, answer.code()), (400, "bad-request".to_owned()), "{path}");
    }
    let long = format!("/v1/stream/{}", "x".repeat(2000));
    server.ask(Request::new("PUT", &long)).await.expect(400);
}

#[tokio::test]
async fn reads_say_clearly_what_they_want() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    for (query, status) in [
        ("offset=-1&offset=-1", 400),
        ("offset=", 400),
        ("offset=%31%2", 400),
        ("live=sse", 400),
        ("offset=-1&live=websocket", 400),
        ("offset=-1&live=", 400),
        ("offset=-1&utm_source=x&utm_source=y", 200),
    ] {
        assert_eq!(server.get(&format!("/v1/stream/a?{query}")).await.status, status, "{query}");
    }
}

#[tokio::test]
async fn unknown_places_and_methods_say_so() {
    let server = Harness::start().await;
    for target in ["/", "/v1", "/v1/streams/a", "/v2/stream/a", "/v1/stream/__ds/subscriptions/x"] {
        assert_eq!(server.get(target).await.expect(404).code(), "not-found", "{target}");
    }
    let put = server.ask(Request::new("PUT", "/v1/stream/__ds/keys")).await.expect(404);
    assert_eq!(put.code(), "not-found");
    let patch = server.ask(Request::new("PATCH", "/v1/stream/a")).await.expect(405);
    assert_eq!(patch.header("allow"), Some("GET, POST, PUT, DELETE, HEAD, OPTIONS"));
    let post = server.ask(Request::new("POST", "/v1/stream/")).await.expect(405);
    assert_eq!(post.header("allow"), Some("GET, HEAD, OPTIONS"));
}

/// A proxy in front might believe the length while the server believes the chunks, and take what
/// follows for another request.
#[tokio::test]
async fn a_body_of_two_lengths_ends_the_connection() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let smuggled = "GET /v1/stream/smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for (lengths, body) in [
        ("content-length: 4\r\ntransfer-encoding: chunked", "1\r\nx\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked\r\ncontent-length: 4", "1\r\nx\r\n0\r\n\r\n"),
        ("content-length: 1\r\ncontent-length: 2", "x"),
        ("transfer-encoding: identity, chunked, gzip", "1\r\nx\r\n0\r\n\r\n"),
        ("content-length: +1", "x"),
    ] {
        let mut wire = server.connect().await;
        wire.send(format!(
            "POST /v1/stream/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
             {lengths}\r\n\r\n{body}{smuggled}"
        ))
        .await;
        let everything = String::from_utf8(wire.rest().await).unwrap();
        assert_eq!(everything.matches("HTTP/1.1 ").count(), 1, "{lengths}: {everything}");
    }
}

#[tokio::test]
async fn refusals_are_documents_that_say_what_to_do() {
    let server = Harness::start().await;
    let answer = server.get("/v1/stream/a").await.expect(404);
    let document: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(document["type"], "urn:headwater:problem:stream-not-found");
    assert_eq!(document["code"], "stream-not-found");
    assert_eq!(document["status"], 404);
    assert_eq!(document["title"], "There is no such stream");
    assert!(document["detail"].as_str().unwrap().contains("create it first"));
}
