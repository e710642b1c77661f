//! What browsers need to see on every answer, and what pages of other sites may not do.

use server::Settings;

use crate::{
    auth::with_keys,
    support::{Answer, Harness, Request, settings},
};

const INERT: &str = "default-src 'none'; sandbox";

#[track_caller]
fn check(answer: &Answer, resource_policy: &str) {
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("content-security-policy"), Some(INERT));
    assert_eq!(answer.header("cross-origin-resource-policy"), Some(resource_policy));
    assert_eq!(answer.header("access-control-expose-headers"), Some("*"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
}

/// Every way to a stream, and to what is told of all.
const WAYS: [(&str, &str); 12] = [
    ("PUT", "/v1/stream/b"),
    ("POST", "/v1/stream/a"),
    ("GET", "/v1/stream/a?offset=-1"),
    ("GET", "/v1/stream/a?offset=-1&live=long-poll"),
    ("GET", "/v1/stream/a?offset=-1&live=sse"),
    ("HEAD", "/v1/stream/a"),
    ("DELETE", "/v1/stream/a"),
    ("DELETE", "/v1/stream/a?erase=true"),
    ("GET", "/v1/stream/"),
    ("GET", "/v1/stream/?watch=**"),
    ("GET", "/metrics"),
    ("GET", "/v1/stream/none"),
];

#[tokio::test]
async fn every_answer_says_what_browsers_may_do_with_it() {
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
        let request = request.header("origin", "http://localhost");
        check(&server.ask(request).await.expect(status), "same-origin");
    }
    let server = with_keys().await;
    for target in ["/v1/stream/a", "/healthz", "/nowhere"] {
        check(&server.get(target).await, "cross-origin");
    }
}

#[tokio::test]
async fn a_preflight_is_answered_without_asking_who() {
    let server = Harness::start().await;
    let preflight = Request::new("OPTIONS", "/v1/stream/a")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "PUT");
    let answer = server.ask(preflight).await.expect(204);
    check(&answer, "same-origin");
    let headers = answer.header("access-control-allow-headers").unwrap();
    for name in ["if-none-match", "authorization", "stream-expected-offset", "producer-seq"] {
        assert!(headers.contains(name), "{name}");
    }
    assert!(answer.header("access-control-allow-methods").unwrap().contains("DELETE"));
    assert_eq!(answer.header("access-control-max-age"), Some("86400"));
}

#[tokio::test]
async fn pages_of_other_sites_do_nothing_on_an_open_server() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    server.append("/v1/stream/a", "text/plain", "secret").await.expect(204);
    let pages: [&[(&str, &str)]; 6] = [
        &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")],
        &[("origin", "https://evil.example")],
        &[("origin", "http://localhost:1"), ("sec-fetch-site", "same-site")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
    ];
    for page in pages {
        for (method, target) in WAYS {
            let request = Request::new(method, target).header("content-type", "text/html");
            let request = request.body(if method == "POST" { "x" } else { "" });
            let request = page.iter().fold(request, |it, (name, value)| it.header(name, *value));
            let answer = server.ask(request).await;
            assert_eq!(answer.status, 401, "{page:?} {method} {target}: {answer:?}");
            let told = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(!told.contains("secret"), "{told}");
            assert!(method == "HEAD" || told.contains("Authorization: Bearer"), "{told}");
        }
    }
    // Programs, and pages of the server itself, go on as before.
    assert_eq!(server.get("/v1/stream/a?offset=-1").await.expect(200).text(), "secret");
    for site in ["same-origin", "none"] {
        let get = Request::new("GET", "/v1/stream/").header("sec-fetch-site", site);
        assert!(!server.ask(get).await.expect(200).text().contains("\"b\""));
    }
    let own = Request::new("DELETE", "/v1/stream/a").host("127.0.0.1:4437");
    server.ask(own.header("origin", "http://127.0.0.1:4437")).await.expect(204);
}

