//! gzip, for those who ask.

use std::io::Read as _;

use flate2::read::GzDecoder;

use crate::support::{Answer, Harness, Request};

fn gunzip(answer: &Answer) -> String {
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    GzDecoder::new(answer.body.as_slice()).read_to_string(&mut text).unwrap();
    text
}

/// What an answer depends on besides its address.
const VARIES: &str = "accept-encoding, stream-framing, authorization, origin";

#[tokio::test]
async fn long_answers_are_compressed_on_demand() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let body = "hello ".repeat(10_000);
    server.append("/v1/stream/a", "text/plain", &body).await.expect(204);
    let get = |codings| Request::new("GET", "/v1/stream/a").header("accept-encoding", codings);

    let plain = server.get("/v1/stream/a").await.expect(200);
    assert_eq!(plain.text(), body);
    assert_eq!(plain.header("vary"), Some(VARIES));
    let refused = server.ask(get("gzip;q=0")).await.expect(200);
    assert_eq!((refused.header("content-encoding"), refused.text()), (None, body.clone()));

    let compressed = server.ask(get("br, gzip")).await.expect(200);
    assert_eq!(gunzip(&compressed), body);
    assert!(compressed.body.len() < body.len() / 10);
    assert_eq!(compressed.header("vary"), Some(VARIES));
    let (tag, other) = (compressed.header("etag").unwrap(), plain.header("etag").unwrap());
    assert_ne!(tag, other);
    for known in [tag, other] {
        server.ask(get("gzip").header("if-none-match", known)).await.expect(304);
    }
}

#[tokio::test]
async fn short_answers_and_events_are_not() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    let close = Request::new("POST", "/v1/stream/a").header("stream-closed", "true");
    server
        .ask(close.header("content-type", "text/plain").body(&"x".repeat(5000)))
        .await
        .expect(204);
    for target in ["/v1/stream/a?offset=-1&live=sse", "/v1/stream/b"] {
        let get = Request::new("GET", target).header("accept-encoding", "gzip");
        assert_eq!(server.ask(get).await.header("content-encoding"), None, "{target}");
    }
}

#[tokio::test]
async fn a_long_list_is_compressed_too() {
    let server = Harness::start().await;
    for n in 0..20 {
        server.create(&format!("/v1/stream/{n}"), "text/plain").await;
    }
    let get = Request::new("GET", "/v1/stream/").header("accept-encoding", "gzip");
    assert!(gunzip(&server.ask(get).await.expect(200)).contains("\"path\":\"19\""));
}
