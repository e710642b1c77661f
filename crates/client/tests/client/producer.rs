//! Appends that are stored exactly once, in order.

use client::{Client, Live, OffsetToken, Producer, ProducerError, Stream};
use sys::Sys;
use wire::Epoch;

use crate::support::{Act, Scripted, answer, at, connected, ours, settings, stream};

async fn values(stream: &Stream) -> Vec<String> {
    let mut reader = stream.reader(OffsetToken::start(), Live::Off);
    let mut values = Vec::new();
    while let Some(batch) = reader.next().await.unwrap() {
        if !batch.data.is_empty() {
            let run = batch.values().unwrap();
            values.extend(run.iter().map(|value| String::from_utf8(value.to_vec()).unwrap()));
        }
    }
    values
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

async fn send(producer: &Producer, values: &[String]) {
    let mut tickets = Vec::new();
    for value in values {
        tickets.push(producer.append(value.clone()).await.unwrap());
    }
    for ticket in tickets {
        ticket.await.unwrap();
    }
}

#[tokio::test]
async fn many_messages_are_stored_in_order_however_they_are_batched() {
    for (batch, in_flight) in [(1, 1), (1, 16), (7, 5), (10_000, 4)] {
        let client = connected(ours().await).await;
        let stream = stream(&client, "application/json").await;
        let producer = stream.producer("p".parse().unwrap());
        let producer = producer.batch_messages_max(batch).in_flight_max(in_flight);
        let producer = producer.start().await.unwrap();
        send(&producer, &numbers(500)).await;
        assert_eq!(values(&stream).await, numbers(500), "{batch} {in_flight}");
    }
}

#[tokio::test]
async fn a_batch_is_bounded_and_a_lone_message_leaves_at_once() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "application/json").await;
    let producer = stream.producer("p".parse().unwrap()).batch_bytes_max(10);
    let producer = producer.start().await.unwrap();
    let first = producer.append("1").await.unwrap().await.unwrap();
    assert_eq!(first.seq.get(), 0);
    let large = format!("\"{}\"", "x".repeat(100));
    send(&producer, &[large.clone(), "2".to_owned(), large]).await;
    assert_eq!(values(&stream).await.len(), 4);
}

#[tokio::test]
async fn messages_of_bytes_keep_their_boundaries_on_our_servers() {
    use log::Log as _;
    let client = connected(ours().await).await;
    let stream = stream(&client, "application/octet-stream").await;
    let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
    send(&producer, &["one".to_owned(), "two".to_owned(), "three".to_owned()]).await;
    let log = client::HttpLog::new(client);
    let address = wire::Address::Stream("a/stream".parse().unwrap());
    let chunk = log.read(&address, wire::ReadFrom::Start, 1000).await.unwrap();
    assert!(chunk.messages().eq([&b"one"[..], b"two", b"three"]));
    assert_eq!(chunk.next.position.get(), 3);
}

#[tokio::test]
async fn a_new_life_is_claimed_and_fences_the_last() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "application/json").await;
    let start = || stream.producer("p".parse().unwrap()).start();
    let first = start().await.unwrap();
    let earlier = first.append("1").await.unwrap().await.unwrap().epoch;
    // Without a claim, its first message would pass for a repetition of the other's.
    let second = start().await.unwrap();
    let later = second.append("2").await.unwrap().await.unwrap().epoch;
    assert!(later > earlier, "{later} {earlier}");
    let fenced = first.append("3").await.unwrap().await.unwrap_err();
    assert!(matches!(fenced, ProducerError::Fenced { current } if current == later));
    let after = first.append("4").await.unwrap().await.unwrap_err();
    assert!(matches!(after, ProducerError::Fenced { .. }), "{after:?}");
    assert!(first.flush().await.is_err());
    assert_eq!(values(&stream).await, ["1", "2"]);

    let named = stream.producer("p".parse().unwrap()).epoch(Epoch::new(0)).start().await.unwrap();
    let fenced = named.append("5").await.unwrap().await.unwrap_err();
    assert!(matches!(fenced, ProducerError::Fenced { .. }), "{fenced:?}");
    let stubborn = stream.producer("p".parse().unwrap()).epoch(Epoch::new(0)).claims(true);
    let stubborn = stubborn.start().await.unwrap();
    let last = stubborn.append("6").await.unwrap().await.unwrap().epoch;
    assert_eq!(last.get(), later.get() + 1);
    assert_eq!(values(&stream).await, ["1", "2", "6"]);
}

