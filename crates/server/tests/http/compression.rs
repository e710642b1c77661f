//! gzip, for those who ask.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use server::{Limits, Settings};

use crate::support::{Answer, Harness, Request, settings};

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

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn post(server: &Harness, target: &str, encoding: &str, body: &[u8]) -> Answer {
    let head = Request::new("POST", target)
        .header("content-type", "application/json")
        .header("content-encoding", encoding)
        .header("content-length", body.len().to_string());
    let mut wire = server.connect().await;
    wire.send([head.to_string().as_bytes(), body].concat()).await;
    wire.answer().await
}

#[tokio::test]
async fn bodies_may_be_sent_as_gzip() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "application/json").await;
    let text = format!("[{}]", vec!["{\"text\":\"hello\"}"; 3000].join(","));
    for (encoding, body) in [
        ("gzip", gzip(br#"{"n":1}"#)),
        ("X-GZIP", gzip(br#"{"n":2}"#)),
        ("identity", br#"{"n":3}"#.to_vec()),
        ("gzip", gzip(text.as_bytes())),
        // A body may be of several parts.
        ("gzip", [gzip(br#"{"n":"#), gzip(b"5}")].concat()),
    ] {
        post(&server, "/v1/stream/a", encoding, &body).await.expect(204);
    }
    let all = server.get("/v1/stream/a").await.text();
    assert!(all.starts_with(r#"[{"n":1},{"n":2},{"n":3},{"text":"hello"}"#), "{all}");
    assert!(all.ends_with(r#"{"text":"hello"},{"n":5}]"#));
}

#[tokio::test]
async fn encodings_that_cannot_be_undone_are_refused_and_store_nothing() {
    let limits = Limits { body_bytes_max: 1024 * 1024, ..Limits::default() };
    let server = Harness::with(Settings { limits, ..settings() }).await;
    server.create("/v1/stream/a", "application/json").await;
    let whole = gzip(br#"{"n":1}"#);
    let bomb = gzip(&vec![b' '; 900 * 1024]);
    let too_large = gzip(&vec![b' '; 2 * 1024 * 1024]);
    assert!(bomb.len() < 2000);
    let mut noise = whole.clone();
    noise.extend(b"noise");
    for (encoding, body, status, code) in [
        ("br", &b"x"[..], 415, "unsupported-encoding"),
        ("deflate", b"x", 415, "unsupported-encoding"),
        ("gzip, gzip", &gzip(&whole), 415, "unsupported-encoding"),
        ("gzip", b"{\"n\":1}", 400, "bad-request"),
        ("gzip", &whole[..whole.len() - 4], 400, "bad-request"),
        ("gzip", &noise, 400, "bad-request"),
        ("gzip", &bomb, 413, "too-large"),
        ("gzip", &too_large, 413, "too-large"),
    ] {
        let refused = post(&server, "/v1/stream/a", encoding, body).await;
        assert_eq!((refused.status, &*refused.code()), (status, code), "{encoding} {refused:?}");
        if status == 415 {
            assert_eq!(refused.header("accept-encoding"), Some("gzip"));
        }
    }
    assert_eq!(server.get("/v1/stream/a").await.text(), "[]");
}
