//! Tokens and scopes.

use std::{fs, num::NonZeroU32, path::PathBuf, time::Duration};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use server::{Auth, BadAuth, BindError, Jwt, JwtAlgorithm, Limits, Rate, Server, Settings, Tokens};
use tempfile::TempDir;

use crate::support::{Answer, Harness, Request, fixture, settings};

const KEYS: &str = r#"
[[key]]
name = "reader"
token = "reader-token-0123456789"
scopes = [{ glob = "chats/**", allow = ["read"] }]

[[key]]
name = "worker"
token = "worker-token-0123456789"
scopes = [{ glob = "chats/*", allow = ["read", "write"] }, { glob = "**", allow = ["read"] }]

[[key]]
name = "root"
token = "root-token-0123456789"
scopes = [{ glob = "**", allow = ["read", "write", "admin"] }]
"#;

const HALF_MINUTE: Duration = Duration::from_secs(30);

const SECRET: &str = "a secret of more than thirty-two bytes";

fn file(dir: &TempDir, contents: &str) -> PathBuf {
    let path = dir.path().join("file");
    #[expect(clippy::disallowed_methods, reason = "a test prepares what the server reads")]
    fs::write(&path, contents).unwrap();
    path
}

async fn guarded(tokens: Tokens) -> Harness {
    Harness::with(Settings { auth: Auth::Tokens(tokens), ..settings() }).await
}

pub(crate) async fn with_keys() -> Harness {
    let dir = TempDir::new().unwrap();
    guarded(Tokens { keys: Some(file(&dir, KEYS)), jwt: None }).await
}

async fn ask(server: &Harness, token: &str, method: &str, target: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    server.ask(Request::new(method, target).header("authorization", bearer)).await
}

#[tokio::test]
async fn a_token_opens_what_its_scopes_say() {
    let server = with_keys().await;
    let rows = [
        ("root", "PUT", "/v1/stream/chats/1", 201),
        ("root", "PUT", "/v1/stream/other", 201),
        ("reader", "GET", "/v1/stream/chats/1", 200),
        ("reader", "HEAD", "/v1/stream/chats/1", 200),
        ("reader", "GET", "/v1/stream/chats/1?offset=-1&live=long-poll", 204),
        ("reader", "POST", "/v1/stream/chats/1", 403),
        ("reader", "PUT", "/v1/stream/chats/2", 403),
        ("reader", "DELETE", "/v1/stream/chats/1", 403),
        ("reader", "GET", "/v1/stream/other", 403),
        ("reader", "GET", "/v1/stream/", 403),
        ("worker", "PUT", "/v1/stream/chats/2", 201),
        ("worker", "PUT", "/v1/stream/chats/2/3", 403),
        ("worker", "GET", "/v1/stream/other", 200),
        ("worker", "GET", "/v1/stream/", 200),
        ("worker", "GET", "/metrics", 403),
        ("worker", "DELETE", "/v1/stream/chats/2?before=x", 403),
        ("worker", "DELETE", "/v1/stream/chats/2?erase=true", 403),
        ("root", "GET", "/metrics", 200),
        ("root", "DELETE", "/v1/stream/chats/2?erase=true", 204),
    ];
    for (name, method, target, status) in rows {
        let answer = ask(&server, &format!("{name}-token-0123456789"), method, target).await;
        assert_eq!(answer.status, status, "{name} {method} {target}: {answer:?}");
    }
    let refused =
        ask(&server, "reader-token-0123456789", "DELETE", "/v1/stream/chats/1").await.expect(403);
    assert!(refused.text().contains("admin on chats/1"), "{}", refused.text());
}