#[tokio::test]
async fn a_batch_lingers_from_its_first_message_and_a_lone_one_does_not() {
    let stored = "producer-epoch: 0\r\nproducer-seq: 0\r\n";
    let stored = Act::Say(answer("200 OK", &format!("{}{stored}", at("1")), ""));
    let script = vec![stored, Act::SayAndFreeze(String::new()), Act::SayAndFreeze(String::new())];
    let server = Scripted::start(script).await;
    let producer = server.stream().producer("p".parse().unwrap());
    let producer = producer.content_type("text/plain".parse().unwrap());
    let ms = std::time::Duration::from_millis;
    let producer = producer.linger(ms(50)).start().await.unwrap();
    producer.append("alone").await.unwrap().await.unwrap();
    // The second batch is never answered, so the third leaves because it has lingered, although
    // there is always another message behind it.
    let mut tickets = Vec::new();
    while server.asked().len() < 3 {
        assert!(tickets.len() < 2_000, "messages that keep coming hold nothing back");
        tickets.push(producer.append("and another").await.unwrap());
        Sys::real().clock.sleep(ms(5)).await;
    }
}

#[tokio::test]
async fn a_message_that_is_none_harms_no_other() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "application/json").await;
    let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
    let good = producer.append("1").await.unwrap();
    let bad = producer.append("{").await.unwrap();
    let empty = producer.reserve(0).await.unwrap().submit("");
    let also_good = producer.append("2").await.unwrap();
    assert!(matches!(bad.await, Err(ProducerError::NotJson(_))));
    assert!(matches!(empty.await, Err(ProducerError::Message(_))));
    assert!(good.await.is_ok() && also_good.await.is_ok());
    assert_eq!(values(&stream).await, ["1", "2"]);
}

#[tokio::test]
async fn a_closed_stream_is_told_to_everybody_in_line() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "application/json").await;
    let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
    producer.append("1").await.unwrap().await.unwrap();
    stream.close().await.unwrap();
    let late = [producer.append("2").await.unwrap(), producer.append("3").await.unwrap()];
    for ticket in late {
        assert!(matches!(ticket.await, Err(ProducerError::Closed)));
    }
    assert!(matches!(producer.close(None).await, Err(ProducerError::Closed)));
}

#[tokio::test]
async fn a_producer_closes_with_a_last_word_after_all_others() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "application/json").await;
    let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
    let ticket = producer.append("1").await.unwrap();
    let end = producer.close(Some("2".into())).await.unwrap();
    assert!(ticket.await.is_ok());
    assert_eq!(stream.head().await.unwrap().tail, end.tail);
    assert!(stream.head().await.unwrap().is_closed);
    assert_eq!(values(&stream).await, ["1", "2"]);
}

#[tokio::test]
async fn what_was_submitted_is_stored_although_everybody_left() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "application/json").await;
    let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
    let tickets = [producer.append("1").await.unwrap(), producer.append("2").await.unwrap()];
    drop(producer);
    for ticket in tickets {
        ticket.await.unwrap();
    }
    assert_eq!(values(&stream).await, ["1", "2"]);
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_and_known_as_a_repetition() {
    let epoch = "producer-epoch: 0\r\nproducer-seq: 0\r\n";
    let script = vec![
        Act::SayAndLeave(String::new()),
        Act::Say(answer("204 No Content", &format!("{}{epoch}", at("1")), "")),
    ];
    let server = Scripted::start(script).await;
    let producer = server.stream().producer("p".parse().unwrap());
    let producer = producer.content_type("text/plain".parse().unwrap()).start().await.unwrap();
    let receipt = producer.append("x").await.unwrap().await.unwrap();
    assert!(receipt.is_duplicate);
    let [first, second] = server.asked().try_into().unwrap();
    assert_eq!(first, second, "the same request");
}

