//! Forks: a prefix of another stream, and a life of their own.

use wire::{
    Address, ContentType, Expiry, Offset, ReadFrom, SubOffset, Timestamp, Ttl, caps::FORK_DEPTH_MAX,
};

use super::{
    Subject,
    subject::{append, boundaries, messages, produced, stream, stream_seq, texts_of},
};
use crate::{
    Append, AppendError, Closing, Create, CreateError, Fork, ForkError, Freshness, HeadError,
    Lifetime, Outcome,
};

const TEXTS: [&str; 4] = ["one", "two", "three", "4"];
/// The same for JSON.
const VALUES: [&str; 4] = ["1", "22", "\"three\"", "4"];

/// A fork at an offset.
pub(super) fn fork_at(source: &Address, offset: Offset) -> Fork {
    Fork { offset: Some(offset), ..Fork::of(source.clone()) }
}

fn fork_past(source: &Address, offset: Offset, sub_offset: u64) -> Fork {
    Fork { sub_offset: SubOffset::new(sub_offset), ..fork_at(source, offset) }
}

fn json() -> Create {
    Create { content_type: Some(ContentType::json()), ..Create::default() }
}

/// The source of most tests: one append of two messages, two of one.
async fn source(subject: &Subject) -> Address {
    subject.make_filled("source", &[&TEXTS[..2], &TEXTS[2..3], &TEXTS[3..]]).await
}

/// Wherever it leaves its source, a fork begins with what was before.
pub async fn a_fork_begins_as_a_prefix_of_its_source(subject: Subject) {
    let source = source(&subject).await;
    for (index, offset) in boundaries(&TEXTS).into_iter().enumerate() {
        let fork = subject.fork(&format!("fork/{index}"), fork_at(&source, offset)).await;
        let head = subject.head(&fork).await;
        assert_eq!((head.earliest, head.tail, head.closed), (Offset::START, offset, false));
        subject.holds(&fork, &TEXTS[..index]).await;
        for (index, place) in boundaries(&TEXTS[..index]).into_iter().enumerate() {
            let chunk = subject.read(&fork, ReadFrom::At(place)).await;
            assert_eq!(chunk.next, offset, "from message {index}");
        }
    }
    let at_the_tail = subject.fork("fork/all", Fork::of(source)).await;
    subject.holds(&at_the_tail, &TEXTS).await;
}

/// Source and fork share a past and no future, also where an append was split.
pub async fn a_source_and_its_forks_grow_apart(subject: Subject) {
    let source = source(&subject).await;
    for (index, offset) in boundaries(&TEXTS).into_iter().enumerate() {
        let fork = subject.fork(&format!("fork/{index}"), fork_at(&source, offset)).await;
        let own = ["x", "and its own", "y"];
        let first = subject.append(&fork, &own[..2]).await;
        assert_eq!(first, offset.after(2, 12));
        subject.append(&fork, &own[2..]).await;
        let all = [&TEXTS[..index], &own[..]].concat();
        subject.holds(&fork, &all).await;
        for (index, place) in boundaries(&all).into_iter().enumerate() {
            let chunk = subject.read(&fork, ReadFrom::At(place)).await;
            assert_eq!(texts_of(&chunk), all[index..], "{fork} from {place}");
        }
    }
    subject.append(&source, &["later"]).await;
    subject.holds(&stream("fork/4"), &[&TEXTS[..], &["x", "and its own", "y"]].concat()).await;
    subject.holds(&source, &[&TEXTS[..], &["later"]].concat()).await;
}

/// Offsets of the source's future are no offsets of the fork.
pub async fn a_fork_does_not_know_what_its_source_did_later(subject: Subject) {
    let source = source(&subject).await;
    let places = boundaries(&TEXTS);
    let fork = subject.fork("fork", fork_at(&source, places[1])).await;
    let past = subject.read(&fork, ReadFrom::At(places[3])).await;
    assert_eq!((past.messages().count(), past.next), (0, places[1]));
    subject.append(&fork, &["other"]).await;
    subject.append(&fork, &["lengths"]).await;
    let unknown = subject.log.read(&fork, ReadFrom::At(places[2]), 100).await;
    assert_matches!(unknown, Err(crate::ReadError::OffsetUnknown(_)));
}

/// Reading goes through the boundary, within any bound.
pub async fn a_read_crosses_from_the_source_into_the_fork(subject: Subject) {
    let source = source(&subject).await;
    let fork = subject.fork("fork", fork_at(&source, boundaries(&TEXTS)[1])).await;
    subject.append(&fork, &["2", "3"]).await;
    for (bytes_max, count) in [(1, 1), (3, 1), (4, 2), (5, 3), (100, 3)] {
        let read = subject.log.read(&fork, ReadFrom::Start, bytes_max).await;
        let chunk = read.expect("the start can be read");
        assert_eq!(texts_of(&chunk), ["one", "2", "3"][..count], "{bytes_max} bytes");
    }
}

