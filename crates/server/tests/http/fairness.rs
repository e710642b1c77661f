//! What one client holds, others do not lack.

use std::time::Duration;

use log::Log as _;
use server::{Limits, Settings};
use wire::{Glob, framing::PREFIX_BYTES};

use crate::{
    raw_http2,
    support::{Harness, Request, Wire, settings},
};

/// The last part of the address of a client that takes all it can get; others have 127.0.0.1.
const GREEDY: u8 = 2;

async fn limited(limits: Limits) -> Harness {
    let server = Harness::with(Settings { limits, ..settings() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    server
}

async fn opened(server: &Harness, request: &str) -> Wire {
    let mut wire = server.connect_from(GREEDY).await;
    wire.send(request).await;
    wire
}

#[tokio::test]
async fn stalled_uploads_of_one_client_refuse_that_client_alone() {
    let limits =
        Limits { inflight_bytes_max: 160_000, body_bytes_max: 50_000, ..Limits::default() };
    let server = limited(limits).await;
    let body = "x".repeat(40_000);
    let post = Request::new("POST", "/v1/stream/a").header("content-type", "text/plain");
    let whole = post.body(&body).to_string();
    let mut stalled = Vec::new();
    for _ in 0..4 {
        stalled.push(opened(&server, &whole[..whole.len() - 1]).await);
    }
    server.until_gauge("headwater_http_shed_total", |shed| shed == 3).await;
    server.append("/v1/stream/a", "text/plain", &"y".repeat(30_000)).await.expect(204);
}

#[tokio::test]
async fn slow_readers_of_one_client_refuse_that_client_alone() {
    let large = "x".repeat(12 * 1024 * 1024);
    let limits = Limits { outgoing_bytes_max: 30_000_000, ..Limits::default() };
    let server = limited(limits).await;
    server.append("/v1/stream/a", "text/plain", &large).await.expect(204);
    let get = Request::new("GET", "/v1/stream/a?offset=-1").to_string();
    let mut slow = opened(&server, &get).await;
    slow.head().await.expect(200);
    let refused = opened(&server, &get).await.answer().await.expect(503);
    assert_eq!((&*refused.code(), refused.header("retry-after")), ("overloaded", Some("1")));
    assert_eq!(server.get("/v1/stream/a?offset=-1").await.expect(200).body.len(), large.len());
}

#[tokio::test]
async fn live_readers_and_connections_are_shared_too() {
    let limits = Limits { live_readers_max: 4, connections_max: 8, ..Limits::default() };
    let server = limited(limits).await;
    let live = Request::new("GET", "/v1/stream/a?offset=-1&live=sse").to_string();
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut wire = opened(&server, &live).await;
        wire.until("upToDate").await;
        held.push(wire);
    }
    opened(&server, &live).await.answer().await.expect(503);
    let mut other = server.connect().await;
    other.send(&live).await;
    other.until("upToDate").await;

    // Its third connection may still be closing: it gets four of eight at most.
    loop {
        let mut wire = opened(&server, &Request::new("GET", "/healthz").to_string()).await;
        let answer = wire.answer().await;
        if answer.status == 503 {
            break;
        }
        held.push(wire);
        assert!(held.len() <= 4, "one client holds more than half");
    }
    server.get("/healthz").await.expect(200);
}

/// An answer waits for its reader on HTTP/2 as long as on HTTP/1.1, and no longer.
#[tokio::test]
async fn a_reader_that_never_opens_its_window_is_given_up() {
    let body_timeout = Duration::from_millis(200);
    let server = limited(Limits { body_timeout, ..Limits::default() }).await;
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    for (window, target) in [
        (0, "/v1/stream/a?offset=-1"),
        // What is sent to its end, and never taken.
        (1, "/v1/stream/a?offset=-1"),
        (3, "/v1/stream/a?offset=-1&live=sse"),
    ] {
        let mut wire = server.connect().await;
        wire.send(raw_http2::preface(window)).await;
        wire.send(raw_http2::get(1, target)).await;
        wire.rest().await;
    }
    server.until_gauge("headwater_http_outgoing_bytes", |bytes| bytes <= 16 * 1024).await;
}

/// One that has taken everything may wait for more for as long as it likes.
#[tokio::test]
async fn a_reader_that_waits_for_the_stream_is_not_given_up() {
    let body_timeout = Duration::from_millis(100);
    let sse_keep_alive = Duration::from_millis(400);
    let limits = Limits { body_timeout, ..Limits::default() };
    let server = Harness::with(Settings { limits, sse_keep_alive, ..settings() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut wire = server.connect().await;
    wire.send(raw_http2::preface(65_535)).await;
    wire.send(raw_http2::get(1, "/v1/stream/a?offset=-1&live=sse")).await;
    // Several times its patience passes before the first sign of life.
    wire.until_bytes(b":").await;
}

/// However small each of them is.
#[tokio::test]
async fn answers_that_are_not_taken_are_bounded() {
    let limits = Limits { outgoing_bytes_max: 1_000_000, ..Limits::default() };
    let server = limited(limits).await;
    server.append("/v1/stream/a", "text/plain", &"x".repeat(10_000)).await.expect(204);
    let mut greedy = server.connect_from(GREEDY).await;
    greedy.send(raw_http2::preface(1)).await;
    for number in 0..90 {
        greedy.send(raw_http2::get(1 + 2 * number, "/v1/stream/a?offset=-1")).await;
    }
    server.until_gauge("headwater_http_shed_total", |shed| shed > 0).await;
    server.until_gauge("headwater_http_outgoing_bytes", |bytes| bytes <= 520_000).await;
    for _ in 0..20 {
        server.get("/v1/stream/a?offset=-1").await.expect(200);
    }
}

/// However little each of them says.
#[tokio::test]
async fn requests_under_way_are_bounded() {
    let server = limited(Limits { requests_max: 40, ..Limits::default() }).await;
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    let mut greedy = server.connect_from(GREEDY).await;
    greedy.send(raw_http2::preface(0)).await;
    let asked: Vec<u8> = (0..90)
        .flat_map(|number| raw_http2::get(1 + 2 * number, "/v1/stream/a?offset=-1"))
        .collect();
    greedy.send(asked).await;
    // Not even refusals can be kept for it, so that the connection ends.
    greedy.rest().await;
    for _ in 0..20 {
        server.get("/v1/stream/a?offset=-1").await.expect(200);
    }
}

/// An event has a line for each of the message, and six bytes for each line.
#[tokio::test]
async fn events_count_as_they_are_written() {
    let lines = 1024 * 1024;
    let server = limited(Limits::default()).await;
    server.append("/v1/stream/a", "text/plain", &"\n".repeat(lines)).await.expect(204);
    for target in ["/v1/stream/a?offset=-1&live=sse", "/v1/stream/a?offset=now&live=sse"] {
        let mut slow = opened(&server, &Request::new("GET", target).to_string()).await;
        slow.head().await.expect(200);
        if target.contains("now") {
            server.append("/v1/stream/a", "text/plain", &"\n".repeat(lines)).await.expect(204);
        }
        let least = 6 * lines as u64;
        server.until_gauge("headwater_http_outgoing_bytes", |bytes| bytes >= least).await;
        drop(slow);
        server.until_gauge("headwater_http_outgoing_bytes", |bytes| bytes < least).await;
    }
}

/// A message of one byte has four bytes of a length before it.
#[tokio::test]
async fn frames_count_as_they_are_written() {
    let values = 90_000;
    let server = limited(Limits::default()).await;
    server.create("/v1/stream/j", "application/json").await;
    let batch = format!("[{}]", vec!["1"; values].join(","));
    for _ in 0..11 {
        server.append("/v1/stream/j", "application/json", &batch).await.expect(204);
    }
    let get = Request::new("GET", "/v1/stream/j?offset=-1").header("stream-framing", "length");
    let mut slow = opened(&server, &get.to_string()).await;
    slow.head().await.expect(200);
    let least = (11 * values * (1 + PREFIX_BYTES)) as u64;
    server.until_gauge("headwater_http_outgoing_bytes", |bytes| bytes >= least).await;
}

/// Watchers are few: one client that takes all it gets leaves some to others, and the process has
/// its own.
#[tokio::test]
async fn watches_of_one_client_leave_places_to_others_and_to_the_process() {
    const STREAMS: u32 = 100;
    let server = limited(Limits::default()).await;
    let mut greedy = Vec::new();
    for _ in 0..log::WATCHERS_MAX as u32 / STREAMS + 1 {
        let mut wire = server.connect_from(GREEDY).await;
        wire.send(raw_http2::preface(65_535)).await;
        let watches = (0..STREAMS).flat_map(|n| raw_http2::get(1 + 2 * n, "/v1/stream/?watch=**"));
        wire.send(watches.collect::<Vec<u8>>()).await;
        greedy.push(wire);
    }
    server.until_gauge("headwater_http_shed_total", |shed| shed > 2 * u64::from(STREAMS)).await;
    let mut other = server.connect().await;
    other.send(Request::new("GET", "/v1/stream/?watch=**").to_string()).await;
    other.head().await.expect(200);
    other.until("keep-alive").await;
    let mut own = server.log.watch(Glob::everything()).expect("a place for the process");
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    assert!(own.next().await.is_some());
    other.until("event: moved").await;
}
