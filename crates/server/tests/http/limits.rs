//! What is too much is refused, early and politely.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use log::{
    Answer, Append, AppendError, Appended, Layer, Log, MemoryLog, TooManyProducers, Unavailable,
};
use server::{Limits, Rate, Settings};
use sys::Sys;
use wire::Address;

use crate::support::{Harness, Request, settings};

async fn limited(limits: Limits) -> Harness {
    Harness::with(Settings { limits, ..settings() }).await
}

fn post(length: &str) -> String {
    format!(
        "POST /v1/stream/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
         content-length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_refused_unread() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    for length in ["16777217", "1000000000000"] {
        let mut wire = server.connect().await;
        wire.send(post(length)).await;
        let answer = wire.answer().await.expect(413);
        assert_eq!(answer.code(), "too-large");
        assert!(answer.text().contains("16777216"));
    }
}

#[tokio::test]
async fn a_body_that_grows_too_large_is_cut_off() {
    let server = limited(Limits { body_bytes_max: 10, ..Limits::default() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let chunked = "POST /v1/stream/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
                   transfer-encoding: chunked\r\n\r\n";
    let mut wire = server.connect().await;
    wire.send(format!("{chunked}5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n")).await;
    wire.answer().await.expect(204);
    let mut wire = server.connect().await;
    wire.send(format!("{chunked}5\r\nhello\r\n6\r\nworld!\r\n")).await;
    wire.answer().await.expect(413);
    assert_eq!(server.get("/v1/stream/a").await.text(), "helloworld");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let body_timeout = Duration::from_millis(100);
    let server = limited(Limits { body_timeout, ..Limits::default() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut wire = server.connect().await;
    wire.send(post("5") + "hel").await;
    assert_eq!(wire.answer().await.expect(408).code(), "request-timeout");
    let mut wire = server.connect().await;
    wire.send(post("5") + "hel").await;
    drop(wire);
    assert_eq!(server.get("/v1/stream/a").await.text(), "");
}

#[tokio::test]
async fn headers_that_do_not_come_end_the_connection() {
    let header_timeout = Duration::from_millis(200);
    let server = limited(Limits { header_timeout, ..Limits::default() }).await;
    for start in ["", "G", "PRI * HTTP", "GET /healthz HTTP/1.1\r\nhost:"] {
        let mut wire = server.connect().await;
        wire.send(start).await;
        let answer = String::from_utf8(wire.rest().await).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{start:?}: {answer}");
    }
    server.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused() {
    let server = Harness::start().await;
    let get = Request::new("GET", "/healthz");
    server.ask(get.clone().header("x", "y".repeat(32 * 1024))).await.expect(200);
    let mut wire = server.connect().await;
    wire.send(get.header("x", "y".repeat(128 * 1024)).to_string()).await;
    let answer = String::from_utf8(wire.rest().await).unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let server = limited(Limits { connections_max: 3, ..Limits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut wire = server.connect().await;
        wire.send(Request::new("GET", "/healthz").to_string()).await;
        wire.answer().await.expect(200);
        held.push(wire);
    }
    let refused = server.get("/healthz").await.expect(503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    held.pop();
    while server.get("/healthz").await.status == 503 {}
}

#[tokio::test]
async fn bytes_in_flight_are_bounded() {
    let server = limited(Limits { inflight_bytes_max: 50_000, ..Limits::default() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut slow = server.connect().await;
    slow.send(post("9") + "12345678").await;
    server.until_gauge("headwater_http_incoming_bytes", |bytes| bytes > 0).await;
    let large = "x".repeat(20_000);
    let refused = server.append("/v1/stream/a", "text/plain", &large).await.expect(503);
    assert_eq!((&*refused.code(), refused.header("retry-after")), ("overloaded", Some("1")));
    slow.send("9").await;
    slow.answer().await.expect(204);
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    let shed = "headwater_http_shed_total 1";
    assert!(server.get("/metrics").await.text().contains(shed));
}

/// Whoever announces much and sends nothing keeps nobody else out.
#[tokio::test]
async fn bytes_that_never_came_are_not_in_flight() {
    let limits =
        Limits { inflight_bytes_max: 1_000_000, body_bytes_max: 50_000, ..Limits::default() };
    let server = limited(limits).await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        let mut wire = server.connect().await;
        wire.send(post("50000")).await;
        silent.push(wire);
    }
    // Each counts for being there.
    server.until_gauge("headwater_http_incoming_bytes", |bytes| bytes >= 4 * 16 * 1024).await;
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
}

/// Readers that take nothing hold a bounded number of bytes between them.
#[tokio::test]
async fn bytes_on_their_way_out_are_bounded() {
    let large = "x".repeat(12 * 1024 * 1024);
    let limits = Limits { outgoing_bytes_max: 42_000_000, ..Limits::default() };
    let server = limited(limits).await;
    server.create("/v1/stream/a", "text/plain").await;
    server.append("/v1/stream/a", "text/plain", &large).await.expect(204);
    let get = Request::new("GET", "/v1/stream/a?offset=-1").to_string();
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut wire = server.connect().await;
        wire.send(&get).await;
        wire.head().await.expect(200);
        slow.push(wire);
    }
    let refused = server.get("/v1/stream/a?offset=-1").await.expect(503);
    assert_eq!((&*refused.code(), refused.header("retry-after")), ("overloaded", Some("1")));
    server.get("/healthz").await.expect(200);
    slow.clear();
    while server.get("/v1/stream/a?offset=-1").await.status == 503 {}
}

#[tokio::test]
async fn live_readers_are_bounded() {
    let server = limited(Limits { live_readers_max: 1, ..Limits::default() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut live = server.connect().await;
    live.send(Request::new("GET", "/v1/stream/a?offset=-1&live=sse").to_string()).await;
    live.until("upToDate").await;
    for mode in ["sse", "long-poll"] {
        let target = format!("/v1/stream/a?offset=-1&live={mode}");
        assert_eq!(server.get(&target).await.expect(503).header("retry-after"), Some("1"));
    }
    server.get("/v1/stream/a?offset=-1").await.expect(200);
    drop(live);
    server.until_gauge("headwater_http_live_readers", |readers| readers == 0).await;
    server.get("/v1/stream/a?offset=-1&live=long-poll").await.expect(204);
}

#[tokio::test]
async fn a_client_that_asks_too_often_must_wait() {
    let [per_second, burst] = [1, 3].map(|n| NonZeroU32::new(n).unwrap());
    let rate = Some(Rate { per_second, burst });
    let server = limited(Limits { rate, ..Limits::default() }).await;
    for _ in 0..3 {
        server.get("/v1/stream/a").await.expect(404);
    }
    let refused = server.get("/v1/stream/a").await.expect(429);
    assert_eq!((&*refused.code(), refused.header("retry-after")), ("too-many-requests", Some("1")));
    server.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_busy_log_asks_for_a_retry() {
    for (why, status, code) in [
        (Unavailable::Overloaded, 503, "overloaded"),
        (Unavailable::Closing, 503, "unavailable"),
        (Unavailable::Poisoned("/secret/path".to_owned()), 503, "poisoned"),
        (Unavailable::Read("/secret/path".to_owned()), 500, "internal"),
        (Unavailable::DiskFull("/secret/path".to_owned()), 507, "disk-full"),
        (Unavailable::NoFile("/secret/path".to_owned()), 503, "unavailable"),
    ] {
        let sys = Sys::real();
        let log = Arc::new(MemoryLog::new(&sys));
        let served = Arc::new(Failing { log: log.clone(), why });
        let server = Harness::serving(sys, log, served, settings()).await;
        let refused = server.append("/v1/stream/a", "text/plain", "x").await.expect(status);
        assert_eq!(refused.code(), code);
        assert_eq!(refused.header("retry-after").is_some(), status != 500);
        server.get("/healthz").await.expect(if code == "poisoned" { 503 } else { 200 });
        let ready = match code {
            "poisoned" => 503,
            "disk-full" => 507,
            _ => 200,
        };
        server.get("/readyz").await.expect(ready);
        assert!(!refused.text().contains("secret"));
    }
}

/// Reads, DELETE and trim go on, and so do writes once there is room.
#[tokio::test]
async fn a_full_disk_refuses_writes_and_nothing_else() {
    let sys = Sys::real();
    let log = Arc::new(MemoryLog::new(&sys));
    let is_full = Arc::new(AtomicBool::new(false));
    let served = Arc::new(Filling { log: log.clone(), is_full: is_full.clone() });
    let server = Harness::serving(sys, log, served, settings()).await;
    for target in ["/v1/stream/a", "/v1/stream/b"] {
        server.create(target, "text/plain").await;
    }
    let tail = server.append("/v1/stream/a", "text/plain", "one").await.expect(204).next_offset();

    is_full.store(true, Ordering::Relaxed);
    let refused = server.append("/v1/stream/a", "text/plain", "two").await.expect(507);
    assert_eq!((&*refused.code(), refused.header("retry-after")), ("disk-full", Some("10")));
    assert!(refused.text().contains("delete or trim streams"), "{}", refused.text());
    let unready = server.get("/readyz").await.expect(507);
    assert!(unready.text().contains("no room on the disk"), "{}", unready.text());
    server.get("/healthz").await.expect(200);
    assert_eq!(server.get("/v1/stream/a").await.expect(200).text(), "one");
    let trim = format!("/v1/stream/a?before={tail}");
    server.ask(Request::new("DELETE", &trim)).await.expect(204);
    server.ask(Request::new("DELETE", "/v1/stream/b")).await.expect(204);

    is_full.store(false, Ordering::Relaxed);
    server.append("/v1/stream/a", "text/plain", "two").await.expect(204);
    server.get("/readyz").await.expect(200);
}

#[tokio::test]
async fn a_stream_with_too_many_producers_asks_for_patience() {
    let sys = Sys::real();
    let log = Arc::new(MemoryLog::new(&sys));
    let served = Arc::new(Crowded { log: log.clone() });
    let server = Harness::serving(sys, log, served, settings()).await;
    let refused = server.append("/v1/stream/a", "text/plain", "x").await.expect(429);
    assert_eq!(refused.code(), "too-many-producers");
    assert_eq!(refused.header("retry-after"), Some("60"));
    assert!(refused.text().contains("reuse producer ids"), "{}", refused.text());
}

/// A log whose disk may be full.
#[derive(Debug)]
struct Filling {
    log: Arc<MemoryLog>,
    is_full: Arc<AtomicBool>,
}

impl Layer for Filling {
    fn behind(&self) -> &dyn Log {
        &*self.log
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

/// A log whose streams remember no more producers.
#[derive(Debug)]
struct Crowded {
    log: Arc<MemoryLog>,
}

impl Layer for Crowded {
    fn behind(&self) -> &dyn Log {
        &*self.log
    }

    fn append<'a>(
        &'a self,
        _: &'a Address,
        _: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Box::pin(async { Err(TooManyProducers.into()) })
    }
}

/// A log whose appends fail.
#[derive(Debug)]
struct Failing {
    log: Arc<MemoryLog>,
    why: Unavailable,
}

impl Layer for Failing {
    fn behind(&self) -> &dyn Log {
        &*self.log
    }

    fn append<'a>(
        &'a self,
        _: &'a Address,
        _: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        Box::pin(async { Err(self.why.clone().into()) })
    }
}
