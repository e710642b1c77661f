//! Long-poll and server-sent events.

use std::time::Duration;

use server::Settings;

use crate::support::{Harness, Request, Wire, settings};

async fn follow(server: &Harness, target: &str) -> Wire {
    let mut wire = server.connect().await;
    wire.send(Request::new("GET", target).to_string()).await;
    let head = wire.head().await.expect(200);
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(head.header("cache-control"), Some("no-cache"));
    assert_eq!(head.header("content-length"), None);
    wire
}

/// A server whose long-polls end when the test lets them.
async fn patient() -> Harness {
    Harness::with(Settings { long_poll_timeout: Duration::from_secs(30), ..settings() }).await
}

async fn frame(wire: &mut Wire) -> Option<String> {
    wire.chunk().await.map(|chunk| String::from_utf8(chunk).unwrap())
}

/// What a control event says.
fn control(frame: &str) -> serde_json::Value {
    let (_, event) = frame.split_once("event: control\ndata:").expect("a control event");
    serde_json::from_str(event).unwrap()
}

#[tokio::test]
async fn a_long_poll_answers_when_there_is_something() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let quiet = server.get("/v1/stream/a?offset=-1&live=long-poll").await.expect(204);
    assert_eq!(quiet.header("stream-up-to-date"), Some("true"));
    assert_eq!(quiet.header("cache-control"), Some("no-store"));
    let cursor: u64 = quiet.header("stream-cursor").unwrap().parse().unwrap();

    let server = patient().await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut waiting = server.connect().await;
    let target = format!("/v1/stream/a?offset=now&live=long-poll&cursor={cursor}");
    waiting.send(Request::new("GET", &target).to_string()).await;
    server.until_gauge("headwater_http_live_readers", |readers| readers == 1).await;
    let appended = server.append("/v1/stream/a", "text/plain", "hello").await;
    let answer = waiting.answer().await.expect(200);
    assert_eq!(answer.text(), "hello");
    assert_eq!(answer.next_offset(), appended.next_offset());
    let next: u64 = answer.header("stream-cursor").unwrap().parse().unwrap();
    assert!(next > cursor);
}

#[tokio::test]
async fn a_long_poll_hears_of_the_end() {
    let server = patient().await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut waiting = server.connect().await;
    let poll = Request::new("GET", "/v1/stream/a?offset=-1&live=long-poll").to_string();
    waiting.send(&poll).await;
    server.until_gauge("headwater_http_live_readers", |readers| readers == 1).await;
    let close = Request::new("POST", "/v1/stream/a").header("stream-closed", "true");
    server.ask(close).await.expect(204);
    let answer = waiting.answer().await.expect(204);
    assert_eq!(answer.header("stream-closed"), Some("true"));

    server.create("/v1/stream/b", "text/plain").await;
    waiting.send(poll.replace("/a?", "/b?")).await;
    server.until_gauge("headwater_http_live_readers", |readers| readers == 1).await;
    server.ask(Request::new("DELETE", "/v1/stream/b")).await.expect(204);
    waiting.answer().await.expect(404);
}

#[tokio::test]
async fn events_come_in_pairs_and_any_control_resumes() {
    let server = Harness::with(Settings { event_bytes: 10, ..settings() }).await;
    server.create("/v1/stream/a", "application/json").await;
    let body = r#"["aaaa","bbbb","a message longer than an event","c"]"#;
    server.append("/v1/stream/a", "application/json", body).await.expect(204);
    let close = Request::new("POST", "/v1/stream/a").header("stream-closed", "true");
    server.ask(close).await.expect(204);

    let mut from = "-1".to_owned();
    let expected =
        [r#"["aaaa"]"#, r#"["bbbb"]"#, r#"["a message longer than an event"]"#, r#"["c"]"#];
    for data in expected {
        let mut wire = follow(&server, &format!("/v1/stream/a?offset={from}&live=sse")).await;
        let first = frame(&mut wire).await.unwrap();
        assert!(
            first.starts_with(&format!("event: data\ndata:{data}\n\nevent: control\n")),
            "{first}"
        );
        from = control(&first)["streamNextOffset"].as_str().unwrap().to_owned();
    }
    let mut wire = follow(&server, "/v1/stream/a?offset=-1&live=sse").await;
    let mut frames = Vec::new();
    while let Some(frame) = frame(&mut wire).await {
        frames.push(frame);
    }
    assert_eq!(frames.len(), 4);
    let last = control(&frames[3]);
    assert_eq!(last["streamClosed"], true);
    assert_eq!(last.get("streamCursor"), None);
    assert_eq!(control(&frames[2]).get("upToDate"), None);
}

/// Six times as large as it was stored, which is more than one client may have on its way.
#[tokio::test]
async fn an_event_that_is_too_large_to_be_held_comes_in_parts() {
    let lines = 12 * 1024 * 1024;
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let close = Request::new("POST", "/v1/stream/a").header("stream-closed", "true");
    server.append("/v1/stream/a", "text/plain", &"\n".repeat(lines)).await.expect(204);
    server.ask(close).await.expect(204);
    let mut wire = follow(&server, "/v1/stream/a?offset=-1&live=sse").await;
    let mut heard = String::new();
    while let Some(part) = frame(&mut wire).await {
        heard += &part;
    }
    let (data, control) = heard.split_once("\n\n").unwrap();
    let data = data.strip_prefix("event: data\n").unwrap();
    assert_eq!(data.len(), 6 * (lines + 1) - 1);
    assert!(data.lines().all(|line| line == "data:"));
    assert!(control.starts_with("event: control\n") && control.contains("streamClosed"));
}

#[tokio::test]
async fn a_follower_sees_each_append_and_then_the_end() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "application/octet-stream").await;
    let mut wire = follow(&server, "/v1/stream/a?offset=now&live=sse").await;
    assert_eq!(control(&frame(&mut wire).await.unwrap())["upToDate"], true);
    server.append("/v1/stream/a", "application/octet-stream", "hello").await.expect(204);
    let data = frame(&mut wire).await.unwrap();
    assert!(data.starts_with("event: data\ndata:aGVsbG8=\n\nevent: control\n"), "{data}");
    server.ask(Request::new("DELETE", "/v1/stream/a")).await.expect(204);
    assert_eq!(frame(&mut wire).await, None);
}