#[tokio::test]
async fn a_name_that_was_made_to_point_here_is_refused_everywhere() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    let others = [
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/nowhere"),
        ("OPTIONS", "/v1/stream/a"),
        ("GET", "/v1/stream/__ds/subscriptions"),
    ];
    for (method, target) in WAYS.into_iter().chain(others) {
        let request = Request::new(method, target).host("evil.example:4437");
        // The page has that name, too, so that its requests are those of the same origin.
        let request = request.header("origin", "http://evil.example:4437");
        let answer = server.ask(request.header("sec-fetch-site", "same-origin")).await;
        assert_eq!(answer.status, 403, "{method} {target}: {answer:?}");
        if method != "HEAD" {
            assert_eq!(answer.code(), "unknown-host");
            assert!(answer.text().contains("--public-url"), "{}", answer.text());
        }
    }
    for host in ["127.0.0.1:4437", "[::1]:4437", "LOCALHOST:8080"] {
        server.ask(Request::new("GET", "/v1/stream/a").host(host)).await.expect(200);
    }
}

#[tokio::test]
async fn a_stream_is_never_active_content() {
    let server = Harness::start().await;
    let rows = [
        ("text/html", true),
        ("TEXT/HTML; charset=utf-8", true),
        ("image/svg+xml", true),
        ("application/xhtml+xml", true),
        ("application/xml", true),
        ("text/xml", true),
        ("application/rss+xml", true),
        ("multipart/x-mixed-replace", true),
        ("application/pdf", true),
        ("text/javascript", true),
        ("x/y", true),
        ("text/plain", false),
        ("application/json", false),
        ("application/ld+json", false),
        ("image/png", false),
        ("application/octet-stream", false),
    ];
    for (index, (content_type, is_saved)) in rows.into_iter().enumerate() {
        let target = format!("/v1/stream/{index}");
        server.create(&target, content_type).await;
        for method in ["GET", "HEAD"] {
            let answer = server.ask(Request::new(method, &target)).await.expect(200);
            let stored = answer.header("content-type").unwrap();
            assert!(stored.eq_ignore_ascii_case(content_type), "{stored}");
            let disposition = answer.header("content-disposition");
            assert_eq!(disposition, is_saved.then_some("attachment"), "{content_type}");
            assert_eq!(answer.header("content-security-policy"), Some(INERT));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        }
    }
}

/// A browser keeps answers by their addresses. What a page of the server may read, another one
/// must not read from there.
#[tokio::test]
async fn a_kept_answer_is_for_those_who_asked() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    server.append("/v1/stream/a", "text/plain", "x").await.expect(204);
    let kept = server.get("/v1/stream/a?offset=-1").await.expect(200);
    assert!(kept.header("cache-control").unwrap().contains("max-age"));
    assert_eq!(kept.header("access-control-allow-origin"), None);
    let varies = kept.header("vary").unwrap();
    assert!(varies.contains("origin") && varies.contains("authorization"), "{varies}");
}

#[tokio::test]
async fn origins_can_be_named() {
    let cors_origins = ["https://app.example", "http://localhost:5173"];
    let cors_origins = cors_origins.map(|origin| origin.parse().unwrap()).into();
    let server = Harness::with(Settings { cors_origins, ..settings() }).await;
    let ask = async |origin: &str| {
        let put = Request::new("PUT", "/v1/stream/a").header("origin", origin);
        server.ask(put.header("sec-fetch-site", "cross-site")).await
    };
    for origin in ["https://app.example", "http://localhost:5173"] {
        let answer = ask(origin).await;
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
    }
    let refused = ask("https://other.example").await.expect(401);
    assert_eq!(refused.header("access-control-allow-origin"), None);
    assert!(refused.text().contains("--cors-origin https://other.example"), "{}", refused.text());
}

#[tokio::test]
async fn a_public_url_is_a_name_of_the_server() {
    let public_url = Some("https://streams.example/".to_owned());
    let server = Harness::with(Settings { public_url, ..settings() }).await;
    let put = Request::new("PUT", "/v1/stream/a").host("streams.example");
    server.ask(put.header("origin", "https://streams.example")).await.expect(201);
    server.ask(Request::new("GET", "/healthz").host("other.example")).await.expect(403);
}