/// In a JSON stream a sub-offset counts messages.
pub async fn a_sub_offset_counts_messages_of_json(subject: Subject) {
    let source = subject.make_with("source", json()).await;
    subject.append(&source, &VALUES[..3]).await;
    subject.append(&source, &VALUES[3..]).await;
    let places = boundaries(&VALUES);
    for (anchor, count) in [(0, 0), (0, 1), (0, 3), (1, 1), (1, 2), (3, 1), (0, 4), (4, 0)] {
        let name = format!("fork/{anchor}/{count}");
        let fork = subject.fork(&name, fork_past(&source, places[anchor], count as u64)).await;
        subject.holds(&fork, &VALUES[..anchor + count]).await;
        assert_eq!(subject.head(&fork).await.tail, places[anchor + count]);
    }
    for (anchor, count) in [(0, 5), (3, 2), (4, 1), (0, u64::from(u32::MAX))] {
        let fork = fork_past(&source, places[anchor], count);
        let refused = subject.log.fork(&stream("refused"), fork).await;
        assert_matches!(refused, Err(ForkError::BeyondTail(_)));
    }
}

/// In any other stream a sub-offset counts bytes of the next message.
pub async fn a_sub_offset_counts_bytes_of_anything_else(subject: Subject) {
    let source = source(&subject).await;
    let places = boundaries(&TEXTS);
    let rows: [(usize, u64, &[&str]); 6] = [
        (0, 0, &[]),
        (0, 1, &["o"]),
        (0, 3, &["one"]),
        (1, 2, &["one", "tw"]),
        (2, 5, &["one", "two", "three"]),
        (3, 1, &["one", "two", "three", "4"]),
    ];
    for (anchor, bytes, expected) in rows {
        let name = format!("fork/{anchor}/{bytes}");
        let fork = subject.fork(&name, fork_past(&source, places[anchor], bytes)).await;
        subject.holds(&fork, expected).await;
        subject.append(&fork, &["more"]).await;
        let all = [expected, &["more"]].concat();
        assert_eq!(Some(subject.head(&fork).await.tail), boundaries(&all).pop());
        subject.holds(&fork, &all).await;
    }
    for (anchor, bytes) in [(0, 4), (2, 6), (3, 2), (4, 1)] {
        let fork = fork_past(&source, places[anchor], bytes);
        let refused = subject.log.fork(&stream("refused"), fork).await;
        assert_matches!(refused, Err(ForkError::BeyondTail(_)));
    }
}

/// A sub-offset counts from somewhere.
pub async fn a_sub_offset_needs_an_offset(subject: Subject) {
    let source = source(&subject).await;
    let alone = Fork { sub_offset: SubOffset::new(1), ..Fork::of(source) };
    let refused = subject.log.fork(&stream("refused"), alone).await;
    assert_matches!(refused, Err(ForkError::SubOffsetAlone));
}

/// A fork leaves its source between two messages.
pub async fn a_fork_needs_an_offset_of_its_source(subject: Subject) {
    let source = source(&subject).await;
    let tail = subject.head(&source).await.tail;
    for inside in [Offset::new(0, 1), Offset::new(1, 0), Offset::new(2, 7), Offset::new(4, 11)] {
        let refused = subject.log.fork(&stream("refused"), fork_at(&source, inside)).await;
        assert_matches!(refused, Err(ForkError::OffsetUnknown(fact)) if fact.0 == inside);
    }
    for beyond in [tail.after(1, 1), tail.after(1, 0), tail.after(0, 1)] {
        let refused = subject.log.fork(&stream("refused"), fork_at(&source, beyond)).await;
        assert_matches!(refused, Err(ForkError::BeyondTail(fact)) if fact.tail == tail);
    }
    assert_matches!(subject.log.head(&stream("refused")).await, Err(HeadError::NotFound(_)));
}

/// A fork may come with messages, and with an end.
pub async fn a_fork_may_carry_messages_and_an_end(subject: Subject) {
    let source = source(&subject).await;
    let places = boundaries(&TEXTS);
    let whole = Fork { messages: messages(&["x", "y"]), ..fork_at(&source, places[1]) };
    let fork = subject.fork("whole", whole).await;
    subject.holds(&fork, &["one", "x", "y"]).await;
    let cut = Fork { messages: messages(&["x", "y"]), ..fork_past(&source, places[1], 1) };
    let fork = subject.fork("cut", Fork { closing: Closing::Close, ..cut }).await;
    subject.holds(&fork, &["one", "t", "x", "y"]).await;
    assert_eq!(subject.read(&fork, ReadFrom::Now).await.freshness, Freshness::Closed);
    assert_matches!(subject.log.append(&fork, append(&["z"])).await, Err(AppendError::Closed(_)));
    subject.holds(&source, &TEXTS).await;
}

