//! HTTP/1.1 as clients speak it: politely, clumsily, and in pieces.

use std::time::Duration;

use server::{Limits, Settings};

use crate::support::{Harness, Request, settings};

const POST: &str = "POST /v1/stream/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n";

async fn with_stream() -> Harness {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    server
}

#[tokio::test]
async fn a_client_that_waits_for_a_word_gets_it() {
    let server = with_stream().await;
    let mut wire = server.connect().await;
    wire.send(format!("{POST}expect: 100-continue\r\ncontent-length: 5\r\n\r\n")).await;
    assert_eq!(wire.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    wire.send("hello").await;
    wire.answer().await.expect(204);
    assert_eq!(server.get("/v1/stream/a").await.text(), "hello");
}

#[tokio::test]
async fn a_client_that_waits_for_a_word_may_get_another_one() {
    let server = with_stream().await;
    let mut wire = server.connect().await;
    wire.send(format!("{POST}expect: 100-continue\r\ncontent-length: 99999999\r\n\r\n")).await;
    assert_eq!(wire.answer().await.expect(413).header("connection"), Some("close"));
    assert_eq!(wire.rest().await, b"");
}

/// A connection closed in the face of a client that still talks would take the answer with it.
#[tokio::test]
async fn who_is_refused_in_mid_sentence_hears_why() {
    let server = with_stream().await;
    for length in ["content-length: 67108864", "transfer-encoding: chunked\r\nx-x: gzip\r\nx"] {
        let mut wire = server.connect().await;
        wire.send(format!("{POST}stream-seq: 1\r\nstream-seq: 2\r\n{length}\r\n\r\n")).await;
        for _ in 0..64 {
            wire.send(vec![b'x'; 64 * 1024]).await;
        }
        assert!([400, 413].contains(&wire.answer().await.status));
    }
}

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let server = with_stream().await;
    let mut wire = server.connect().await;
    let body = "transfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nt: u\r\n\r\n";
    for byte in format!("\r\n{POST}{body}").bytes() {
        wire.send([byte]).await;
    }
    wire.answer().await.expect(204);
    assert_eq!(server.get("/v1/stream/a").await.text(), "hello!");
}

#[tokio::test]
async fn what_is_no_request_is_told_so_and_changes_nothing() {
    let server = with_stream().await;
    let post = format!("{POST}content-length: 1\r\n");
    for (bytes, status) in [
        ("hello\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\nhost: localhost\n\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/3.0\r\nhost: localhost\r\n\r\n".to_owned(), 400),
        (format!("{post}host: y\r\n\r\nx"), 400),
        (format!("{post}content-length: 1\r\n\r\nx"), 400),
        (format!("{post}transfer-encoding: chunked\r\n\r\n0\r\n\r\n"), 400),
        (format!("{POST}transfer-encoding: gzip\r\n\r\nx"), 501),
        (format!("{POST}transfer-encoding: chunked\r\n\r\nz\r\n"), 400),
        (format!("{post}expect: payment\r\n\r\nx"), 400),
        (format!("{post} folded: yes\r\n\r\nx"), 400),
        (format!("{post}x: {}\r\n\r\nx", "y".repeat(70_000)), 431),
        (format!("{post}{}\r\nx", "x: y\r\n".repeat(200)), 431),
    ] {
        let mut wire = server.connect().await;
        wire.send(&bytes).await;
        let answer = wire.answer().await;
        assert_eq!(answer.status, status, "{bytes:?}: {}", answer.text());
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(!answer.code().is_empty());
        assert_eq!(wire.rest().await, b"", "{bytes:?}");
    }
    assert_eq!(server.get("/v1/stream/a").await.text(), "");
}

#[tokio::test]
async fn old_clients_are_served_and_sent_home() {
    let server = with_stream().await;
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    let mut wire = server.connect().await;
    wire.send("GET /v1/stream/a HTTP/1.0\r\n\r\n").await;
    assert_eq!(wire.answer().await.expect(200).text(), "hello");
    assert_eq!(wire.rest().await, b"");
    let mut wire = server.connect().await;
    wire.send("GET /v1/stream/a?offset=-1&live=sse HTTP/1.0\r\n\r\n").await;
    let head = wire.head().await.expect(200);
    assert_eq!(head.header("transfer-encoding"), None);
    assert_eq!(wire.until("data:hello\n\n").await, "event: data\ndata:hello\n\n");
}

