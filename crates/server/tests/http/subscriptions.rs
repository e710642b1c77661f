//! Subscriptions over HTTP: what the official suite does not ask.

use std::{sync::Arc, time::Duration};

use log::{Log, MemoryLog};
use serde_json::{Value, json};
use server::{Auth, Server, Settings, Tokens};
use sys::{Chance, Sys};
use wake::{Engine, Keys, NoCourier};
use wire::Timestamp;

use crate::support::{Answer, Harness, Request, settings};

const ROOT: &str = "/v1/stream/__ds/subscriptions";

async fn start(settings: Settings) -> Harness {
    let sys = Sys::real();
    let log = Arc::new(MemoryLog::new(&sys));
    let keys = Arc::new(Keys::generate(&Chance::real()));
    let waist: Arc<dyn Log> = log.clone();
    let engine = Engine::open(waist.clone(), &sys, Arc::new(NoCourier), keys).await.unwrap();
    let server = Server::bind_with(waist, Some(Arc::new(engine)), sys.clone(), settings).await;
    Harness::running(sys, log, server.unwrap())
}

fn pull() -> String {
    json!({ "type": "pull-wake", "pattern": "events/**", "wake_stream": "wake" }).to_string()
}

async fn ask(server: &Harness, method: &str, place: &str, token: &str, body: &str) -> Answer {
    let target = format!("{ROOT}/{place}");
    let request = Request::new(method, &target).header("content-type", "application/json");
    let bearer = format!("Bearer {token}");
    let request = if token.is_empty() { request } else { request.header("authorization", bearer) };
    server.ask(request.body(body)).await
}