/// Forks of forks see all of their ancestors, as far as each went.
pub async fn a_fork_of_a_fork_reads_through_both(subject: Subject) {
    let source = source(&subject).await;
    let places = boundaries(&TEXTS);
    let child = subject.fork("child", fork_at(&source, places[3])).await;
    subject.append(&child, &["five", "six"]).await;
    let all = ["one", "two", "three", "five", "six"];
    for (index, offset) in boundaries(&all).into_iter().enumerate() {
        let grandchild = subject.fork(&format!("g/{index}"), fork_at(&child, offset)).await;
        subject.append(&grandchild, &["a grandchild's own"]).await;
        subject.holds(&grandchild, &[&all[..index], &["a grandchild's own"]].concat()).await;
    }
    let cut = subject.fork("cut", fork_past(&child, places[3], 2)).await;
    let recut = subject.fork("recut", fork_past(&cut, places[3], 1)).await;
    subject.append(&recut, &["!"]).await;
    subject.holds(&recut, &["one", "two", "three", "f", "!"]).await;
    subject.holds(&child, &all).await;
}

/// A chain of forks is bounded, and works to its end.
pub async fn a_chain_of_forks_may_get_so_long_and_no_longer(subject: Subject) {
    let mut texts = vec!["0".to_owned()];
    let mut last = subject.make_filled("chain/0", &[&["0"]]).await;
    for depth in 1..=FORK_DEPTH_MAX {
        last = subject.fork(&format!("chain/{depth}"), Fork::of(last.clone())).await;
        texts.push(depth.to_string());
        subject.append(&last, &[&depth.to_string()]).await;
    }
    assert_eq!(subject.texts(&last).await, texts);
    let refused = subject.log.fork(&stream("too deep"), Fork::of(last)).await;
    assert_matches!(refused, Err(ForkError::TooDeep));
}

/// What the source is told later is not the fork's business.
pub async fn a_fork_is_untouched_by_what_happens_to_its_source(subject: Subject) {
    let source = source(&subject).await;
    let tail = subject.head(&source).await.tail;
    let fork = subject.fork("fork", Fork::of(source.clone())).await;
    let before = subject.head(&fork).await;
    subject.append(&source, &["later"]).await;
    if subject.log.capabilities().trim {
        subject.log.trim(&source, tail).await.expect("a boundary");
    }
    subject.close(&source).await;
    subject.delete(&source).await;
    assert_eq!(subject.head(&fork).await, before);
    subject.holds(&fork, &TEXTS).await;
    subject.append(&fork, &["own"]).await;
    subject.holds(&fork, &[&TEXTS[..], &["own"]].concat()).await;
}

/// A fork is new to every writer.
pub async fn writers_start_anew_in_a_fork(subject: Subject) {
    let source = subject.make("source").await;
    subject.accept(&source, Append { seq: Some(stream_seq("9")), ..produced("p", 5, 0) }).await;
    subject.accept(&source, produced("p", 5, 1)).await;
    let fork = subject.fork("fork", Fork::of(source.clone())).await;
    let gap = subject.log.append(&fork, produced("p", 5, 2)).await;
    assert_matches!(gap, Err(AppendError::Gap(fact)) if fact.expected.get() == 0);
    subject.accept(&fork, Append { seq: Some(stream_seq("1")), ..produced("p", 0, 0) }).await;
    subject.accept(&source, produced("p", 5, 2)).await;
}

/// The closer of a source has closed no fork.
pub async fn a_fork_does_not_inherit_the_close(subject: Subject) {
    let source = subject.make("source").await;
    let close = Append { closing: Closing::Close, ..produced("p", 0, 0) };
    subject.accept(&source, close.clone()).await;
    let fork = subject.fork("fork", Fork::of(source)).await;
    assert!(!subject.head(&fork).await.closed);
    assert!(subject.answer(&fork, close).await.closed);
    subject.holds(&fork, &["p", "p"]).await;
}

