//! Reading: bounds, places and freshness.

use wire::{Address, ContentType, Offset, ReadFrom, caps::CHUNK_BYTES_DEFAULT};

use super::{
    Subject,
    subject::{boundaries, stream, texts_of},
};
use crate::{Create, Fork, Freshness, OffsetBeyondTail, ReadError};

const TEXTS: [&str; 6] = ["one", "two", "three", "4", "fifth", "six"];
/// The same messages in one append, in many, and in some.
const SHAPES: [(&str, &[&[&str]]); 3] = [
    ("one append", &[&TEXTS]),
    ("many appends", &[&["one"], &["two"], &["three"], &["4"], &["fifth"], &["six"]]),
    ("some appends", &[&["one", "two"], &["three", "4", "fifth"], &["six"]]),
];

async fn every_shape(subject: &Subject) -> Vec<Address> {
    let mut addresses = Vec::new();
    for (name, appends) in SHAPES {
        addresses.push(subject.make_filled(name, appends).await);
    }
    addresses
}

/// No message is cut, and none is taken that does not fit.
pub async fn a_read_takes_whole_messages_up_to_its_bound(subject: Subject) {
    let rows = [
        (0, 1),
        (1, 1),
        (3, 1),
        (5, 1),
        (6, 2),
        (10, 2),
        (11, 3),
        (12, 4),
        (16, 4),
        (17, 5),
        (20, 6),
        (CHUNK_BYTES_DEFAULT, 6),
    ];
    for address in every_shape(&subject).await {
        for (bytes_max, count) in rows {
            let read = subject.log.read(&address, ReadFrom::Start, bytes_max).await;
            let chunk = read.expect("the start can be read");
            assert_eq!(texts_of(&chunk), TEXTS[..count], "{address}, {bytes_max} bytes");
            assert_eq!(chunk.start, Offset::START);
            assert_eq!(chunk.next, boundaries(&TEXTS)[count]);
            let whole = if count == 6 { Freshness::UpToDate } else { Freshness::Behind };
            assert_eq!(chunk.freshness, whole, "{address}, {bytes_max} bytes");
        }
    }
}

/// One chunk begins where the last one ended.
pub async fn reading_on_sees_every_message_once(subject: Subject) {
    for address in every_shape(&subject).await {
        for bytes_max in 0..22 {
            let mut seen = Vec::new();
            let mut from = ReadFrom::Start;
            let mut place = Offset::START;
            loop {
                let read = subject.log.read(&address, from, bytes_max).await;
                let chunk = read.expect("a chunk's end is a chunk's start");
                assert_eq!(chunk.start, place);
                seen.extend(texts_of(&chunk));
                place = chunk.next;
                from = ReadFrom::At(place);
                if chunk.freshness != Freshness::Behind {
                    break;
                }
                assert!(chunk.messages().count() > 0, "a reader that is behind gets ahead");
            }
            assert_eq!(seen, TEXTS, "{address}, {bytes_max} bytes");
            assert_eq!(place, subject.head(&address).await.tail);
        }
    }
}

/// A reader may start between any two messages.
pub async fn every_boundary_is_an_offset(subject: Subject) {
    for address in every_shape(&subject).await {
        for (index, offset) in boundaries(&TEXTS).into_iter().enumerate() {
            let chunk = subject.read(&address, ReadFrom::At(offset)).await;
            assert_eq!(texts_of(&chunk), TEXTS[index..], "{address} from {offset}");
            assert_eq!(chunk.start, offset);
        }
    }
}

/// A place that is no boundary was never handed out.
pub async fn an_offset_inside_a_message_is_unknown(subject: Subject) {
    let inside = [(0, 1), (1, 0), (1, 2), (1, 4), (2, 3), (2, 7), (3, 10), (5, 16), (5, 20)];
    for address in every_shape(&subject).await {
        for (position, byte) in inside {
            let offset = Offset::new(position, byte);
            let answer = subject.log.read(&address, ReadFrom::At(offset), 100).await;
            assert_matches!(answer, Err(ReadError::OffsetUnknown(fact)) if fact.0 == offset);
        }
    }
}