fn read(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

/// The code, as the APIs of subscriptions give it; it is a problem like every other, too.
fn error(answer: &Answer) -> String {
    assert!(!answer.code().is_empty());
    let document = read(answer);
    assert_eq!(document["error"]["message"], document["detail"]);
    document["error"]["code"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_worker_goes_all_the_way() {
    let server = start(settings()).await;
    server.create("/v1/stream/wake", "application/json").await;
    ask(&server, "PUT", "s", "", &pull()).await.expect(201);
    ask(&server, "PUT", "s", "", &pull()).await.expect(200);
    let other = pull().replace("events", "others");
    let refused = ask(&server, "PUT", "s", "", &other).await.expect(409);
    assert_eq!(error(&refused), "SUBSCRIPTION_ALREADY_EXISTS");
    let idle = ask(&server, "POST", "s/claim", "", r#"{"worker":"one"}"#).await.expect(409);
    assert_eq!(error(&idle), "NO_PENDING_WORK");

    server.create("/v1/stream/events/a", "application/json").await;
    server.append("/v1/stream/events/a", "application/json", "[1,2]").await.expect(204);
    let claim = ask(&server, "POST", "s/claim", "", r#"{"worker":"one"}"#).await.expect(200);
    let claim = read(&claim);
    let token = claim["token"].as_str().unwrap();
    assert_eq!(claim["streams"][0]["acked_offset"], "-1");
    let taken = ask(&server, "POST", "s/claim", "", r#"{"worker":"two"}"#).await.expect(409);
    assert_eq!(error(&taken), "ALREADY_CLAIMED");
    assert_eq!(read(&taken)["error"]["current_holder"], "one");

    let report = |offset: &Value, done: bool| {
        let acks = json!([{ "stream": "events/a", "offset": offset }]);
        let (id, generation) = (&claim["wake_id"], &claim["generation"]);
        json!({ "wake_id": id, "generation": generation, "acks": acks, "done": done }).to_string()
    };
    let tail = &claim["streams"][0]["tail_offset"];
    let beyond = json!("0000000000000009_0000000000000099");
    let refused = ask(&server, "POST", "s/ack", token, &report(&beyond, true)).await.expect(409);
    assert_eq!(error(&refused), "INVALID_OFFSET");
    let refused = ask(&server, "POST", "s/ack", "v1.1.x", &report(tail, true)).await.expect(401);
    assert_eq!(error(&refused), "TOKEN_INVALID");
    ask(&server, "POST", "s/ack", token, &report(tail, false)).await.expect(200);
    let refused = ask(&server, "POST", "s/ack", token, &report(&json!("-1"), true)).await;
    assert_eq!(error(&refused.expect(400)), "INVALID_REQUEST");
    let done = ask(&server, "POST", "s/ack", token, &report(tail, true)).await.expect(200);
    assert_eq!(read(&done), json!({ "ok": true, "next_wake": false }));
    let late = ask(&server, "POST", "s/ack", token, &report(tail, true)).await.expect(409);
    assert_eq!(error(&late), "FENCED");

    ask(&server, "DELETE", "s", "", "").await.expect(204);
    ask(&server, "DELETE", "s", "", "").await.expect(204);
    assert_eq!(
        error(&ask(&server, "GET", "s", "", "").await.expect(404)),
        "SUBSCRIPTION_NOT_FOUND"
    );
}

#[tokio::test]
async fn what_makes_no_subscription_is_told_so() {
    let server = start(settings()).await;
    for body in [
        "",
        "[]",
        r#"{"type":"email","pattern":"a"}"#,
        r#"{"type":"webhook","pattern":"a"}"#,
        r#"{"type":"pull-wake","pattern":"a"}"#,
        r#"{"type":"pull-wake","wake_stream":"w"}"#,
        r#"{"type":"pull-wake","wake_stream":"w","pattern":"a//b"}"#,
        r#"{"type":"pull-wake","wake_stream":"w","streams":["../x"]}"#,
        r#"{"type":"pull-wake","wake_stream":"w","streams":["w"]}"#,
        r#"{"type":"pull-wake","wake_stream":"w","pattern":"a","lease_ttl_ms":1}"#,
    ] {
        let refused = ask(&server, "PUT", "s", "", body).await.expect(400);
        assert_eq!(error(&refused), "INVALID_REQUEST", "{body}");
    }
    let hook = r#"{"type":"webhook","pattern":"a","webhook":{"url":"https://a.example"}}"#;
    let refused = ask(&server, "PUT", "s", "", hook).await.expect(400);
    assert_eq!(error(&refused), "WEBHOOK_URL_REJECTED");
    assert_eq!(read(&refused)["reason"], "this server calls no webhooks; use a pull-wake");
    for (typo, member) in [
        (pull().replace('}', r#","concurency":"stream"}"#), "concurency"),
        (hook.replace("}}", r#","secret":"x"}}"#), "secret"),
    ] {
        let refused = ask(&server, "PUT", "s", "", &typo).await.expect(400);
        assert_eq!(error(&refused), "INVALID_REQUEST");
        let named = format!("unknown field `{member}`");
        assert!(read(&refused)["detail"].as_str().unwrap().contains(&named), "{typo}");
    }
    for place in ["s/unknown", "s/claim/x", "a%2Fb", ""] {
        let status = ask(&server, "PUT", place, "", &pull()).await.status;
        assert!([400, 404].contains(&status), "{place}: {status}");
    }
    ask(&server, "GET", "s", "", "").await.expect(404);
}

#[tokio::test]
async fn a_subscription_that_fails_says_why_and_when_it_tries_again() {
    let server = start(settings()).await;
    let made = read(&ask(&server, "PUT", "s", "", &pull()).await.expect(201));
    assert_eq!((made.get("last_error"), made.get("next_attempt_at")), (None, None));
    // Nobody made the wake stream.
    server.create("/v1/stream/events/a", "application/json").await;
    server.append("/v1/stream/events/a", "application/json", "[1]").await.expect(204);
    let clock = &server.sys.clock;
    let failed = async {
        loop {
            let view = read(&ask(&server, "GET", "s", "", "").await.expect(200));
            if view["status"] == "failed" {
                return view;
            }
            clock.sleep(Duration::from_millis(5)).await;
        }
    };
    let view = clock.timeout(Duration::from_secs(10), failed).await.unwrap();
    let why = view["last_error"].as_str().unwrap();
    assert!(why.starts_with("wake cannot be appended to: "), "{why}");
    let next = view["next_attempt_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let made = view["created_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert!(next.unix_ms() > made.unix_ms(), "{view}");
}

async fn list(server: &Harness, query: &str) -> Answer {
    server.ask(Request::new("GET", &format!("{ROOT}{query}"))).await
}

#[tokio::test]
async fn subscriptions_can_be_listed() {
    let server = start(settings()).await;
    for place in ["b", "a"] {
        ask(&server, "PUT", place, "", &pull()).await.expect(201);
    }
    let first = read(&list(&server, "?limit=1").await.expect(200));
    assert_eq!((&first["subscriptions"][0]["id"], &first["next"]), (&json!("a"), &json!("a")));
    let last = read(&list(&server, "?limit=1&after=a").await.expect(200));
    let mut entry = last["subscriptions"][0].clone();
    assert!(entry.as_object_mut().unwrap().remove("created_at").is_some());
    let expected = json!({
        "id": "b", "type": "pull-wake", "pattern": "events/**", "streams_count": 0,
        "status": "active",
    });
    assert_eq!((entry, last.get("next")), (expected, None));
    for query in ["?limit=0", "?limit=x", "?after=a%2Fb"] {
        list(&server, query).await.expect(400);
    }
    server.ask(Request::new("POST", ROOT)).await.expect(404);
}

#[tokio::test]
async fn a_token_must_allow_it() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys.toml");
    let (reader, worker, boss) = ("r".repeat(32), "w".repeat(32), "b".repeat(32));
    let mut text = String::new();
    for (token, access) in [(&reader, "read"), (&worker, "write"), (&boss, "admin")] {
        text += &format!(
            "[[key]]\nname = \"{access}\"\ntoken = \"{token}\"\n\
             scopes = [{{ glob = \"**\", allow = [\"{access}\"] }}]\n"
        );
    }
    #[expect(clippy::disallowed_methods, reason = "this is the operator")]
    std::fs::write(&keys, text).unwrap();
    let auth = Auth::Tokens(Tokens { keys: Some(keys), jwt: None });
    let server = start(Settings { auth, ..settings() }).await;
    for token in ["", &reader, &worker] {
        let status = ask(&server, "PUT", "s", token, &pull()).await.status;
        assert!([401, 403].contains(&status), "{status}");
    }
    ask(&server, "PUT", "s", &boss, &pull()).await.expect(201);
    ask(&server, "POST", "s/claim", &reader, r#"{"worker":"one"}"#).await.expect(403);
    let idle = ask(&server, "POST", "s/claim", &worker, r#"{"worker":"one"}"#).await.expect(409);
    assert_eq!(error(&idle), "NO_PENDING_WORK");
    // Whoever verifies signatures needs no token.
    let keys = server.get("/v1/stream/__ds/jwks.json").await.expect(200);
    assert_eq!(keys.header("content-type"), Some("application/jwk-set+json"));
    assert_eq!(read(&keys)["keys"][0]["crv"], "Ed25519");
}

#[tokio::test]
async fn streams_can_be_woken_one_by_one() {
    let server = start(settings()).await;
    server.create("/v1/stream/wake", "application/json").await;
    let usual = ask(&server, "PUT", "usual", "", &pull()).await.expect(201);
    assert_eq!(read(&usual).get("concurrency"), None, "the protocol does not know it");
    let asked = |concurrency: &str| pull().replace('{', &format!("{{{concurrency},"));
    ask(&server, "PUT", "usual", "", &asked(r#""concurrency":"subscription""#)).await.expect(200);
    let refused = ask(&server, "PUT", "s", "", &asked(r#""concurrency":"message""#)).await;
    assert_eq!(error(&refused.expect(400)), "INVALID_REQUEST");
    let by_stream = asked(r#""concurrency":"stream""#);
    ask(&server, "PUT", "usual", "", &by_stream).await.expect(409);
    let made = ask(&server, "PUT", "s", "", &by_stream).await.expect(201);
    assert_eq!(read(&made)["concurrency"], "stream");

    for stream in ["/v1/stream/events/a", "/v1/stream/events/b"] {
        server.create(stream, "application/json").await;
        server.append(stream, "application/json", "[1]").await.expect(204);
    }
    let mut claims = Vec::new();
    for worker in [r#"{"worker":"one"}"#, r#"{"worker":"two"}"#] {
        claims.push(read(&ask(&server, "POST", "s/claim", "", worker).await.expect(200)));
    }
    assert_eq!([1, 2], [&claims[0], &claims[1]].map(|claim| claim["generation"].as_u64().unwrap()));
    let taken = ask(&server, "POST", "s/claim", "", r#"{"worker":"three"}"#).await.expect(409);
    assert_eq!(error(&taken), "ALREADY_CLAIMED");
    for claim in claims.iter().rev() {
        assert_eq!(claim["streams"].as_array().unwrap().len(), 1);
        let work = &claim["streams"][0];
        let acks = json!([{ "stream": work["path"], "offset": work["tail_offset"] }]);
        let (id, generation) = (&claim["wake_id"], &claim["generation"]);
        let done = json!({ "wake_id": id, "generation": generation, "acks": acks, "done": true });
        let token = claim["token"].as_str().unwrap();
        ask(&server, "POST", "s/ack", token, &done.to_string()).await.expect(200);
    }
    let idle = ask(&server, "POST", "s/claim", "", r#"{"worker":"one"}"#).await.expect(409);
    assert_eq!(error(&idle), "NO_PENDING_WORK");
}

/// A report of what a claim asks for: so far, and whether that is all.
fn report(claim: &Value, acks: &[(&str, &Value)], done: bool) -> String {
    let ack = |(stream, offset): &(&str, &Value)| json!({ "stream": stream, "offset": offset });
    let acks: Vec<_> = acks.iter().map(ack).collect();
    let (id, generation) = (&claim["wake_id"], &claim["generation"]);
    json!({ "wake_id": id, "generation": generation, "acks": acks, "done": done }).to_string()
}

#[tokio::test]
async fn acknowledgements_move_forward_and_are_taken_whole() {
    let server = start(settings()).await;
    server.create("/v1/stream/wake", "application/json").await;
    ask(&server, "PUT", "s", "", &pull()).await.expect(201);
    // Any number of segments, none too.
    for stream in ["/v1/stream/events", "/v1/stream/events/a/b/c"] {
        server.create(stream, "application/json").await;
        server.append(stream, "application/json", "[1,2,3]").await.expect(204);
    }
    let claim = read(&ask(&server, "POST", "s/claim", "", r#"{"worker":"one"}"#).await.expect(200));
    let token = claim["token"].as_str().unwrap();
    // The other stream came later than the wake.
    assert_eq!(claim["streams"].as_array().unwrap().len(), 1);
    assert_eq!(claim["streams"][0]["path"], "events");
    let root = claim["streams"][0]["tail_offset"].clone();
    assert_eq!(root, "0000000000000003_0000000000000003");

    let two = json!("0000000000000002_0000000000000002");
    let one = json!("0000000000000001_0000000000000001");
    let body = report(&claim, &[("events", &two)], false);
    ask(&server, "POST", "s/ack", token, &body).await.expect(200);
    for (acks, why) in [
        ([("events", &one), ("events/a/b/c", &root)], "from the last one acknowledged to the tail"),
        ([("other", &one), ("events", &root)], "the subscription does not follow that stream"),
    ] {
        let body = report(&claim, &acks, true);
        let refused = ask(&server, "POST", "s/ack", token, &body).await.expect(409);
        assert_eq!(error(&refused), "INVALID_OFFSET");
        let document = read(&refused);
        assert_eq!((&document["stream"], &document["offset"]), (&json!(acks[0].0), &one));
        assert!(document["detail"].as_str().unwrap().contains(why), "{document}");
    }
    for place in ["s/ack", "s/callback", "s/release"] {
        let refused = ask(&server, "POST", place, "", &body).await.expect(401);
        assert_eq!(error(&refused), "TOKEN_INVALID");
        let detail = "send Authorization: Bearer and the token that came with the wake";
        assert_eq!(read(&refused)["detail"], detail);
    }
    let view = read(&ask(&server, "GET", "s", "", "").await.expect(200));
    assert_eq!(view["streams"][0]["acked_offset"], two, "a refused report changes nothing");
    assert_eq!(view["streams"][1]["acked_offset"], "-1");

    // More comes while it works: another wake calls to it.
    let body = report(&claim, &[("events", &root)], true);
    let done = ask(&server, "POST", "s/ack", token, &body).await.expect(200);
    assert_eq!(read(&done), json!({ "ok": true, "next_wake": true }));
    let next = read(&ask(&server, "POST", "s/claim", "", r#"{"worker":"two"}"#).await.expect(200));
    assert_eq!(
        (&next["generation"], &next["streams"][0]["path"]),
        (&json!(2), &json!("events/a/b/c"))
    );
    assert_ne!(next["wake_id"], claim["wake_id"]);
    let given_up = report(&next, &[], false);
    ask(&server, "POST", "s/release", token, &given_up).await.expect(409);
    let token = next["token"].as_str().unwrap();
    ask(&server, "POST", "s/release", token, &given_up).await.expect(204);
    ask(&server, "POST", "s/ack", token, &given_up).await.expect(409);
}
