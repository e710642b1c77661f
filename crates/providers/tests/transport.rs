//! What happens between us and a provider, over real sockets.
#![allow(clippy::unwrap_used, reason = "tests fail where they stand")]

mod common;

use std::{sync::Arc, time::Duration};

use chat::{Model, ModelErrorKind, ModelEvent, StopReason};
use common::{Reply, Server, ask, hello, refusal, sse, text};
use futures_util::StreamExt as _;
use providers::{
    Gemini, Key, Ollama, OpenAi, TransportSettings,
    caps::{ANSWER_BYTES_MAX, PAUSE_FIRST},
};
use serde_json::json;
use sys::{Cancellation, Sys};

const WHOLE: &[&str] = &[
    r#"{"model":"m-1","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    "[DONE]",
];

fn model(server: &Server, settings: TransportSettings) -> Arc<dyn Model> {
    let model = OpenAi::chat("m").base_url(&server.url).key(Key::new("sk-very-secret"));
    model.settings(settings).build(&Sys::real()).unwrap()
}

#[tokio::test]
async fn an_answer_arrives_and_the_request_is_what_the_provider_wants() {
    let server = Server::start(vec![Reply::Bytes(sse(WHOLE))]).await;
    let model = model(&server, TransportSettings::default());
    let (events, error) = ask(&*model, hello()).await;
    assert_eq!(error, None);
    assert_eq!(text(&events), "Hi");
    assert_eq!(events.last(), Some(&ModelEvent::Stop(StopReason::End)));
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("POST /chat/completions HTTP/1.1\r\n"), "{}", seen.head);
    assert!(seen.head.contains("authorization: Bearer sk-very-secret\r\n"), "{}", seen.head);
    assert_eq!(seen.body["messages"][0]["content"], "Hello");
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_after_the_pause_it_wants() {
    // Longer than the pause that would be made anyway after a first attempt.
    let pause = PAUSE_FIRST + Duration::from_secs(1);
    let headers = format!("retry-after-ms: {}\r\n", pause.as_millis());
    let busy = refusal("429 Too Many Requests", &headers, "{}");
    let server = Server::start(vec![Reply::Bytes(busy), Reply::Bytes(sse(WHOLE))]).await;
    let model = model(&server, TransportSettings::default());
    let clock = Sys::real().clock;
    let since = clock.elapsed();
    let (events, error) = ask(&*model, hello()).await;
    assert_eq!((text(&events).as_str(), error), ("Hi", None));
    assert!(clock.elapsed() - since >= pause, "it was not left alone for long enough");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_busy_provider_that_wants_no_pause_is_asked_again() {
    let busy = refusal("429 Too Many Requests", "", "{}");
    let down = refusal("529 Overloaded", "", "");
    let server =
        Server::start(vec![Reply::Bytes(busy), Reply::Bytes(down), Reply::Bytes(sse(WHOLE))]).await;
    let (events, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
    assert_eq!((text(&events).as_str(), error), ("Hi", None));
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_pause_may_be_asked_for_in_a_header_or_in_the_body() {
    let body = |seconds: u32| {
        let retry = json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s"),
        });
        let error = json!({ "code": 429, "status": "RESOURCE_EXHAUSTED", "details": [retry] });
        json!({ "error": error }).to_string()
    };
    for (headers, seconds) in
        [("", 3600), ("retry-after: 1\r\n", 3600), ("retry-after: 3600\r\n", 1)]
    {
        let busy = || Reply::Bytes(refusal("429 Too Many Requests", headers, &body(seconds)));
        let server = Server::start(vec![busy(), busy()]).await;
        let model = Gemini::new("gemini-3-pro").base_url(&server.url).key(Key::new("key-1"));
        let (_, error) = ask(&*model.build(&Sys::real()).unwrap(), hello()).await;
        let error = error.unwrap();
        assert_eq!(error.retry_after, Some(Duration::from_secs(3600)), "{headers:?}, {seconds}");
        assert_eq!(server.seen().len(), 1, "an hour is more than the budget");
    }
}

#[tokio::test]
async fn attempts_end_with_the_budget_and_the_error_says_when_to_come_back() {
    let busy = || Reply::Bytes(refusal("429 Too Many Requests", "retry-after: 3600\r\n", "{}"));
    let server = Server::start(vec![busy(), busy()]).await;
    let model = model(&server, TransportSettings::default());
    let (_, error) = ask(&*model, hello()).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::RateLimited);
    assert_eq!(error.retry_after, Some(Duration::from_secs(3600)));
    assert!(error.is_retryable());
    assert_eq!(server.seen().len(), 1, "an hour is more than the budget");

    let down = || Reply::Bytes(refusal("503 Unavailable", "", "down"));
    let server = Server::start(vec![down(), down(), down()]).await;
    let twice = TransportSettings { attempts_max: 2, ..TransportSettings::default() };
    let (_, error) = ask(&*self::model(&server, twice), hello()).await;
    assert_eq!(error.unwrap().message, "503: the answer begins with \"down\"");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn what_cannot_fare_better_is_not_asked_again() {
    for (status, headers) in [
        ("400 Bad Request", ""),
        ("401 Unauthorized", ""),
        ("500 Oops", "x-should-retry: false\r\n"),
    ] {
        let reply = || Reply::Bytes(refusal(status, headers, "{}"));
        let server = Server::start(vec![reply(), reply()]).await;
        let (_, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
        assert!(error.is_some(), "{status}");
        assert_eq!(server.seen().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again_only_if_nothing_was_shown() {
    let nothing = sse(&[r#"{"model":"m-1","choices":[]}"#]);
    let server = Server::start(vec![Reply::Bytes(nothing), Reply::Bytes(sse(WHOLE))]).await;
    let (events, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
    assert_eq!((text(&events).as_str(), error), ("Hi", None));
    let answering = |event: &&ModelEvent| matches!(event, ModelEvent::Answering { .. });
    assert_eq!(events.iter().filter(answering).count(), 1);

    let server = Server::start(vec![Reply::Bytes(sse(&WHOLE[..1]))]).await;
    let (events, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
    assert_eq!(text(&events), "Hi");
    assert_eq!(error.unwrap().kind, ModelErrorKind::Truncated);

    // A body that is shorter than its chunks say.
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
    let cut = format!("{head}\r\n\r\nfff\r\ndata: {}\n\n", WHOLE[0]).into_bytes();
    let server = Server::start(vec![Reply::Bytes(cut)]).await;
    let (_, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
    assert_eq!(error.unwrap().kind, ModelErrorKind::Truncated);
}

#[tokio::test]
async fn a_connection_that_stays_open_after_the_end_is_not_waited_for() {
    let mut server = Server::start(vec![Reply::Hang(sse(WHOLE))]).await;
    let (events, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
    assert_eq!((text(&events).as_str(), error), ("Hi", None));
    server.closed.recv().await.unwrap();
}

#[tokio::test]
async fn silence_ends_before_and_in_an_answer() {
    let short = Duration::from_millis(100);
    let once = TransportSettings { attempts_max: 1, ..TransportSettings::default() };
    let server = Server::start(vec![Reply::Hang(Vec::new())]).await;
    let settings = TransportSettings { first_byte_time: short, ..once.clone() };
    let (_, error) = ask(&*model(&server, settings), hello()).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::TimedOut);
    assert!(error.message.contains("first_byte_time"), "{error}");

    let server = Server::start(vec![Reply::Hang(sse(&WHOLE[..1]))]).await;
    let settings = TransportSettings { idle_time: short, ..once.clone() };
    let (events, error) = ask(&*model(&server, settings.clone()), hello()).await;
    assert_eq!(text(&events), "Hi");
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::TimedOut);
    assert!(error.message.contains("idle_time"), "{error}");

    // What said why it ends is whole, though nothing says that nothing follows.
    let server = Server::start(vec![Reply::Hang(sse(&WHOLE[..2]))]).await;
    let (events, error) = ask(&*model(&server, settings), hello()).await;
    assert_eq!((text(&events).as_str(), error), ("Hi", None));
}

#[tokio::test]
async fn cancellation_closes_the_connection() {
    let mut server = Server::start(vec![Reply::Hang(sse(&WHOLE[..1]))]).await;
    let model = model(&server, TransportSettings::default());
    let (canceller, cancellation) = Cancellation::new();
    let mut stream = model.call(hello(), cancellation);
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Answering { .. }))));
    canceller.cancel();
    let rest: Vec<_> = stream.by_ref().collect().await;
    let error = rest.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Cancelled);
    server.closed.recv().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_cut_by_the_cap() {
    let piece = format!("data: {}\n\n", WHOLE[0]).repeat(1_000).into_bytes();
    let head = common::SSE_HEAD.as_bytes().to_vec();
    let mut server = Server::start(vec![Reply::Endless(head, piece)]).await;
    let model = model(&server, TransportSettings::default());
    let (canceller, cancellation) = Cancellation::new();
    let mut stream = model.call(hello(), cancellation);
    let mut bytes = 0;
    let error = loop {
        match stream.next().await.unwrap() {
            Ok(ModelEvent::More { delta, .. }) => bytes += delta.len(),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, ModelErrorKind::TooLarge);
    assert!(error.message.contains(&ANSWER_BYTES_MAX.to_string()), "{error}");
    assert!(bytes < ANSWER_BYTES_MAX);
    drop((stream, canceller));
    server.closed.recv().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_quoted() {
    let page = "<html>A proxy says hello</html>";
    let page = refusal("200 OK", "content-type: text/html\r\n", page);
    let server = Server::start(vec![Reply::Bytes(page)]).await;
    let (_, error) = ask(&*model(&server, TransportSettings::default()), hello()).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(error.message.contains("text/html"), "{error}");
    assert!(error.message.contains("A proxy says hello"), "{error}");
}

#[tokio::test]
async fn a_key_that_is_echoed_is_not_told() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-very-secret"}}"#;
    let server = Server::start(vec![Reply::Bytes(refusal("401 Unauthorized", "", body))]).await;
    let model = model(&server, TransportSettings::default());
    let (_, error) = ask(&*model, hello()).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::Unauthorized);
    assert_eq!(
        error.to_string(),
        "openai: 401: Incorrect API key provided: …; check the key and what it may do"
    );
    assert!(!format!("{model:?} {error:?}").contains("secret"));
}

#[tokio::test]
async fn nobody_at_home_is_said_with_the_address() {
    let settings = TransportSettings { attempts_max: 1, ..TransportSettings::default() };
    let model = Ollama::new("m").base_url("http://127.0.0.1:1").settings(settings);
    let (_, error) = ask(&*model.build(&Sys::real()).unwrap(), hello()).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    assert!(error.message.contains("http://127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn lines_arrive_and_a_line_that_was_cut_is_no_answer() {
    let line = r#"{"model":"m","message":{"content":"Hi"},"done":false}"#;
    let last = r#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#;
    for (end, kind) in [(last.len(), None), (20, Some(ModelErrorKind::Truncated))] {
        let body = format!("{}{line}\n{}", common::LINES_HEAD, &last[..end]).into_bytes();
        let server = Server::start(vec![Reply::Bytes(body)]).await;
        let model = Ollama::new("m").base_url(&server.url).build(&Sys::real()).unwrap();
        let (events, error) = ask(&*model, hello()).await;
        assert_eq!(text(&events), "Hi");
        assert_eq!(error.map(|error| error.kind), kind);
    }
}
