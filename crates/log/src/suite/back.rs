//! Reading backwards: the newest messages first to be kept, page by page to the beginning.

use wire::{Address, Offset, ReadFrom};

use super::{
    Subject,
    fork::fork_at,
    subject::{boundaries, texts_of},
};
use crate::{Chunk, Freshness, ReadError};

const TEXTS: [&str; 6] = ["one", "two", "three", "4", "fifth", "six"];

/// The same messages in one append, in many, in some, and partly inherited.
async fn every_shape(subject: &Subject) -> Vec<Address> {
    let one = subject.make_filled("one append", &[&TEXTS]).await;
    let many: Vec<&[&str]> = TEXTS.chunks(1).collect();
    let many = subject.make_filled("many appends", &many).await;
    let some = subject.make_filled("some appends", &[&TEXTS[..2], &TEXTS[2..5], &TEXTS[5..]]).await;
    let fork = subject.fork("fork", fork_at(&one, boundaries(&TEXTS)[3])).await;
    subject.append(&fork, &TEXTS[3..]).await;
    let refork = subject.fork("refork", fork_at(&fork, boundaries(&TEXTS)[5])).await;
    subject.append(&refork, &TEXTS[5..]).await;
    vec![one, many, some, fork, refork]
}

async fn back(subject: &Subject, address: &Address, from: ReadFrom, bytes_max: usize) -> Chunk {
    subject.log.read(address, from, bytes_max).await.expect("the place is a boundary")
}

/// True if the engine cannot read backwards; then it must say so.
async fn lacks_back(subject: &Subject) -> bool {
    if subject.log.capabilities().read_back {
        return false;
    }
    let address = subject.make_filled("not to be read", &[&TEXTS]).await;
    let answer = subject.log.read(&address, ReadFrom::Last, 1).await;
    assert_matches!(answer, Err(ReadError::Unsupported(_)));
    true
}

/// As many of the newest as fit, at least one, in the order of the stream.
pub async fn a_read_backwards_keeps_the_newest_that_fit(subject: Subject) {
    if lacks_back(&subject).await {
        return;
    }
    let rows =
        [(0, 5), (3, 5), (7, 5), (8, 4), (9, 3), (14, 2), (16, 2), (17, 1), (20, 0), (99, 0)];
    for address in every_shape(&subject).await {
        for (bytes_max, first) in rows {
            let chunk = back(&subject, &address, ReadFrom::Last, bytes_max).await;
            assert_eq!(texts_of(&chunk), TEXTS[first..], "{address}, {bytes_max} bytes");
            assert_eq!(chunk.start, boundaries(&TEXTS)[first], "{address}, {bytes_max} bytes");
            assert_eq!(chunk.next, boundaries(&TEXTS)[6]);
            assert_eq!(chunk.freshness, Freshness::UpToDate);
        }
    }
}

/// A page ends where the one after it begins, and together they are the stream.
pub async fn reading_back_sees_every_message_once(subject: Subject) {
    if lacks_back(&subject).await {
        return;
    }
    for address in every_shape(&subject).await {
        for bytes_max in 0..22 {
            let (mut from, mut seen) = (ReadFrom::Last, Vec::new());
            loop {
                let chunk = back(&subject, &address, from, bytes_max).await;
                seen.splice(0..0, texts_of(&chunk));
                if chunk.start == Offset::START {
                    break;
                }
                from = ReadFrom::Before(chunk.start);
            }
            assert_eq!(seen, TEXTS, "{address}, {bytes_max} bytes");
        }
    }
}

/// Nothing lies before the beginning; a place inside a message is none.
pub async fn a_read_backwards_begins_at_a_boundary(subject: Subject) {
    if lacks_back(&subject).await {
        return;
    }
    for address in every_shape(&subject).await {
        let nothing = back(&subject, &address, ReadFrom::Before(Offset::START), 99).await;
        assert_eq!((nothing.messages().count(), nothing.next), (0, Offset::START));
        let inside = ReadFrom::Before(Offset::new(2, 7));
        let answer = subject.log.read(&address, inside, 99).await;
        assert_matches!(answer, Err(ReadError::OffsetUnknown(_)));
    }
    let empty = subject.make("empty").await;
    let nothing = back(&subject, &empty, ReadFrom::Last, 99).await;
    assert_eq!((nothing.messages().count(), nothing.next), (0, Offset::START));
}

/// What was trimmed is not read, from either side.
pub async fn a_read_backwards_ends_at_the_earliest(subject: Subject) {
    if lacks_back(&subject).await || !subject.log.capabilities().trim {
        return;
    }
    let places = boundaries(&TEXTS);
    for address in every_shape(&subject).await.into_iter().take(3) {
        subject.log.trim(&address, places[2]).await.expect("the place is a boundary");
        let chunk = back(&subject, &address, ReadFrom::Last, 99).await;
        assert_eq!((texts_of(&chunk).concat(), chunk.start), (TEXTS[2..].concat(), places[2]));
        let chunk = back(&subject, &address, ReadFrom::Before(places[4]), 99).await;
        assert_eq!((texts_of(&chunk).concat(), chunk.start), (TEXTS[2..4].concat(), places[2]));
        let answer = subject.log.read(&address, ReadFrom::Before(places[1]), 99).await;
        assert_matches!(answer, Err(ReadError::Trimmed(_)));
    }
}
