//! What is asked again, and what must not be.

use client::{Badge, Body, Client, Extras, Failure};
use log::Closing;
use sys::Sys;
use wake::Answer;
use wire::{ContentType, Epoch, Producer, ProducerSeq};

use crate::support::{Act, Scripted, answer, at, settings};

fn body(producer: Option<Producer>) -> Body {
    Body {
        bytes: "x".into(),
        content_type: "text/plain".parse::<ContentType>().unwrap(),
        seq: None,
        producer,
        closing: Closing::LeaveOpen,
    }
}

fn produced() -> Body {
    let id = "p".parse().unwrap();
    body(Some(Producer { id, epoch: Epoch::new(0), seq: ProducerSeq::FIRST }))
}

fn busy() -> Act {
    Act::Say(answer("503 Service Unavailable", "", ""))
}

fn stored() -> Act {
    Act::Say(answer("204 No Content", &at("1"), ""))
}

#[tokio::test]
async fn a_look_is_repeated_until_it_is_answered() {
    let truncated = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n".to_owned();
    let script = vec![
        busy(),
        Act::SayAndLeave(String::new()),
        Act::SayAndLeave(truncated),
        Act::Say(answer("429 Too Many Requests", "retry-after: 0\r\n", "")),
        Act::Say(format!("HTTP/1.1 200 OK\r\n{}\r\n", at("7"))),
    ];
    let server = Scripted::start(script).await;
    assert_eq!(server.stream().head().await.unwrap().tail.as_str(), "7");
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test]
async fn a_refusal_is_not_repeated_and_says_what_was_asked() {
    let script = vec![Act::Say(answer("404 Not Found", "", "Stream not found"))];
    let server = Scripted::start(script).await;
    let failure = server.stream().delete().await.unwrap_err();
    assert_eq!(failure.to_string(), "404 Not Found from DELETE /a/stream: Stream not found");
    assert!(!failure.is_retryable());
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn retries_end() {
    let server = Scripted::start(vec![busy(); 20]).await;
    let failure = server.stream().head().await.unwrap_err();
    assert_eq!(failure.status().unwrap().as_u16(), 503);
    assert_eq!(server.asked().len(), 6);
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_is_repeated_only_by_a_producer() {
    let lost = || Act::SayAndLeave(String::new());
    let server = Scripted::start(vec![lost(), stored()]).await;
    let failure = server.stream().append(body(None)).await.unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
    assert_eq!(server.asked().len(), 1);

    let server = Scripted::start(vec![lost(), stored()]).await;
    assert!(server.stream().append(produced()).await.is_ok());
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn an_append_that_was_answered_with_a_failure_is_repeated() {
    let server = Scripted::start(vec![busy(), stored()]).await;
    assert!(server.stream().append(body(None)).await.is_ok());
}

#[tokio::test]
async fn nobody_there_is_told_from_no_answer() {
    let server = Scripted::start(Vec::new()).await;
    let address = server.address;
    let mut nowhere = address;
    nowhere.set_port(1);
    let client = Client::new(&Sys::real(), settings(nowhere));
    let failure = client.stream(&"a".parse().unwrap()).head().await.unwrap_err();
    assert!(matches!(failure, Failure::NotConnected(_)), "{failure:?}");
    let failure = server.stream().append(body(None)).await.unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
}

/// Counts how often it is looked at.
#[derive(Debug, Default)]
struct Counting(std::sync::atomic::AtomicU32);

impl Badge for Counting {
    fn show(&self) -> Answer<'_, Result<Extras, String>> {
        let count = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut extras = Extras::default();
        extras.headers.insert("authorization", format!("Bearer token-{count}").parse().unwrap());
        extras.params.push(("count".to_owned(), count.to_string()));
        Box::pin(std::future::ready(Ok(extras)))
    }
}

#[tokio::test]
async fn a_badge_is_shown_anew_with_every_attempt() {
    let script = vec![busy(), Act::Say(format!("HTTP/1.1 200 OK\r\n{}\r\n", at("7")))];
    let server = Scripted::start(script).await;
    let settings = settings(server.address).with_badge(Counting::default());
    let stream = Client::new(&Sys::real(), settings).stream(&"a".parse().unwrap());
    stream.head().await.unwrap();
    for (count, head) in server.asked().iter().enumerate() {
        assert!(head.contains(&format!("authorization: bearer token-{count}\r\n")), "{head}");
        assert!(head.starts_with(&format!("head /v1/stream/a?count={count} ")), "{head}");
    }
}
