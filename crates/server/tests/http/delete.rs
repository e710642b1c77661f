//! DELETE: the stream, its forks, its beginning.

use crate::support::{Harness, Request};

#[tokio::test]
async fn a_deleted_stream_lives_on_in_its_forks_unless_erased() {
    let server = Harness::start().await;
    let delete = |target| Request::new("DELETE", target);
    server.create("/v1/stream/source", "text/plain").await;
    server.append("/v1/stream/source", "text/plain", "hello").await.expect(204);
    let fork = Request::new("PUT", "/v1/stream/fork").header("stream-forked-from", "source");
    server.ask(fork).await.expect(201);

    server.ask(delete("/v1/stream/source")).await.expect(204);
    assert_eq!(server.get("/v1/stream/source").await.expect(410).code(), "stream-gone");
    let put = server.ask(Request::new("PUT", "/v1/stream/source")).await.expect(409);
    assert_eq!(put.code(), "name-taken");
    assert_eq!(server.get("/v1/stream/fork").await.text(), "hello");

    server.ask(delete("/v1/stream/fork?erase=true")).await.expect(204);
    server.get("/v1/stream/fork").await.expect(404);
    server.get("/v1/stream/source").await.expect(404);
    server.ask(delete("/v1/stream/source")).await.expect(404);
}

#[tokio::test]
async fn erasing_takes_the_forks_too() {
    let server = Harness::start().await;
    server.create("/v1/stream/source", "text/plain").await;
    let fork = Request::new("PUT", "/v1/stream/fork").header("stream-forked-from", "source");
    server.ask(fork).await.expect(201);
    server.ask(Request::new("DELETE", "/v1/stream/source?erase=true")).await.expect(204);
    server.get("/v1/stream/fork").await.expect(404);
}

#[tokio::test]
async fn trimming_needs_a_place_in_the_stream() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    for (before, status) in [
        ("now", 400),
        ("0000000000000009_0000000000000099", 400),
        ("0000000000000000_0000000000000002", 400),
        ("0000000000000001_0000000000000005", 204),
        ("0000000000000000_0000000000000000", 204),
    ] {
        let target = format!("/v1/stream/a?before={before}");
        server.ask(Request::new("DELETE", &target)).await.expect(status);
    }
    server.ask(Request::new("DELETE", "/v1/stream/b?before=x")).await.expect(400);
}