#[tokio::test]
async fn strangers_learn_nothing() {
    let server = with_keys().await;
    ask(&server, "root-token-0123456789", "PUT", "/v1/stream/chats/1").await.expect(201);
    for target in ["/v1/stream/chats/1", "/v1/stream/chats/2", "/v1/stream/a%zz", "/metrics"] {
        let answer = server.get(target).await.expect(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert_eq!(answer.code(), "unauthorized");
        ask(&server, "reader-token-012345678", "GET", target).await.expect(401);
    }
    for authorization in ["", "Bearer", "Basic cm9vdDpyb290", "root-token-0123456789"] {
        let get = Request::new("GET", "/v1/stream/chats/1").header("authorization", authorization);
        server.ask(get).await.expect(401);
    }
    for name in ["chats/1", "chats/nobody"] {
        let target = format!("/v1/stream/{name}");
        let answer = ask(&server, "reader-token-0123456789", "DELETE", &target).await.expect(403);
        assert_eq!(answer.code(), "forbidden");
    }
    for target in ["/healthz", "/readyz"] {
        server.get(target).await.expect(200);
    }
    server.ask(Request::new("OPTIONS", "/v1/stream/chats/1")).await.expect(204);
}

#[tokio::test]
async fn private_streams_are_kept_by_private_caches_only() {
    let server = with_keys().await;
    let put = Request::new("PUT", "/v1/stream/chats/1").header("content-type", "text/plain");
    let bearer = "Bearer root-token-0123456789";
    server.ask(put.header("authorization", bearer).body("hello")).await.expect(201);
    let answer = ask(&server, "reader-token-0123456789", "GET", "/v1/stream/chats/1").await;
    assert!(answer.header("cache-control").unwrap().starts_with("private"));
}

#[tokio::test]
async fn a_fork_needs_the_right_to_read_its_source() {
    let dir = TempDir::new().unwrap();
    let keys = r#"
        [[key]]
        name = "narrow"
        token = "narrow-token-0123456789"
        scopes = [{ glob = "mine/*", allow = ["read", "write"] }]
    "#;
    let server = guarded(Tokens { keys: Some(file(&dir, keys)), jwt: None }).await;
    let fork = |source: &'static str| {
        Request::new("PUT", "/v1/stream/mine/fork")
            .header("authorization", "Bearer narrow-token-0123456789")
            .header("stream-forked-from", source)
    };
    let refused = server.ask(fork("/v1/stream/theirs/1")).await.expect(403);
    assert!(refused.text().contains("read on theirs/1"));
    server.ask(fork("/v1/stream/mine/1")).await.expect(404);
}

#[tokio::test]
async fn guessing_is_slow() {
    let dir = TempDir::new().unwrap();
    let one = NonZeroU32::MIN;
    let limits = Limits { rate: Some(Rate { per_second: one, burst: one }), ..Limits::default() };
    let auth = Auth::Tokens(Tokens { keys: Some(file(&dir, KEYS)), jwt: None });
    let server = Harness::with(Settings { auth, limits, ..settings() }).await;
    ask(&server, "guess-1", "GET", "/v1/stream/chats/1").await.expect(401);
    ask(&server, "guess-2", "GET", "/v1/stream/chats/1").await.expect(429);
    // A client with a name is counted by it, whoever shares its address.
    ask(&server, "root-token-0123456789", "GET", "/v1/stream/chats/1").await.expect(404);
    ask(&server, "reader-token-0123456789", "GET", "/v1/stream/chats/1").await.expect(404);
    ask(&server, "root-token-0123456789", "GET", "/v1/stream/chats/1").await.expect(429);
}

fn claims() -> Value {
    json!({
        "sub": "someone",
        "exp": 4_000_000_000_u64,
        "aud": "streams",
        "iss": "https://id.example",
        "scopes": [{ "glob": "chats/*", "allow": ["read"] }],
    })
}

fn signed(algorithm: Algorithm, key: &EncodingKey, claims: &Value) -> String {
    encode(&Header::new(algorithm), claims, key).unwrap()
}

