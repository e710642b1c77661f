//! Forgetting the beginning of a stream.

use wire::{Address, Offset, ReadFrom};

use super::{
    Subject,
    fork::fork_at,
    subject::{boundaries, is_pending, produced, stream, texts_of},
};
use crate::{Fork, ForkError, Head, Outcome, ReadError, TrimError};

const TEXTS: [&str; 5] = ["one", "two", "three", "4", "five"];

/// Messages in appends of one, three and one.
async fn filled(subject: &Subject, name: &str) -> Address {
    subject.make_filled(name, &[&TEXTS[..1], &TEXTS[1..4], &TEXTS[4..]]).await
}

async fn trim(subject: &Subject, address: &Address, before: Offset) -> Head {
    subject.log.trim(address, before).await.expect("the place is a boundary")
}

/// True if the engine cannot trim; then it must say so.
async fn lacks_trim(subject: &Subject) -> bool {
    if subject.log.capabilities().trim {
        return false;
    }
    let address = filled(subject, "not to be trimmed").await;
    let answer = subject.log.trim(&address, boundaries(&TEXTS)[1]).await;
    assert_matches!(answer, Err(TrimError::Unsupported(_)));
    assert_eq!(subject.texts(&address).await.concat(), TEXTS.concat(), "nothing was trimmed");
    true
}

/// A stream can be trimmed to every boundary, in one step or in many.
pub async fn a_trimmed_stream_begins_at_its_earliest(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let stepwise = filled(&subject, "stepwise").await;
    let places = boundaries(&TEXTS);
    for (index, before) in places.iter().copied().enumerate() {
        let at_once = filled(&subject, &format!("at once/{index}")).await;
        for address in [&stepwise, &at_once] {
            let untrimmed = subject.head(address).await;
            let head = trim(&subject, address, before).await;
            assert_eq!(head, Head { earliest: before, ..untrimmed });
            assert_eq!(subject.head(address).await, head);
            subject.holds(address, &TEXTS[index..]).await;
            assert_eq!(subject.read(address, ReadFrom::Start).await.start, before);
        }
    }
}

/// Who asks for what is forgotten is told where to begin.
pub async fn earlier_offsets_are_refused_and_later_ones_stay(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let places = boundaries(&TEXTS);
    for trimmed in 1..=TEXTS.len() {
        let address = filled(&subject, &format!("s/{trimmed}")).await;
        let earliest = places[trimmed];
        trim(&subject, &address, earliest).await;
        for before in &places[..trimmed] {
            let answer = subject.log.read(&address, ReadFrom::At(*before), 100).await;
            assert_matches!(answer, Err(ReadError::Trimmed(fact)) if fact.earliest == earliest);
        }
        for (index, kept) in places.iter().copied().enumerate().skip(trimmed) {
            let chunk = subject.read(&address, ReadFrom::At(kept)).await;
            assert_eq!(texts_of(&chunk), TEXTS[index..]);
        }
    }
}

/// A trim point moves one way.
pub async fn trimming_less_than_before_is_no_error(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let places = boundaries(&TEXTS);
    for trimmed in 1..=TEXTS.len() {
        let address = filled(&subject, &format!("s/{trimmed}")).await;
        let head = trim(&subject, &address, places[trimmed]).await;
        for less in &places[..=trimmed] {
            assert_eq!(trim(&subject, &address, *less).await, head, "{less}");
        }
        subject.holds(&address, &TEXTS[trimmed..]).await;
    }
}

/// Only what is there can be forgotten, and only whole messages.
pub async fn a_trim_point_is_a_boundary_of_the_stream(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let address = filled(&subject, "a").await;
    let before = subject.head(&address).await;
    for inside in [Offset::new(0, 2), Offset::new(1, 2), Offset::new(2, 7), Offset::new(5, 15)] {
        let answer = subject.log.trim(&address, inside).await;
        assert_matches!(answer, Err(TrimError::OffsetUnknown(_)));
    }
    let tail = before.tail;
    for beyond in [tail.after(1, 1), tail.after(0, 1), tail.after(9, 0)] {
        let answer = subject.log.trim(&address, beyond).await;
        assert_matches!(answer, Err(TrimError::BeyondTail(fact)) if fact.tail == tail);
    }
    assert_eq!(subject.head(&address).await, before);
}

/// A stream may forget all it had, and goes on where it was.
pub async fn everything_may_be_trimmed(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let address = filled(&subject, "a").await;
    subject.accept(&address, produced("p", 0, 0)).await;
    let tail = subject.head(&address).await.tail;
    trim(&subject, &address, tail).await;
    subject.holds(&address, &[]).await;
    let retry = subject.log.append(&address, produced("p", 0, 0)).await.expect("a retry");
    assert_eq!(retry.outcome, Outcome::Duplicate);
    let next = subject.accept(&address, produced("p", 0, 1)).await;
    assert_eq!(next, tail.after(1, 1));
    subject.holds(&address, &["p"]).await;
    trim(&subject, &address, next).await;
    subject.close(&address).await;
    assert_eq!(subject.head(&address).await.earliest, next);
}