/// The content type is the source's, said or not.
pub async fn the_content_type_is_the_sources(subject: Subject) {
    let source = subject.make_with("source", json()).await;
    let fork = subject.fork("silent", Fork::of(source.clone())).await;
    assert_eq!(subject.head(&fork).await.content_type, ContentType::json());
    let said = Fork { content_type: Some(ContentType::json()), ..Fork::of(source.clone()) };
    subject.fork("said", said).await;
    let other = Some(ContentType::octet_stream());
    let other = Fork { content_type: other, ..Fork::of(source) };
    let refused = subject.log.fork(&stream("refused"), other).await;
    assert_matches!(refused, Err(ForkError::ContentType(fact)) if fact.stream.is_json());
}

/// A fork that was refused does not hold its source.
pub async fn a_refused_fork_holds_nothing(subject: Subject) {
    let source = source(&subject).await;
    let taken = subject.make("taken").await;
    let wrong_type = Some(ContentType::json());
    let wrong_type = Fork { content_type: wrong_type, ..Fork::of(source.clone()) };
    let beyond = fork_at(&source, Offset::new(99, 99));
    for (address, fork) in [
        (stream("refused"), wrong_type),
        (stream("refused"), beyond),
        (taken, Fork::of(source.clone())),
    ] {
        assert!(subject.log.fork(&address, fork).await.is_err());
    }
    subject.delete(&source).await;
    // Held by a fork, it would be gone instead.
    assert_matches!(subject.log.head(&source).await, Err(HeadError::NotFound(_)));
}

/// How long a fork lives: the table of the protocol.
pub async fn a_forks_lifetime_is_its_own_or_its_sources(subject: Subject) {
    let ttl = |seconds| Expiry::Sliding(Ttl::from_seconds(seconds));
    let at = |hours: u64| {
        let now = subject.sys.clock.unix_ms().get();
        Expiry::At(Timestamp::from_unix_ms(now + hours * 60 * 60 * 1000))
    };
    let (soon, late) = (at(1), at(2));
    let rows = [
        (Expiry::Never, Lifetime::Inherited, Expiry::Never),
        (Expiry::Never, Lifetime::Own(ttl(60)), ttl(60)),
        (Expiry::Never, Lifetime::Own(soon), soon),
        (ttl(60), Lifetime::Inherited, ttl(60)),
        (ttl(60), Lifetime::Own(ttl(90)), ttl(90)),
        (ttl(60), Lifetime::Own(late), late),
        (soon, Lifetime::Inherited, soon),
        (soon, Lifetime::Own(ttl(60)), ttl(60)),
        (soon, Lifetime::Own(late), late),
    ];
    for (number, (expiry, lifetime, expected)) in rows.into_iter().enumerate() {
        let create = Create { expiry, ..Create::default() };
        let source = subject.make_with(&format!("source/{number}"), create).await;
        let fork = Fork { lifetime, ..Fork::of(source) };
        let fork = subject.fork(&format!("fork/{number}"), fork).await;
        assert_eq!(subject.head(&fork).await.expiry, expected, "row {number}");
    }
}

/// A fork needs a stream to continue.
pub async fn a_source_must_live(subject: Subject) {
    let source = source(&subject).await;
    subject.fork("fork", Fork::of(source.clone())).await;
    subject.delete(&source).await;
    let refused = subject.log.fork(&stream("refused"), Fork::of(source)).await;
    assert_matches!(refused, Err(ForkError::Gone(_)));
    let refused = subject.log.fork(&stream("refused"), Fork::of(stream("nowhere"))).await;
    assert_matches!(refused, Err(ForkError::SourceNotFound(_)));
}

/// A name that is taken stays taken, also by the source itself.
pub async fn a_fork_does_not_replace_a_stream(subject: Subject) {
    let source = source(&subject).await;
    let other = subject.make_filled("other", &[&["its own"]]).await;
    for taken in [&source, &other] {
        let before = subject.head(taken).await;
        let refused = subject.log.fork(taken, Fork::of(source.clone())).await;
        assert_matches!(refused, Err(ForkError::Exists(_)));
        assert_eq!(subject.head(taken).await, before);
    }
    let fork = subject.fork("fork", Fork::of(source)).await;
    let plain = subject.log.create(&fork, Create::default()).await;
    assert_matches!(plain, Err(CreateError::Exists(_)));
}

/// Of many forks at once, one is made.
pub async fn many_forks_at_once_make_one_stream(subject: Subject) {
    source(&subject).await;
    let answers = subject
        .side_by_side(16, async |subject, _| {
            let answer = subject.log.fork(&stream("fork"), Fork::of(stream("source"))).await;
            answer.expect("the same request")
        })
        .await;
    let new = answers.iter().filter(|created| created.outcome == Outcome::New).count();
    assert_eq!(new, 1);
    subject.delete(&stream("fork")).await;
    subject.delete(&stream("source")).await;
    subject.vanishes(&stream("source")).await;
}
