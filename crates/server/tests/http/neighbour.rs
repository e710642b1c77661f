//! Whoever serves other paths of the same address, and the tokens that the server signs itself.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode};
use log::{Answer as Answered, MemoryLog};
use server::{
    Access, Auth, Issuer, Limits, Neighbour, Rate, Refusal, Scope, Server, Settings, Visit,
};
use sys::{Sys, UnixMs};
use wire::StreamPath;

use crate::support::{Answer, Harness, Request, settings};

const HOUR: Duration = Duration::from_secs(3600);

/// Says who acts on `s/1`, and what came with it.
#[derive(Debug)]
struct House;

impl Neighbour for House {
    fn body_bytes_max(&self) -> usize {
        10
    }

    fn answer(&self, visit: Visit) -> Answered<'_, Response<Bytes>> {
        Box::pin(async move {
            let path: StreamPath = "s/1".parse().unwrap();
            let (status, who) = match visit.visitor.require(Access::Act, &path) {
                Ok(name) => (StatusCode::OK, name.to_owned()),
                Err(Refusal::Unknown(why)) => (StatusCode::UNAUTHORIZED, why),
                Err(Refusal::Forbidden(why)) => (StatusCode::FORBIDDEN, why),
            };
            let body = String::from_utf8_lossy(&visit.body).into_owned();
            let place = visit.head.uri.path().to_owned();
            let text = format!("{who} at {place} of {:?} says {body:?}", visit.host());
            let mut response = Response::new(Bytes::from(text));
            *response.status_mut() = status;
            response
        })
    }
}

async fn housed(settings: Settings) -> Harness {
    let sys = Sys::real();
    let log = Arc::new(MemoryLog::new(&sys));
    let server = Server::bind(log.clone(), sys.clone(), settings).await.unwrap();
    Harness::running(sys, log, server.beside(Arc::new(House)))
}

fn token(issuer: &Issuer, now: UnixMs, glob: &str, allow: &[Access]) -> String {
    let scopes = [Scope::new(glob.parse().unwrap(), allow)];
    issuer.issue("ada", &scopes, now, HOUR).unwrap().0
}

async fn ask(server: &Harness, token: &str, method: &str, target: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    server.ask(Request::new(method, target).header("authorization", bearer)).await
}

