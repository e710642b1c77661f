//! Following a stream through whatever breaks on the way.

use std::time::Duration;

use client::{Client, Failure, Live, OffsetToken, Reader};
use sys::Sys;

use crate::support::{Act, Scripted, answer, at, connected, event, events, ours, settings, stream};

/// Everything up to the end of a stream that is closed.
async fn all(mut reader: Reader) -> String {
    let mut text = String::new();
    while let Some(batch) = reader.next().await.unwrap() {
        text.push_str(std::str::from_utf8(&batch.data).unwrap());
    }
    text
}

fn plain(text: &str, offset: &str, rest: &str) -> Act {
    Act::Say(answer("200 OK", &format!("{}{rest}", at(offset)), text))
}

/// Who is to be followed by events is looked at first.
fn looked_at() -> Act {
    Act::Say(format!("HTTP/1.1 200 OK\r\n{}\r\n", at("0")))
}

const UP_TO_DATE: &str = "stream-up-to-date: true\r\n";
const CLOSED: &str = "stream-up-to-date: true\r\nstream-closed: true\r\n";
const CLOSING: &str = ",\"streamClosed\":true";

#[tokio::test]
async fn every_way_to_follow_sees_the_whole_stream() {
    for live in [Live::LongPoll, Live::Sse, Live::Auto] {
        let client = connected(ours().await).await;
        let stream = stream(&client, "text/plain").await;
        let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
        producer.append("before ").await.unwrap().await.unwrap();
        let mut reader = stream.reader(OffsetToken::start(), live);
        let first = reader.next().await.unwrap().unwrap();
        assert_eq!((&first.data[..], first.is_up_to_date), (&b"before "[..], true), "{live:?}");
        for word in ["one ", "two "] {
            producer.append(word).await.unwrap().await.unwrap();
            assert_eq!(&reader.next().await.unwrap().unwrap().data[..], word.as_bytes());
        }
        producer.close(Some("end".into())).await.unwrap();
        assert_eq!(all(reader).await, "end", "{live:?}");
    }
}

#[tokio::test]
async fn without_following_a_reader_ends_at_the_tail() {
    let script = vec![plain("one ", "1", ""), plain("two", "2", UP_TO_DATE)];
    let server = Scripted::start(script).await;
    let mut reader = server.stream().reader(OffsetToken::start(), Live::Off);
    assert_eq!(&reader.next().await.unwrap().unwrap().data[..], b"one ");
    assert_eq!(&reader.next().await.unwrap().unwrap().data[..], b"two");
    assert_eq!(reader.next().await.unwrap(), None);
    assert_eq!(reader.offset().as_str(), "2");
    assert!(server.asked()[1].starts_with("get /v1/stream/a/stream?offset=1 "));
}

#[tokio::test]
async fn events_that_break_are_resumed_from_the_last_offset() {
    let broken = event("one ", "1", "") + "event: data\ndata:lost half";
    let script = vec![
        plain("", "0", UP_TO_DATE),
        Act::SayAndLeave(events(&broken)),
        Act::SayAndLeave(events(&event("two", "2", CLOSING))),
    ];
    let server = Scripted::start(script).await;
    assert_eq!(all(server.stream().reader(OffsetToken::start(), Live::Auto)).await, "one two");
    assert!(server.asked()[1].contains("live=sse&offset=0 "), "{:?}", server.asked());
    assert!(server.asked()[2].contains("live=sse&offset=1 "), "{:?}", server.asked());
}

#[tokio::test]
async fn events_that_do_not_hold_give_way_to_long_polls() {
    let hang_up = || Act::SayAndLeave(events(""));
    let script = vec![
        looked_at(),
        hang_up(),
        hang_up(),
        hang_up(),
        plain("one ", "1", ""),
        plain("two", "2", CLOSED),
    ];
    let server = Scripted::start(script).await;
    assert_eq!(all(server.stream().reader(OffsetToken::start(), Live::Sse)).await, "one two");
    assert!(server.asked()[4].contains("live=long-poll&offset=-1 "), "{:?}", server.asked());
}