#[tokio::test]
async fn nothing_overtakes_a_batch_that_may_be_lost() {
    let server = Scripted::start(Vec::new()).await;
    let producer = server.stream().producer("p".parse().unwrap());
    let producer = producer.content_type("text/plain".parse().unwrap()).start().await.unwrap();
    let first = producer.append("1").await.unwrap();
    let second = producer.append("2").await.unwrap();
    assert!(matches!(first.await, Err(ProducerError::Failed(_))));
    let behind = second.await.unwrap_err();
    assert!(matches!(behind, ProducerError::Behind(_) | ProducerError::Failed(_)), "{behind:?}");
    let after = producer.append("3").await.unwrap().await.unwrap_err();
    assert!(matches!(after, ProducerError::Behind(_)), "{after:?}");
    assert!(producer.flush().await.is_err());
}

#[tokio::test]
async fn a_refused_batch_leaves_its_number_to_the_next() {
    let epoch = |seq: u32| format!("producer-epoch: 0\r\nproducer-seq: {seq}\r\n");
    let script = vec![
        Act::Say(answer("200 OK", &format!("{}{}", at("1"), epoch(0)), "")),
        Act::Say(answer("413 Payload Too Large", "", "too large")),
        Act::Say(answer("200 OK", &format!("{}{}", at("2"), epoch(1)), "")),
    ];
    let server = Scripted::start(script).await;
    let producer = server.stream().producer("p".parse().unwrap()).batch_messages_max(1);
    let producer = producer.content_type("text/plain".parse().unwrap()).in_flight_max(1);
    let producer = producer.start().await.unwrap();
    producer.append("1").await.unwrap().await.unwrap();
    let large = producer.append("large").await.unwrap();
    assert!(matches!(large.await, Err(ProducerError::Refused(_))));
    assert_eq!(producer.append("2").await.unwrap().await.unwrap().seq.get(), 1);
}

#[tokio::test]
async fn a_server_that_lost_what_it_stored_is_found_out() {
    let gap = "producer-expected-seq: 0\r\nproducer-received-seq: 1\r\n";
    let epoch = "producer-epoch: 0\r\nproducer-seq: 0\r\n";
    let script = vec![
        Act::Say(answer("200 OK", &format!("{}{epoch}", at("1")), "")),
        Act::Say(answer("409 Conflict", gap, "gap")),
    ];
    let server = Scripted::start(script).await;
    let producer = server.stream().producer("p".parse().unwrap());
    let producer = producer.content_type("text/plain".parse().unwrap()).start().await.unwrap();
    producer.append("1").await.unwrap().await.unwrap();
    let lost = producer.append("2").await.unwrap().await.unwrap_err();
    assert!(matches!(lost, ProducerError::Gap { .. }), "{lost:?}");
}

#[tokio::test]
async fn room_is_given_back_and_a_line_that_is_full_waits() {
    let client = connected(ours().await).await;
    let stream = stream(&client, "application/octet-stream").await;
    let producer = stream.producer("p".parse().unwrap()).start().await.unwrap();
    let most = 32 * 1024 * 1024;
    let permits = [producer.reserve(most).await.unwrap(), producer.reserve(most).await.unwrap()];
    let mut waiting = Box::pin(producer.reserve(1));
    let soon = std::time::Duration::from_millis(20);
    assert!(Sys::real().clock.timeout(soon, &mut waiting).await.is_err(), "all room is taken");
    drop(permits);
    waiting.await.unwrap().submit("x").await.unwrap();
    let larger = producer.reserve(4).await.unwrap().submit("five!").await;
    assert!(matches!(larger, Err(ProducerError::LargerThanReserved { reserved: 4, given: 5 })));
    assert!(producer.reserve(most + 1).await.is_err());
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused_before_anything_is_sent() {
    let server = Scripted::start(Vec::new()).await;
    let client = Client::new(&Sys::real(), settings(server.address));
    let producer = || client.stream(&"a".parse().unwrap()).producer("p".parse().unwrap());
    assert!(producer().batch_bytes_max(0).start().await.is_err());
    assert!(producer().batch_messages_max(0).start().await.is_err());
    assert!(producer().in_flight_max(0).start().await.is_err());
    assert!(server.asked().is_empty());
}