#[tokio::test]
async fn an_idle_follower_is_kept_alive_and_then_sent_away() {
    let sse_keep_alive = Duration::from_millis(100);
    let sse_life = Duration::from_millis(450);
    let server = Harness::with(Settings { sse_keep_alive, sse_life, ..settings() }).await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut wire = follow(&server, "/v1/stream/a?offset=-1&live=sse").await;
    frame(&mut wire).await.unwrap();
    let mut comments = 0;
    while let Some(comment) = frame(&mut wire).await {
        assert!(comment.starts_with(':'), "{comment}");
        comments += 1;
    }
    assert!((2..=5).contains(&comments), "{comments}");
}

#[tokio::test]
async fn a_stream_made_anew_is_not_mixed_with_the_old_one() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut wire = follow(&server, "/v1/stream/a?offset=-1&live=sse").await;
    frame(&mut wire).await.unwrap();
    server.ask(Request::new("DELETE", "/v1/stream/a")).await.expect(204);
    let put = Request::new("PUT", "/v1/stream/a").header("content-type", "text/plain");
    server.ask(put.body("another life")).await.expect(201);
    assert_eq!(frame(&mut wire).await, None);
}

#[tokio::test]
async fn many_followers_all_hear_everything() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let mut followers = Vec::new();
    for _ in 0..200 {
        let mut wire = follow(&server, "/v1/stream/a?offset=now&live=sse").await;
        frame(&mut wire).await.unwrap();
        followers.push(wire);
    }
    let close = Request::new("POST", "/v1/stream/a").header("stream-closed", "true");
    server.append("/v1/stream/a", "text/plain", "one").await.expect(204);
    server.ask(close.header("content-type", "text/plain").body("two")).await.expect(204);
    for mut wire in followers {
        let mut heard = String::new();
        while let Some(frame) = frame(&mut wire).await {
            heard += &frame;
        }
        let data: String = heard.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        let words: String = data.chars().filter(char::is_ascii_lowercase).collect();
        assert!(words.starts_with("one") && words.contains("two"), "{heard}");
    }
}

/// After a restore, or in another life of the stream.
#[tokio::test]
async fn a_reader_ahead_of_the_stream_is_told_so() {
    let server = Harness::start().await;
    for (stream, is_closed) in [("a", false), ("b", true)] {
        let target = format!("/v1/stream/{stream}");
        server.create(&target, "text/plain").await;
        let tail = server.append(&target, "text/plain", "one").await.expect(204).next_offset();
        if is_closed {
            let close = Request::new("POST", &target).header("stream-closed", "true");
            server.ask(close).await.expect(204);
        }
        for ahead in ["0000000000000002_0000000000000006", "0000000000000009_0000000000000099"] {
            for live in ["", "&live=long-poll", "&live=sse"] {
                let asked = format!("{target}?offset={ahead}{live}");
                let answer = server.get(&asked).await.expect(410);
                assert_eq!(answer.code(), "offset-beyond-tail", "{asked}");
                assert_eq!(answer.next_offset(), tail);
                assert!(answer.text().contains("start from -1"), "{}", answer.text());
            }
        }
        let framed = format!("{target}?offset=0000000000000009_0000000000000099");
        let framed = Request::new("GET", &framed).header("stream-framing", "length");
        assert_eq!(server.ask(framed).await.expect(200).next_offset(), tail);
        server.get(&format!("{target}?offset={tail}")).await.expect(200);
    }
}
