//! What browsers need to see on every answer.

use server::Settings;

use crate::support::{Answer, Harness, Request, settings};

#[track_caller]
fn check(answer: &Answer) {
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cross-origin-resource-policy"), Some("cross-origin"));
    assert_eq!(answer.header("access-control-expose-headers"), Some("*"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
}

#[tokio::test]
async fn every_answer_may_be_read_from_any_origin() {
    let server = Harness::start().await;
    for (request, status) in [
        (Request::new("PUT", "/v1/stream/a"), 201),
        (Request::new("HEAD", "/v1/stream/a"), 200),
        (Request::new("GET", "/v1/stream/a"), 200),
        (Request::new("GET", "/v1/stream/a?offset=-1&live=long-poll"), 204),
        (Request::new("POST", "/v1/stream/a").body("x"), 400),
        (Request::new("GET", "/v1/stream/b"), 404),
        (Request::new("GET", "/nowhere"), 404),
        (Request::new("PATCH", "/v1/stream/a"), 405),
        (Request::new("GET", "/healthz"), 200),
        (Request::new("DELETE", "/v1/stream/a"), 204),
    ] {
        check(&server.ask(request).await.expect(status));
    }
}

#[tokio::test]
async fn a_preflight_is_answered_without_asking_who() {
    let server = Harness::start().await;
    let preflight = Request::new("OPTIONS", "/v1/stream/a")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "PUT");
    let answer = server.ask(preflight).await.expect(204);
    check(&answer);
    let headers = answer.header("access-control-allow-headers").unwrap();
    for name in ["if-none-match", "authorization", "stream-expected-offset", "producer-seq"] {
        assert!(headers.contains(name), "{name}");
    }
    assert!(answer.header("access-control-allow-methods").unwrap().contains("DELETE"));
    assert_eq!(answer.header("access-control-max-age"), Some("86400"));
}

#[tokio::test]
async fn one_origin_can_be_named() {
    let cors_origin = "https://app.example".to_owned();
    let server = Harness::with(Settings { cors_origin, ..settings() }).await;
    let answer = server.get("/healthz").await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
}
