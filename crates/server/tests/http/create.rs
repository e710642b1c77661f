//! PUT: Location, forks, lifetimes.

use server::Settings;

use crate::support::{Harness, Request, settings};

#[tokio::test]
async fn the_location_is_where_the_client_found_the_server() {
    let forwarded = Request::new("PUT", "/v1/stream/a%20b").header("x-forwarded-proto", "https");

    let plain = Harness::start().await;
    let answer = plain.ask(forwarded.clone()).await.expect(201);
    assert_eq!(answer.header("location"), Some("http://localhost/v1/stream/a%20b"));

    let behind_proxy = Harness::with(Settings { trust_proxy: true, ..settings() }).await;
    let answer = behind_proxy.ask(forwarded.clone()).await.expect(201);
    assert_eq!(answer.header("location"), Some("https://localhost/v1/stream/a%20b"));

    let public_url = Some("https://streams.example".to_owned());
    let named = Harness::with(Settings { public_url, ..settings() }).await;
    let answer = named.ask(forwarded.clone()).await.expect(201);
    assert_eq!(answer.header("location"), Some("https://streams.example/v1/stream/a%20b"));
    assert_eq!(named.ask(forwarded).await.expect(200).header("location"), None);
}

#[tokio::test]
async fn a_fork_of_json_ends_between_objects() {
    let server = Harness::start().await;
    let put = Request::new("PUT", "/v1/stream/source").header("content-type", "application/json");
    server.ask(put.body(r#"[{"a":1,"b":2},{"c":3}]"#)).await.expect(201);
    for (count, expected) in [("0", "[]"), ("1", r#"[{"a":1,"b":2}]"#)] {
        let target = format!("/v1/stream/fork-{count}");
        let fork = Request::new("PUT", &target)
            .header("stream-forked-from", "/v1/stream/source")
            .header("stream-fork-offset", "0000000000000000_0000000000000000")
            .header("stream-fork-sub-offset", count);
        server.ask(fork).await.expect(201);
        assert_eq!(server.get(&target).await.text(), expected);
    }
}

#[tokio::test]
async fn a_fork_with_a_body_takes_its_content_type_from_the_source() {
    let server = Harness::start().await;
    let put = Request::new("PUT", "/v1/stream/source").header("content-type", "application/json");
    server.ask(put.body("[1,2]")).await.expect(201);
    let fork = Request::new("PUT", "/v1/stream/fork").header("stream-forked-from", "source");
    let answer = server.ask(fork.body("[3,4]")).await.expect(201);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(server.get("/v1/stream/fork").await.text(), "[1,2,3,4]");
}

#[tokio::test]
async fn a_fork_of_nothing_is_not_found() {
    let server = Harness::start().await;
    let fork = Request::new("PUT", "/v1/stream/fork").header("stream-forked-from", "source");
    for body in ["", "x"] {
        let answer = server.ask(fork.clone().body(body)).await.expect(404);
        assert_eq!(answer.code(), "stream-not-found");
    }
}

#[tokio::test]
async fn settings_that_differ_are_a_conflict() {
    let server = Harness::start().await;
    let put = || Request::new("PUT", "/v1/stream/a").header("content-type", "text/plain");
    server.ask(put().header("stream-ttl", "60")).await.expect(201);
    server.ask(put().header("stream-ttl", "60")).await.expect(200);
    for other in [
        put(),
        put().header("stream-ttl", "61"),
        put().header("stream-ttl", "60").header("stream-closed", "true"),
        Request::new("PUT", "/v1/stream/a").header("stream-ttl", "60"),
    ] {
        assert_eq!(server.ask(other).await.expect(409).code(), "stream-exists");
    }
}
