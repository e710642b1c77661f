//! A server that ends lets everybody finish their sentence.

use std::time::Duration;

use server::Settings;

use crate::support::{Harness, Request, Wire, settings};

async fn open(server: &Harness, target: &str) -> Wire {
    let mut wire = server.connect().await;
    wire.send(Request::new("GET", target).to_string()).await;
    wire
}

#[tokio::test]
async fn live_readers_are_let_go_cleanly() {
    let long_poll_timeout = Duration::from_secs(30);
    let server = Harness::with(Settings { long_poll_timeout, ..settings() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut sse = open(&server, "/v1/stream/a?offset=-1&live=sse").await;
    sse.head().await.expect(200);
    let frame = sse.chunk().await.unwrap();
    assert!(String::from_utf8(frame).unwrap().starts_with("event: control\n"));
    let mut poll = open(&server, "/v1/stream/a?offset=-1&live=long-poll").await;
    let mut idle = server.connect().await;
    idle.send(Request::new("GET", "/healthz").to_string()).await;
    idle.answer().await.expect(200);

    let address = server.address;
    let stopped = server.stop();
    assert_eq!(sse.chunk().await, None);
    let answer = poll.answer().await.expect(204);
    assert_eq!(answer.header("stream-up-to-date"), Some("true"));
    assert_eq!(idle.rest().await, b"");
    stopped.await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn an_append_under_way_is_finished() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut slow = server.connect().await;
    let post = Request::new("POST", "/v1/stream/a").header("content-type", "text/plain");
    let whole = post.body("hello").to_string();
    let (head, last) = whole.split_at(whole.len() - 2);
    slow.send(head).await;
    server.until_gauge("headwater_http_incoming_bytes", |bytes| bytes > 0).await;
    let (log, address) = (server.log.clone(), server.address);
    let stopped = server.stop();
    while tokio::net::TcpStream::connect(address).await.is_ok() {}
    slow.send(last).await;
    slow.answer().await.expect(204);
    stopped.await;
    let a = wire::StreamPath::from_url("a").unwrap().into();
    assert_eq!(log::Log::head(&*log, &a).await.unwrap().tail, wire::Offset::new(1, 5));
}

#[tokio::test]
async fn those_who_take_too_long_are_cut_off() {
    let drain_timeout = Duration::from_millis(200);
    let server = Harness::with(Settings { drain_timeout, ..settings() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut stuck = server.connect().await;
    let post = Request::new("POST", "/v1/stream/a").header("content-length", "5");
    stuck.send(post.to_string()).await;
    server.until_gauge("headwater_http_incoming_bytes", |bytes| bytes > 0).await;
    let sys = server.sys.clone();
    let stopped = sys.clock.timeout(Duration::from_secs(3), server.stop()).await;
    stopped.expect("a server ends in time");
    assert_eq!(stuck.rest().await, b"");
}