#[tokio::test]
async fn a_server_without_events_is_polled() {
    let script = vec![looked_at(), plain("no events", "0", ""), plain("one", "1", CLOSED)];
    let server = Scripted::start(script).await;
    assert_eq!(all(server.stream().reader(OffsetToken::start(), Live::Sse)).await, "one");
}

#[tokio::test]
async fn a_connection_that_went_silent_is_given_up() {
    let script = vec![
        looked_at(),
        Act::SayAndFreeze(events(&event("one ", "1", ""))),
        Act::SayAndLeave(events(&event("two", "2", CLOSING))),
    ];
    let server = Scripted::start(script).await;
    let mut settings = settings(server.address);
    settings.silence_max = Duration::from_millis(50);
    let stream = Client::new(&Sys::real(), settings).stream(&"a/stream".parse().unwrap());
    assert_eq!(all(stream.reader(OffsetToken::start(), Live::Sse)).await, "one two");
}

#[tokio::test]
async fn a_reader_that_is_dropped_in_mid_wait_loses_nothing() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "text/plain").await;
    let mut reader = stream.reader(OffsetToken::start(), Live::Sse);
    assert!(reader.next().await.unwrap().unwrap().is_up_to_date);
    let waiting = Sys::real().clock.timeout(Duration::from_millis(20), reader.next()).await;
    assert!(waiting.is_err(), "there is nothing yet");
    let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
    producer.append("word").await.unwrap().await.unwrap();
    assert_eq!(&reader.next().await.unwrap().unwrap().data[..], b"word");
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_and_not_a_silence() {
    for text in [
        "event: control\ndata:{\n\n",
        "event: control\ndata:{}\n\n",
        "event: control\ndata:{\"streamNextOffset\":\"\"}\n\n",
        "event: data\ndata:\u{0}\n\nevent: control\ndata:[]\n\n",
    ] {
        let server = Scripted::start(vec![looked_at(), Act::SayAndFreeze(events(text))]).await;
        let mut reader = server.stream().reader(OffsetToken::start(), Live::Sse);
        let failure = reader.next().await.unwrap_err();
        assert!(matches!(failure, Failure::Unreadable(_)), "{text:?}: {failure:?}");
    }
    let server = Scripted::start(vec![Act::Say(answer("200 OK", "", "no offset"))]).await;
    let failure = server.stream().reader(OffsetToken::start(), Live::Off).next().await.unwrap_err();
    assert!(matches!(failure, Failure::Unreadable(_)), "{failure:?}");
}

#[tokio::test]
async fn text_that_looks_like_json_is_text() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "text/plain").await;
    let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
    producer.close(Some("[]".into())).await.unwrap();
    assert_eq!(all(stream.reader(OffsetToken::start(), Live::Sse)).await, "[]");

    let two = "event: data\ndata:[1]\n\n".to_owned() + &event("[2]", "2", CLOSING);
    let server = Scripted::start(vec![looked_at(), Act::SayAndLeave(events(&two))]).await;
    assert_eq!(all(server.stream().reader(OffsetToken::start(), Live::Sse)).await, "[1][2]");
}

#[tokio::test]
async fn from_now_on_means_from_the_first_moment_on() {
    let lost = Act::SayAndLeave(String::new());
    let script = vec![looked_at(), lost, plain("one", "1", CLOSED)];
    let server = Scripted::start(script).await;
    let reader = server.stream().reader(OffsetToken::now(), Live::LongPoll);
    assert_eq!(all(reader).await, "one");
    assert!(server.asked()[2].contains("offset=0 "), "{:?}", server.asked());
}

#[tokio::test]
async fn a_server_that_gives_nothing_for_ever_is_found_out() {
    let server = Scripted::start(vec![plain("", "-1", ""); 3]).await;
    let mut reader = server.stream().reader(OffsetToken::start(), Live::Off);
    let failure = reader.next().await.unwrap_err();
    assert!(matches!(failure, Failure::Unreadable(_)), "{failure:?}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn bytes_come_through_events_as_they_are() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "application/octet-stream").await;
    let bytes: Vec<u8> = (0..=255).collect();
    let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
    producer.close(Some(bytes.clone().into())).await.unwrap();
    let mut reader = stream.reader(OffsetToken::start(), Live::Sse);
    assert_eq!(reader.next().await.unwrap().unwrap().data, bytes);
}