#[tokio::test]
async fn a_head_is_the_same_without_its_body() {
    let server = with_stream().await;
    let mut wire = server.connect().await;
    for (target, length) in [("/healthz", Some("3")), ("/v1/stream/a", None)] {
        wire.send(Request::new("HEAD", target).to_string()).await;
        let head = wire.head().await.expect(200);
        assert_eq!(head.header("content-length"), length, "{target}");
        assert!(head.header("date").is_some_and(|date| date.ends_with(" GMT")));
    }
    wire.send(Request::new("GET", "/healthz").to_string()).await;
    assert_eq!(wire.answer().await.expect(200).text(), "ok\n");
}

#[tokio::test]
async fn requests_sent_ahead_wait_for_their_turn() {
    let server = with_stream().await;
    let mut wire = server.connect().await;
    let poll = Request::new("GET", "/v1/stream/a?offset=-1&live=long-poll").to_string();
    let get = Request::new("GET", "/healthz").to_string();
    wire.send(format!("{poll}{get}{get}")).await;
    wire.answer().await.expect(204);
    wire.answer().await.expect(200);
    wire.answer().await.expect(200);
}

#[tokio::test]
async fn a_poll_whose_client_left_gives_its_seat_back() {
    let long_poll_timeout = Duration::from_secs(60);
    let limits = Limits { live_readers_max: 1, ..Limits::default() };
    let server = Harness::with(Settings { long_poll_timeout, limits, ..settings() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let live = "headwater_http_live_readers 1";
    for _ in 0..3 {
        let mut wire = server.connect().await;
        let poll = Request::new("GET", "/v1/stream/a?offset=-1&live=long-poll");
        wire.send(poll.to_string()).await;
        while !server.get("/metrics").await.text().contains(live) {}
        drop(wire);
        while server.get("/metrics").await.text().contains(live) {}
    }
}

/// It holds one frame, and one connection, and not for ever.
#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off() {
    let body_timeout = Duration::from_millis(200);
    let limits = Limits { body_timeout, ..Limits::default() };
    let server = Harness::with(Settings { limits, ..settings() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let large = "x".repeat(15 * 1024 * 1024);
    server.append("/v1/stream/a", "text/plain", &large).await.expect(204);
    let mut wire = server.connect().await;
    wire.send(Request::new("GET", "/v1/stream/a?offset=-1").to_string()).await;
    let open = "headwater_http_connections 2";
    while !server.get("/metrics").await.text().contains(open) {}
    while server.get("/metrics").await.text().contains(open) {}
    assert!(wire.rest().await.len() < large.len());
}

#[tokio::test]
async fn http2_must_come_first() {
    let server = with_stream().await;
    let mut wire = server.connect().await;
    wire.send(Request::new("GET", "/healthz").to_string()).await;
    wire.answer().await.expect(200);
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert_eq!(wire.answer().await.expect(400).code(), "bad-request");
}

/// A client that has said everything may close its half, and still wants to hear the answers.
#[tokio::test]
async fn who_has_said_everything_still_hears_the_answers() {
    let server = with_stream().await;
    let mut wire = server.connect().await;
    wire.send(format!("{POST}content-length: 1\r\n\r\nx").repeat(3)).await;
    wire.finish().await;
    for _ in 0..3 {
        wire.answer().await.expect(204);
    }
    assert_eq!(wire.rest().await, b"");
    assert_eq!(server.get("/v1/stream/a").await.text(), "xxx");
}

#[tokio::test]
async fn a_target_and_a_host_mean_one_thing() {
    let server = Harness::start().await;
    for (target, host) in [
        ("/v1/stream/a#b", "x"),
        ("/v1/stream/\u{e4}", "x"),
        ("/v1/stream/a", "x/y"),
        ("/v1/stream/a", "x y"),
        ("/v1/stream/a", "user@x"),
        ("/v1/stream/a", ""),
    ] {
        let mut wire = server.connect().await;
        wire.send(format!("PUT {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
        wire.answer().await.expect(400);
    }
    server.get("/v1/stream/a").await.expect(404);
}