/// An empty stream has nothing to forget.
pub async fn an_empty_stream_can_be_trimmed(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let address = subject.make("a").await;
    let head = trim(&subject, &address, Offset::START).await;
    assert_eq!((head.earliest, head.tail), (Offset::START, Offset::START));
}

/// A closed stream keeps its end and may lose its beginning.
pub async fn a_closed_stream_can_be_trimmed(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let address = filled(&subject, "a").await;
    subject.close(&address).await;
    let head = trim(&subject, &address, boundaries(&TEXTS)[3]).await;
    assert!(head.closed);
    subject.holds(&address, &TEXTS[3..]).await;
}

/// What a fork inherited is its own.
pub async fn a_fork_keeps_what_its_source_forgets(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let source = filled(&subject, "source").await;
    let places = boundaries(&TEXTS);
    let fork = subject.fork("fork", fork_at(&source, places[3])).await;
    subject.append(&fork, &["own"]).await;
    for before in &places {
        trim(&subject, &source, *before).await;
        subject.holds(&fork, &["one", "two", "three", "own"]).await;
        let chunk = subject.read(&fork, ReadFrom::At(places[1])).await;
        assert_eq!(texts_of(&chunk), ["two", "three", "own"]);
    }
    subject.holds(&source, &[]).await;
    let grandchild = subject.fork("grandchild", fork_at(&fork, places[2])).await;
    subject.holds(&grandchild, &TEXTS[..2]).await;
}

/// A fork may forget what it inherited, and its own; the source does not mind.
pub async fn a_source_keeps_what_its_fork_forgets(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let source = filled(&subject, "source").await;
    let places = boundaries(&TEXTS);
    let fork = subject.fork("fork", fork_at(&source, places[3])).await;
    subject.append(&fork, &["own", "too"]).await;
    let all = ["one", "two", "three", "own", "too"];
    for (index, before) in boundaries(&all).into_iter().enumerate() {
        trim(&subject, &fork, before).await;
        subject.holds(&fork, &all[index..]).await;
        subject.holds(&source, &TEXTS).await;
    }
}

/// A fork of a trimmed stream begins where the stream does.
pub async fn a_fork_inherits_only_what_is_kept(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let source = filled(&subject, "source").await;
    let places = boundaries(&TEXTS);
    trim(&subject, &source, places[2]).await;
    for (index, forgotten) in places[..2].iter().enumerate() {
        let name = stream(&format!("refused/{index}"));
        let refused = subject.log.fork(&name, fork_at(&source, *forgotten)).await;
        assert_matches!(refused, Err(ForkError::Trimmed(fact)) if fact.earliest == places[2]);
    }
    for (index, offset) in places.iter().copied().enumerate().skip(2) {
        let fork = subject.fork(&format!("fork/{index}"), fork_at(&source, offset)).await;
        let head = subject.head(&fork).await;
        assert_eq!((head.earliest, head.tail), (places[2], offset));
        subject.append(&fork, &["own"]).await;
        subject.holds(&fork, &[&TEXTS[2..index], &["own"]].concat()).await;
        let answer = subject.log.read(&fork, ReadFrom::At(places[1]), 100).await;
        assert_matches!(answer, Err(ReadError::Trimmed(fact)) if fact.earliest == places[2]);
    }
    let whole = subject.fork("whole", Fork::of(source)).await;
    subject.holds(&whole, &TEXTS[2..]).await;
}

/// A fork and a trim that meet happen one after the other, whichever comes first.
pub async fn a_fork_beside_a_trim_inherits_all_or_is_refused(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let places = boundaries(&TEXTS);
    for head_start in 0..12 {
        let source = filled(&subject, &format!("source/{head_start}")).await;
        let address = stream(&format!("fork/{head_start}"));
        let mut forking = subject.log.fork(&address, fork_at(&source, places[2]));
        let mut steps = 0;
        while steps < head_start && is_pending(&mut forking).await {
            tokio::task::yield_now().await;
            steps += 1;
        }
        if steps < head_start {
            return;
        }
        trim(&subject, &source, places[4]).await;
        match forking.await {
            Ok(_) => subject.holds(&address, &TEXTS[..2]).await,
            Err(refused) => assert_matches!(refused, ForkError::Trimmed(_)),
        }
    }
}

/// A fork made after a trim and one made before it do not disturb each other.
pub async fn forks_from_before_and_after_a_trim_differ(subject: Subject) {
    if lacks_trim(&subject).await {
        return;
    }
    let source = filled(&subject, "source").await;
    let places = boundaries(&TEXTS);
    let early = subject.fork("early", Fork::of(source.clone())).await;
    trim(&subject, &source, places[2]).await;
    let late = subject.fork("late", Fork::of(source.clone())).await;
    subject.holds(&early, &TEXTS).await;
    subject.holds(&late, &TEXTS[2..]).await;
    subject.delete(&early).await;
    trim(&subject, &source, places[3]).await;
    subject.holds(&late, &TEXTS[2..]).await;
    subject.holds(&source, &TEXTS[3..]).await;
}
