//! GET: chunks, tags, caches.

use server::Settings;

use crate::support::{Harness, Request, settings};

#[tokio::test]
async fn a_large_stream_comes_in_whole_messages() {
    let server = Harness::with(Settings { chunk_bytes: 10, ..settings() }).await;
    server.create("/v1/stream/a", "application/json").await;
    let body = r#"["aaaa","bbbb","cccc","a message longer than a chunk","d"]"#;
    server.append("/v1/stream/a", "application/json", body).await.expect(204);
    let mut target = "/v1/stream/a".to_owned();
    let mut bodies = Vec::new();
    loop {
        let answer = server.get(&target).await.expect(200);
        target = format!("/v1/stream/a?offset={}", answer.next_offset());
        bodies.push(answer.text());
        if answer.header("stream-up-to-date").is_some() {
            break;
        }
        assert_eq!(answer.header("cache-control"), Some(MINUTE));
    }
    let expected =
        [r#"["aaaa"]"#, r#"["bbbb"]"#, r#"["cccc"]"#, r#"["a message longer than a chunk"]"#];
    assert_eq!(bodies[..4], expected);
    assert_eq!(bodies[4..], [r#"["d"]"#]);
    let at_tail = server.get(&target).await.expect(200);
    assert_eq!(at_tail.text(), "[]");
    assert_eq!(at_tail.header("cache-control"), Some("no-cache"));
}

const MINUTE: &str = "public, max-age=60, stale-while-revalidate=300";

#[tokio::test]
async fn a_known_tag_saves_the_body() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    let first = server.get("/v1/stream/a").await.expect(200);
    let tag = first.header("etag").unwrap();
    let ask = async |list: String| {
        server.ask(Request::new("GET", "/v1/stream/a").header("if-none-match", list)).await
    };
    for known in [
        tag.to_owned(),
        format!("W/{tag}"),
        format!("\"other\", {tag}"),
        "*".to_owned(),
        format!("{}:gz\"", tag.trim_end_matches('"')),
    ] {
        let answer = ask(known).await.expect(304);
        assert_eq!(answer.body, b"");
        assert_eq!(answer.next_offset(), first.next_offset());
        for name in ["etag", "cache-control", "vary", "stream-up-to-date"] {
            assert_eq!(answer.header(name), first.header(name), "{name}");
        }
    }
    for unknown in ["\"other\"".to_owned(), tag.trim_matches('"').to_owned()] {
        ask(unknown).await.expect(200);
    }
    let close = Request::new("POST", "/v1/stream/a").header("stream-closed", "true");
    server.ask(close).await.expect(204);
    let closed = ask(tag.to_owned()).await.expect(200);
    assert_eq!(closed.header("etag"), Some(&*format!("{}:c\"", tag.trim_end_matches('"'))));
    assert_eq!(closed.header("stream-closed"), Some("true"));
}

#[tokio::test]
async fn a_stream_made_anew_has_other_tags() {
    let server = Harness::start().await;
    let mut tags = Vec::new();
    for _ in 0..2 {
        let put = Request::new("PUT", "/v1/stream/a").header("content-type", "text/plain");
        server.ask(put.body("hello")).await.expect(201);
        tags.push(server.get("/v1/stream/a").await.header("etag").unwrap().to_owned());
        server.ask(Request::new("DELETE", "/v1/stream/a")).await.expect(204);
    }
    assert_ne!(tags[0], tags[1]);
}

#[tokio::test]
async fn now_is_nobodys_to_keep() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "application/json").await;
    let appended = server.append("/v1/stream/a", "application/json", "1").await;
    let answer = server.get("/v1/stream/a?offset=now").await.expect(200);
    assert_eq!(answer.text(), "[]");
    assert_eq!(answer.header("etag"), None);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.next_offset(), appended.next_offset());
}

#[tokio::test]
async fn trimmed_messages_are_gone() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let kept = server.append("/v1/stream/a", "text/plain", "old").await.next_offset();
    server.append("/v1/stream/a", "text/plain", "new").await.expect(204);
    let trim = format!("/v1/stream/a?before={kept}");
    let answer = server.ask(Request::new("DELETE", &trim)).await.expect(204);
    assert_eq!(answer.header("stream-earliest-offset"), Some(&*kept));

    assert_eq!(server.get("/v1/stream/a").await.text(), "new");
    let refused =
        server.get("/v1/stream/a?offset=0000000000000000_0000000000000000").await.expect(410);
    assert_eq!(refused.code(), "offset-trimmed");
    assert_eq!(refused.header("stream-earliest-offset"), Some(&*kept));
}

#[tokio::test]
async fn an_offset_within_a_message_is_refused() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    server.get("/v1/stream/a?offset=0000000000000000_0000000000000002").await.expect(400);
}