/// A reader that is ahead of the tail is told so, and where the tail is.
pub async fn an_offset_past_the_tail_is_caught_up(subject: Subject) {
    for (name, texts) in [("empty", &[][..]), ("full", &TEXTS)] {
        let address = subject.make_filled(name, &[]).await;
        if !texts.is_empty() {
            subject.append(&address, texts).await;
        }
        let tail = subject.head(&address).await.tail;
        for past in [tail.after(1, 1), tail.after(1, 0), tail.after(1_000_000, 9_000_000)] {
            let chunk = subject.read(&address, ReadFrom::At(past)).await;
            assert_eq!((chunk.messages().count(), chunk.next), (0, tail));
            assert_eq!(chunk.freshness, Freshness::UpToDate);
            assert_eq!(chunk.overshoot(ReadFrom::At(past)), Some(OffsetBeyondTail { tail }));
        }
        for from in [ReadFrom::Start, ReadFrom::Now, ReadFrom::At(tail)] {
            assert_eq!(subject.read(&address, from).await.overshoot(from), None);
        }
    }
}

/// Only what comes later.
pub async fn now_is_the_tail(subject: Subject) {
    let address = subject.make_filled("a", &[&["before"]]).await;
    let now = subject.read(&address, ReadFrom::Now).await;
    assert_eq!((now.messages().count(), now.freshness), (0, Freshness::UpToDate));
    assert_eq!(now.next, subject.head(&address).await.tail);
    subject.append(&address, &["after"]).await;
    let later = subject.read(&address, ReadFrom::At(now.next)).await;
    assert_eq!(texts_of(&later), ["after"]);
}

/// The end is told where it is reached, and not before.
pub async fn freshness_tells_where_the_reader_stands(subject: Subject) {
    let address = subject.make_filled("a", &[&["one", "two"]]).await;
    let middle = boundaries(&["one"])[1];
    for (from, bytes_max, open, closed) in [
        (ReadFrom::Start, 1, Freshness::Behind, Freshness::Behind),
        (ReadFrom::Start, 100, Freshness::UpToDate, Freshness::Closed),
        (ReadFrom::At(middle), 1, Freshness::UpToDate, Freshness::Closed),
        (ReadFrom::Now, 1, Freshness::UpToDate, Freshness::Closed),
    ] {
        for (step, expected) in [("open", open), ("closed", closed)] {
            let name = format!("{step} {from:?} {bytes_max}");
            let copy = subject.fork(&name.replace(' ', "-"), Fork::of(address.clone())).await;
            if step == "closed" {
                subject.close(&copy).await;
            }
            let chunk = subject.log.read(&copy, from, bytes_max).await.expect("a boundary");
            assert_eq!(chunk.freshness, expected, "{name}");
        }
    }
}

/// A chunk says what its messages are and whose.
pub async fn a_chunk_tells_what_was_read(subject: Subject) {
    let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
    let address = subject.make_with("a", create).await;
    subject.append(&address, &["1", "2"]).await;
    let chunk = subject.read(&address, ReadFrom::Start).await;
    let head = subject.head(&address).await;
    assert_eq!(chunk.content_type, ContentType::json());
    assert_eq!(chunk.incarnation, head.incarnation);
    assert_eq!(chunk.bytes(), "12");
}

/// What was read once stays true.
pub async fn readers_see_a_growing_prefix(subject: Subject) {
    const APPENDS: usize = 60;
    subject.make("a").await;
    let seen = subject
        .side_by_side(4, async |subject, task| {
            let address = stream("a");
            let mut seen: Vec<String> = Vec::new();
            if task == 0 {
                for number in 0..APPENDS {
                    subject.append(&address, &[&number.to_string(), "."]).await;
                }
                return seen;
            }
            while seen.len() < 2 * APPENDS {
                let tail = subject.head(&address).await.tail;
                let now = subject.texts(&address).await;
                assert!(now.len() as u64 >= tail.position.get(), "the tail can be read");
                assert_eq!(now[..seen.len()], seen, "what was read stays as it was");
                seen = now;
                let after = boundaries(&seen.iter().map(String::as_str).collect::<Vec<_>>());
                let after = after[seen.len()];
                if seen.len() < 2 * APPENDS {
                    let woken = subject.log.tail(&address, after).await;
                    assert!(woken.expect("the stream exists").tail > after);
                }
            }
            seen
        })
        .await;
    assert!(seen[1..].iter().all(|texts| texts == &seen[1]));
}