#[tokio::test]
async fn a_neighbour_answers_what_is_not_the_servers_own() {
    let server = housed(settings()).await;
    let answer = server.ask(Request::new("POST", "/house/1?x").body("hello")).await.expect(401);
    assert!(answer.text().contains(r#"at /house/1 of Some("localhost") says "hello""#));
    server.get("/healthz").await.expect(200);
    server.get("/v1/stream/none").await.expect(404);
    // Pages of other origins are told nothing, not even by a preflight.
    let preflight = Request::new("OPTIONS", "/house").header("origin", "https://app.example");
    for answer in [answer, server.ask(preflight).await.expect(401)] {
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(answer.header("cross-origin-resource-policy"), None);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let long = server.ask(Request::new("POST", "/house").body("hello, there")).await.expect(413);
    assert!(long.text().contains("at most 10 bytes; make it smaller"), "{}", long.text());
}

#[tokio::test]
async fn visitors_count_as_clients_do() {
    let one = 1.try_into().unwrap();
    let rate = Some(Rate { per_second: one, burst: one });
    let limits = Limits { rate, ..Limits::default() };
    let server = housed(Settings { limits, ..settings() }).await;
    server.get("/house").await.expect(401);
    server.get("/house").await.expect(429);
}

#[tokio::test]
async fn a_token_of_the_issuer_is_held_to_its_scopes_where_none_is_asked_for() {
    let issuer = Arc::new(Issuer::new(&[7; Issuer::SECRET_BYTES]));
    let server = housed(Settings { issuer: Some(issuer.clone()), ..settings() }).await;
    let now = server.sys.clock.unix_ms();
    server.create("/v1/stream/s/1", "application/json").await;

    let good = token(&issuer, now, "s/1", &[Access::Read, Access::Act]);
    let rows = [
        ("GET", "/v1/stream/s/1", 200),
        ("POST", "/v1/stream/s/1", 403),
        ("DELETE", "/v1/stream/s/1", 403),
        ("GET", "/v1/stream/s/2", 403),
        ("GET", "/house", 200),
    ];
    for (method, target, status) in rows {
        ask(&server, &good, method, target).await.expect(status);
    }
    assert!(ask(&server, &good, "GET", "/house").await.text().starts_with("ada at"));

    // The same secret knows them again; another, an old one or a rest of one opens nothing.
    let again = Issuer::new(&[7; Issuer::SECRET_BYTES]);
    let again = token(&again, now, "s/1", &[Access::Act]);
    ask(&server, &again, "GET", "/house").await.expect(200);
    ask(&server, &again, "GET", "/v1/stream/s/1").await.expect(403);
    let stranger = token(&Issuer::generate(&server.sys.chance), now, "s/1", &[Access::Act]);
    let old = token(&issuer, UnixMs::new(1_000_000), "s/1", &[Access::Act]);
    for bad in [&stranger, &old, &good[..good.len() - 2], "x", ""] {
        ask(&server, bad, "GET", "/house").await.expect(401);
        ask(&server, bad, "GET", "/v1/stream/s/1").await.expect(401);
    }
    let reader = token(&issuer, now, "s/*", &[Access::Read, Access::Write, Access::Admin]);
    let refused = ask(&server, &reader, "GET", "/house").await.expect(403);
    assert!(refused.text().contains("lacks the scope act on s/1"), "{}", refused.text());
}

#[tokio::test]
async fn an_issuer_opens_a_guarded_server_too_and_no_other_token_of_its_secret_does() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("keys.toml");
    let keys = "[[key]]\nname = \"k\"\ntoken = \"a token for the test\"\n\
                scopes = [{ glob = \"**\", allow = [\"act\"] }]";
    #[expect(clippy::disallowed_methods, reason = "a test prepares what the server reads")]
    std::fs::write(&file, keys).unwrap();
    let auth = Auth::Tokens(server::Tokens { keys: Some(file), jwt: None });
    let issuer = Arc::new(Issuer::new(&[7; Issuer::SECRET_BYTES]));
    let server = housed(Settings { auth, issuer: Some(issuer.clone()), ..settings() }).await;
    let now = server.sys.clock.unix_ms();
    ask(&server, &token(&issuer, now, "s/1", &[Access::Act]), "GET", "/house").await.expect(200);
    let named = ask(&server, "a token for the test", "GET", "/house").await.expect(200);
    assert!(named.text().starts_with("k at"));
    server.get("/house").await.expect(401);
    let claims = serde_json::json!({
        "sub": "eve", "exp": now.get() / 1000 + 60,
        "scopes": [{"glob": "**", "allow": ["act"]}],
    });
    let key = jsonwebtoken::EncodingKey::from_secret(&[7; Issuer::SECRET_BYTES]);
    let foreign = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap();
    ask(&server, &foreign, "GET", "/house").await.expect(401);
}

#[tokio::test]
async fn pages_of_other_sites_may_show_a_token() {
    let issuer = Arc::new(Issuer::generate(&sys::Chance::real()));
    let server = housed(Settings { issuer: Some(issuer.clone()), ..settings() }).await;
    let token = token(&issuer, Sys::real().clock.unix_ms(), "main/**", &[Access::Read]);
    server.create("/v1/stream/main/sessions/1", "application/json").await;
    let ask = async |host: &'static str, token: Option<&str>| {
        let request = Request::new("GET", "/v1/stream/main/sessions/1?offset=-1").host(host);
        let request = request.header("origin", "https://elsewhere.example");
        let request = request.header("sec-fetch-site", "cross-site");
        let request = match token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        server.ask(request).await
    };
    let answer = ask("localhost", Some(&token)).await.expect(200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    ask("rebound.example", Some(&token)).await.expect(200);
    ask("localhost", None).await.expect(401);
    ask("rebound.example", None).await.expect(403);
    ask("rebound.example", Some("guess")).await.expect(403);
    ask("localhost", Some("guess")).await.expect(401);
}

/// On no path: a page whose name was made to point here learns nothing by guessing.
#[tokio::test]
async fn a_token_that_is_not_good_does_not_make_up_for_a_foreign_name() {
    let issuer = Arc::new(Issuer::new(&[7; Issuer::SECRET_BYTES]));
    let server = housed(Settings { issuer: Some(issuer.clone()), ..settings() }).await;
    let old = token(&issuer, UnixMs::new(1_000_000), "s/1", &[Access::Act]);
    let good = token(&issuer, server.sys.clock.unix_ms(), "s/1", &[Access::Act]);
    for target in ["/", "/house", "/healthz", "/readyz", "/metrics", "/v1/stream/s/1"] {
        let asked = Request::new("GET", target).host("evil.example");
        let rows = ["Bearer guess".to_owned(), "Basic eDp5".to_owned(), format!("Bearer {old}")];
        for shown in rows.into_iter().chain(["guess".to_owned(), String::new()]) {
            let refused = server.ask(asked.clone().header("authorization", &*shown)).await;
            assert_eq!(refused.status, 403, "{target} with {shown:?}");
            assert!(!refused.text().contains("evil.example says"), "{}", refused.text());
        }
        server.ask(asked.clone()).await.expect(403);
    }
    let bearer = Request::new("GET", "/house").host("evil.example");
    server.ask(bearer.header("authorization", format!("Bearer {good}"))).await.expect(200);
}
