//! POST: conditions, and what a refusal tells.

use crate::support::{Answer, Harness, Request};

fn post(body: &str) -> Request<'_> {
    Request::new("POST", "/v1/stream/a").header("content-type", "text/plain").body(body)
}

#[tokio::test]
async fn an_expected_offset_must_be_the_tail() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let start = "0000000000000000_0000000000000000";
    let first = server.ask(post("one").header("stream-expected-offset", start)).await.expect(204);
    let refused = server.ask(post("two").header("stream-expected-offset", start)).await.expect(409);
    assert_eq!(refused.code(), "expected-offset-conflict");
    assert!(refused.text().contains("Expected offset conflict"));
    assert_eq!(refused.next_offset(), first.next_offset());
    server.ask(post("two").header("stream-expected-offset", first.next_offset())).await.expect(204);
    server.ask(post("x").header("stream-expected-offset", "-1")).await.expect(400);
    assert_eq!(server.get("/v1/stream/a").await.text(), "onetwo");
}

#[tokio::test]
async fn a_producers_retry_is_recognised_before_its_expected_offset_is_judged() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let append = || {
        post("one")
            .header("producer-id", "p")
            .header("producer-epoch", "0")
            .header("producer-seq", "0")
            .header("stream-expected-offset", "0000000000000000_0000000000000000")
    };
    server.ask(append()).await.expect(200);
    let again = server.ask(append()).await.expect(204);
    assert_eq!(again.header("producer-seq"), Some("0"));
    assert_eq!(server.get("/v1/stream/a").await.text(), "one");
}

#[tokio::test]
async fn a_sequence_conflict_tells_the_tail() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let first = server.ask(post("one").header("stream-seq", "2")).await.expect(204);
    let refused = server.ask(post("two").header("stream-seq", "10")).await.expect(409);
    assert_eq!(refused.code(), "sequence-conflict");
    assert!(refused.text().contains("Sequence conflict"));
    assert_eq!(refused.next_offset(), first.next_offset());
}

#[tokio::test]
async fn producers_learn_what_was_expected() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let send = async |epoch: &str, seq: &str| -> Answer {
        let append = post("x").header("producer-id", "p");
        server.ask(append.header("producer-epoch", epoch).header("producer-seq", seq)).await
    };
    send("1", "0").await.expect(200);
    let gap = send("1", "5").await.expect(409);
    assert_eq!(gap.header("producer-expected-seq"), Some("1"));
    assert_eq!(gap.header("producer-received-seq"), Some("5"));
    let fenced = send("0", "1").await.expect(403);
    assert_eq!(fenced.header("producer-epoch"), Some("1"));
    send("2", "1").await.expect(400);
}

#[tokio::test]
async fn a_close_without_a_body_keeps_a_sliding_stream_alive() {
    let server = Harness::start().await;
    let put = Request::new("PUT", "/v1/stream/a").header("stream-ttl", "1");
    server.ask(put).await.expect(201);
    server.sys.clock.sleep(std::time::Duration::from_millis(700)).await;
    let close = Request::new("POST", "/v1/stream/a").header("stream-closed", "true");
    server.ask(close).await.expect(204);
    server.sys.clock.sleep(std::time::Duration::from_millis(700)).await;
    let head = server.ask(Request::new("HEAD", "/v1/stream/a")).await.expect(200);
    assert_eq!(head.header("stream-closed"), Some("true"));
}

#[tokio::test]
async fn json_is_split_and_checked() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "application/json").await;
    let append = async |body| server.append("/v1/stream/a", "application/json", body).await;
    append(r#" [1, [2], {"a": [3]}] "#).await.expect(204);
    append("4").await.expect(204);
    for bad in ["[]", "[1", "", "{'a':1}", "1 2"] {
        append(bad).await.expect(400);
    }
    assert_eq!(server.get("/v1/stream/a").await.text(), r#"[1,[2],{"a": [3]},4]"#);
}