#[tokio::test]
async fn a_signed_token_says_what_its_bearer_may_do() {
    let dir = TempDir::new().unwrap();
    let jwt = Jwt {
        algorithm: JwtAlgorithm::Hs256,
        key: file(&dir, SECRET),
        audience: Some("streams".to_owned()),
        issuer: Some("https://id.example".to_owned()),
        leeway: HALF_MINUTE,
    };
    let server = guarded(Tokens { keys: None, jwt: Some(jwt) }).await;
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let good = signed(Algorithm::HS256, &key, &claims());
    ask(&server, &good, "GET", "/v1/stream/chats/1").await.expect(404);
    ask(&server, &good, "PUT", "/v1/stream/chats/1").await.expect(403);
    ask(&server, &good, "GET", "/v1/stream/other").await.expect(403);

    for (claim, value) in [
        ("exp", json!(1_000_000_000)),
        ("exp", Value::Null),
        ("nbf", json!(4_000_000_000_u64)),
        ("aud", json!("other")),
        ("aud", Value::Null),
        ("iss", json!("https://other.example")),
        ("scopes", json!([{ "glob": "a/../b", "allow": ["read"] }])),
        ("scopes", json!([{ "glob": "chats/*", "allow": ["everything"] }])),
        ("scopes", Value::Null),
    ] {
        let mut bad = claims();
        match value {
            Value::Null => drop(bad.as_object_mut().unwrap().remove(claim)),
            value => bad[claim] = value,
        }
        let token = signed(Algorithm::HS256, &key, &bad);
        assert_eq!(ask(&server, &token, "GET", "/v1/stream/chats/1").await.status, 401, "{bad}");
    }
    let other_key = EncodingKey::from_secret(b"another secret of more than 32 bytes");
    let forged = signed(Algorithm::HS256, &other_key, &claims());
    let other_hash = signed(Algorithm::HS512, &key, &claims());
    let (_, payload) = good.split_once('.').unwrap();
    let unsigned = format!("eyJhbGciOiJub25lIn0.{payload}");
    for bad in [forged, other_hash, unsigned] {
        ask(&server, &bad, "GET", "/v1/stream/chats/1").await.expect(401);
    }
}

#[tokio::test]
async fn a_signed_token_holds_past_its_end_for_as_long_as_clocks_may_be_off() {
    let dir = TempDir::new().unwrap();
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let now = sys::Sys::real().clock.unix_ms().get() / 1000;
    for (leeway, ended_ago, status) in
        [(0, 2, 401), (30, 10, 404), (30, 45, 401), (300, 200, 404), (300, 400, 401)]
    {
        let jwt = Jwt {
            algorithm: JwtAlgorithm::Hs256,
            key: file(&dir, SECRET),
            audience: None,
            issuer: None,
            leeway: Duration::from_secs(leeway),
        };
        let server = guarded(Tokens { keys: None, jwt: Some(jwt) }).await;
        let mut old = claims();
        old["exp"] = json!(now - ended_ago);
        let token = signed(Algorithm::HS256, &key, &old);
        let answer = ask(&server, &token, "GET", "/v1/stream/chats/1").await;
        assert_eq!(answer.status, status, "{leeway} s, ended {ended_ago} s ago");
    }
}

/// An erase takes forks along, wherever they stand.
#[tokio::test]
async fn an_erase_needs_the_right_to_every_fork() {
    let dir = TempDir::new().unwrap();
    let keys = r#"
        [[key]]
        name = "a"
        token = "a-token-0123456789"
        scopes = [{ glob = "a/**", allow = ["read", "write", "admin"] }]

        [[key]]
        name = "b"
        token = "b-token-0123456789"
        scopes = [{ glob = "a/**", allow = ["read"] }, { glob = "b/**", allow = ["read", "write"] }]

        [[key]]
        name = "root"
        token = "root-token-0123456789"
        scopes = [{ glob = "**", allow = ["read", "admin"] }]
    "#;
    let server = guarded(Tokens { keys: Some(file(&dir, keys)), jwt: None }).await;
    ask(&server, "a-token-0123456789", "PUT", "/v1/stream/a/x").await.expect(201);
    let fork = Request::new("PUT", "/v1/stream/b/y").header("stream-forked-from", "a/x");
    let fork = fork.header("authorization", "Bearer b-token-0123456789");
    server.ask(fork.clone()).await.expect(201);

    let erase = "/v1/stream/a/x?erase=true";
    let refused = ask(&server, "a-token-0123456789", "DELETE", erase).await.expect(403);
    assert_eq!(refused.code(), "forbidden");
    assert!(refused.text().contains("delete without erase"), "{}", refused.text());
    assert!(!refused.text().contains("b/y"), "who may not read it learns no name");
    for target in ["/v1/stream/a/x", "/v1/stream/b/y"] {
        ask(&server, "b-token-0123456789", "GET", target).await.expect(200);
    }
    ask(&server, "root-token-0123456789", "DELETE", erase).await.expect(204);
    for target in ["/v1/stream/a/x", "/v1/stream/b/y"] {
        ask(&server, "b-token-0123456789", "GET", target).await.expect(404);
    }
    // Without forks elsewhere nothing is missing.
    ask(&server, "a-token-0123456789", "PUT", "/v1/stream/a/x").await.expect(201);
    ask(&server, "a-token-0123456789", "DELETE", erase).await.expect(204);
}

