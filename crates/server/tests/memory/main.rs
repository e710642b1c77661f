//! A reader far behind costs the server one event, not the stream. A process of its own, so that
//! nothing else moves its memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../http/support.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use log::{Append, Create, Log as _};
use support::{Harness, Request, Wire};
use wire::{Messages, StreamPath, caps::CHUNK_BYTES_DEFAULT};

const STREAM_BYTES: usize = 80 * 1024 * 1024;
const MESSAGE_BYTES: usize = 64 * 1024;
const EVENT_BYTES_MAX: usize = 256 * 1024;
const GROWTH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Memory of this process that is in use now.
fn resident_bytes() -> usize {
    #[expect(clippy::disallowed_methods, reason = "the kernel's books are no disk")]
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024
}

async fn fill(server: &Harness) {
    let a = StreamPath::from_url("a").unwrap().into();
    let text = "text/plain".parse().unwrap();
    let create = Create { content_type: Some(text), ..Create::default() };
    let _ = server.log.create(&a, create).await.unwrap();
    for _ in 0..STREAM_BYTES / MESSAGE_BYTES {
        let message = Messages::one(vec![b'x'; MESSAGE_BYTES]).unwrap();
        let _ = server.log.append(&a, Append::messages(message)).await.unwrap();
    }
    let _ = server.log.close(&a).await.unwrap();
}

struct Seen {
    events: usize,
    bytes: usize,
    growth: usize,
}

/// Reads all events, as chunks of the connection, and keeps none.
async fn read_all(wire: &mut Wire) -> Seen {
    let before = resident_bytes();
    let mut seen = Seen { events: 0, bytes: 0, growth: 0 };
    while let Some(frame) = wire.chunk().await {
        assert!(frame.starts_with(b"event: data\n"));
        assert_eq!(frame.windows(15).filter(|w| w == b"event: control\n").count(), 1);
        let data = frame.iter().filter(|byte| **byte == b'x').count();
        assert!(data <= EVENT_BYTES_MAX + 8, "{data}");
        seen.events += 1;
        seen.bytes += data;
        seen.growth = seen.growth.max(resident_bytes().saturating_sub(before));
    }
    seen
}

#[tokio::test]
async fn a_reader_far_behind_costs_a_few_megabytes() {
    let server = Harness::start().await;
    fill(&server).await;
    // One after the other: they would see each other's memory.
    events_nobody_takes(&server).await;
    events(&server).await;
    answers(&server).await;
}

/// Readers that take nothing; the server must not read ahead for them.
async fn events_nobody_takes(server: &Harness) {
    let before = resident_bytes();
    let mut stalled = Vec::new();
    for _ in 0..10 {
        let mut wire = server.connect().await;
        wire.send(Request::new("GET", "/v1/stream/a?offset=-1&live=sse").to_string()).await;
        wire.head().await.expect(200);
        stalled.push(wire);
    }
    // Each has one event that its reader does not take.
    let all = (stalled.len() * EVENT_BYTES_MAX) as u64;
    server.until_gauge("headwater_http_outgoing_bytes", |bytes| bytes >= all).await;
    expect_little(resident_bytes().saturating_sub(before));
}

async fn events(server: &Harness) {
    let mut wire = server.connect().await;
    wire.send(Request::new("GET", "/v1/stream/a?offset=-1&live=sse").to_string()).await;
    wire.head().await.expect(200);
    let seen = read_all(&mut wire).await;
    assert!(seen.bytes >= STREAM_BYTES, "{}", seen.bytes);
    assert_eq!(seen.events, STREAM_BYTES / EVENT_BYTES_MAX);
    expect_little(seen.growth);
}

async fn answers(server: &Harness) {
    let before = resident_bytes();
    let (mut from, mut bytes, mut growth) = ("-1".to_owned(), 0, 0);
    let mut wire = server.connect().await;
    loop {
        let target = format!("/v1/stream/a?offset={from}");
        wire.send(Request::new("GET", &target).to_string()).await;
        let answer = wire.answer().await.expect(200);
        assert!(answer.body.len() <= CHUNK_BYTES_DEFAULT);
        bytes += answer.body.len();
        from = answer.next_offset();
        growth = growth.max(resident_bytes().saturating_sub(before));
        if answer.header("stream-closed").is_some() {
            break;
        }
    }
    assert_eq!(bytes, STREAM_BYTES);
    expect_little(growth);
}

#[track_caller]
fn expect_little(growth: usize) {
    assert!(growth < GROWTH_BYTES_MAX, "grew by {growth} bytes");
}