#[tokio::test]
async fn tokens_may_be_signed_with_a_private_key() {
    let read = |name| {
        #[expect(clippy::disallowed_methods, reason = "the server never reads private keys")]
        fs::read(fixture(name)).unwrap()
    };
    let rows = [
        (
            JwtAlgorithm::Es256,
            Algorithm::ES256,
            "es256.pub.pem",
            EncodingKey::from_ec_pem(&read("es256.key.pem")).unwrap(),
        ),
        (
            JwtAlgorithm::EdDsa,
            Algorithm::EdDSA,
            "ed25519.pub.pem",
            EncodingKey::from_ed_pem(&read("ed25519.key.pem")).unwrap(),
        ),
        (
            JwtAlgorithm::Rs256,
            Algorithm::RS256,
            "rs256.pub.pem",
            EncodingKey::from_rsa_pem(&read("rs256.key.pem")).unwrap(),
        ),
    ];
    for (algorithm, signing, public, key) in rows {
        let jwt = Jwt {
            algorithm,
            key: fixture(public),
            audience: None,
            issuer: None,
            leeway: HALF_MINUTE,
        };
        let server = guarded(Tokens { keys: None, jwt: Some(jwt) }).await;
        let good = signed(signing, &key, &claims());
        ask(&server, &good, "GET", "/v1/stream/chats/1").await.expect(404);
        // The public key is no secret, so it must not pass for one.
        let public = EncodingKey::from_secret(&read(public));
        let forged = signed(Algorithm::HS256, &public, &claims());
        ask(&server, &forged, "GET", "/v1/stream/chats/1").await.expect(401);
    }
}

async fn refusal(settings: Settings) -> BindError {
    let sys = sys::Sys::real();
    let log = std::sync::Arc::new(log::MemoryLog::new(&sys));
    Server::bind(log, sys, settings).await.unwrap_err()
}

#[tokio::test]
async fn an_open_server_stays_at_home() {
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let error = refusal(Settings { listen: listen.parse().unwrap(), ..settings() }).await;
        assert!(matches!(error, BindError::OpenToAll(_)));
        assert!(error.to_string().contains("set tokens, or listen on 127.0.0.1"));
    }
}

#[tokio::test]
async fn auth_that_lets_nobody_in_is_refused() {
    let dir = TempDir::new().unwrap();
    let jwt = |key| Jwt {
        algorithm: JwtAlgorithm::Hs256,
        key,
        audience: None,
        issuer: None,
        leeway: HALF_MINUTE,
    };
    let missing = dir.path().join("missing");
    for (tokens, says) in [
        (Tokens::default(), "nobody could get in"),
        (Tokens { keys: Some(missing), jwt: None }, "cannot be read"),
        (Tokens { keys: None, jwt: Some(jwt(file(&dir, "short"))) }, "fewer than 32 bytes"),
    ] {
        let error = refusal(Settings { auth: Auth::Tokens(tokens), ..settings() }).await;
        assert!(matches!(
            error,
            BindError::Auth(BadAuth::Nobody | BadAuth::File(_) | BadAuth::Jwt(_))
        ));
        assert!(error.to_string().contains(says), "{error}");
    }
}
