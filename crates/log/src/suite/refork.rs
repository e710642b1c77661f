//! Asking for a fork that exists: the same request is confirmed, any other is refused.

use wire::{Address, ContentType, Expiry, Offset, SubOffset, Ttl};

use super::{
    Subject,
    fork::fork_at,
    subject::{boundaries, stream},
};
use crate::{Closing, Create, Fork, ForkError, Lifetime, Outcome};

const TEXTS: [&str; 3] = ["aa", "bbb", "cc"];

async fn source(subject: &Subject, name: &str) -> Address {
    subject.make_filled(name, &[&TEXTS[..1], &TEXTS[1..]]).await
}

async fn is_confirmed(subject: &Subject, address: &Address, fork: Fork) {
    let before = subject.head(address).await;
    let again = subject.log.fork(address, fork).await.expect("the same fork again");
    assert_eq!((again.outcome, &again.head), (Outcome::Duplicate, &before));
    assert_eq!(subject.head(address).await, before);
}

/// Every form of a fork can be asked for twice.
pub async fn the_same_fork_again_is_confirmed(subject: Subject) {
    let source = source(&subject, "source").await;
    let middle = boundaries(&TEXTS)[1];
    let forks = [
        Fork::of(source.clone()),
        fork_at(&source, Offset::START),
        fork_at(&source, middle),
        Fork { sub_offset: SubOffset::new(2), ..fork_at(&source, middle) },
        Fork { content_type: Some(ContentType::octet_stream()), ..fork_at(&source, middle) },
        Fork { lifetime: Lifetime::Own(Expiry::Never), ..Fork::of(source.clone()) },
        Fork { closing: Closing::Close, ..Fork::of(source.clone()) },
    ];
    for (number, fork) in forks.into_iter().enumerate() {
        let address = subject.fork(&format!("fork/{number}"), fork.clone()).await;
        is_confirmed(&subject, &address, fork).await;
    }
}

/// What grows afterwards changes nothing.
pub async fn a_fork_is_confirmed_after_both_have_grown(subject: Subject) {
    let source = source(&subject, "source").await;
    let forks = [Fork::of(source.clone()), fork_at(&source, boundaries(&TEXTS)[1])];
    for (number, fork) in forks.into_iter().enumerate() {
        let address = subject.fork(&format!("fork/{number}"), fork.clone()).await;
        subject.append(&source, &["later"]).await;
        subject.append(&address, &["own"]).await;
        is_confirmed(&subject, &address, fork).await;
    }
}

/// The offset that was left out may be said, if it is where the fork is.
pub async fn naming_the_tail_is_the_same_as_naming_nothing(subject: Subject) {
    let source = source(&subject, "source").await;
    let tail = subject.head(&source).await.tail;
    let silent = subject.fork("silent", Fork::of(source.clone())).await;
    is_confirmed(&subject, &silent, fork_at(&source, tail)).await;
    let said = subject.fork("said", fork_at(&source, tail)).await;
    is_confirmed(&subject, &said, Fork::of(source)).await;
}

/// A retry does not depend on what has become of the source.
pub async fn a_fork_is_confirmed_after_its_source_was_deleted(subject: Subject) {
    let source = source(&subject, "source").await;
    let forks = [Fork::of(source.clone()), fork_at(&source, boundaries(&TEXTS)[1])];
    for (number, fork) in forks.iter().enumerate() {
        subject.fork(&format!("fork/{number}"), fork.clone()).await;
    }
    subject.delete(&source).await;
    for (number, fork) in forks.into_iter().enumerate() {
        is_confirmed(&subject, &stream(&format!("fork/{number}")), fork).await;
    }
}

/// A retry does not depend on what its source still keeps.
pub async fn a_fork_is_confirmed_after_its_source_was_trimmed(subject: Subject) {
    if !subject.log.capabilities().trim {
        return;
    }
    let source = source(&subject, "source").await;
    let fork = fork_at(&source, boundaries(&TEXTS)[1]);
    let address = subject.fork("fork", fork.clone()).await;
    let tail = subject.head(&source).await.tail;
    subject.log.trim(&source, tail).await.expect("a boundary");
    is_confirmed(&subject, &address, fork).await;
}

/// Every parameter counts.
pub async fn a_fork_that_differs_is_refused(subject: Subject) {
    let source = source(&subject, "source").await;
    let twin = self::source(&subject, "twin").await;
    let places = boundaries(&TEXTS);
    let fork = Fork { sub_offset: SubOffset::new(2), ..fork_at(&source, places[1]) };
    let address = subject.fork("fork", fork.clone()).await;
    let before = subject.head(&address).await;
    let ttl = Expiry::Sliding(Ttl::from_seconds(60));
    let others = [
        Fork::of(source.clone()),
        fork_at(&source, places[1]),
        Fork { sub_offset: SubOffset::new(1), ..fork.clone() },
        Fork { sub_offset: SubOffset::new(3), ..fork.clone() },
        Fork { offset: Some(places[0]), ..fork.clone() },
        Fork { offset: Some(places[2]), ..fork.clone() },
        Fork { source: twin, ..fork.clone() },
        Fork { lifetime: Lifetime::Own(ttl), ..fork.clone() },
        Fork { closing: Closing::Close, ..fork.clone() },
    ];
    for other in others {
        let refused = subject.log.fork(&address, other).await;
        assert_matches!(refused, Err(ForkError::Exists(_)));
        assert_eq!(subject.head(&address).await, before);
    }
}

/// Two forks that end at the same place are not the same if one took along part of a message.
pub async fn a_cut_message_tells_forks_apart(subject: Subject) {
    let source = source(&subject, "source").await;
    let places = boundaries(&TEXTS);
    let whole = Fork { sub_offset: SubOffset::new(2), ..fork_at(&source, places[0]) };
    let cut = Fork { sub_offset: SubOffset::new(2), ..fork_at(&source, places[1]) };
    let address = subject.fork("fork", whole).await;
    subject.holds(&address, &["aa"]).await;
    let refused = subject.log.fork(&address, cut).await;
    assert_matches!(refused, Err(ForkError::Exists(_)));
}

/// A name that is free again belongs to whoever asks next.
pub async fn a_deleted_fork_can_be_made_anew(subject: Subject) {
    let source = source(&subject, "source").await;
    let fork = fork_at(&source, boundaries(&TEXTS)[1]);
    let address = subject.fork("fork", fork.clone()).await;
    let first = subject.head(&address).await.incarnation;
    subject.append(&address, &["own"]).await;
    subject.delete(&address).await;
    subject.fork("fork", fork).await;
    assert_ne!(subject.head(&address).await.incarnation, first);
    subject.holds(&address, &TEXTS[..1]).await;
    subject.delete(&address).await;
    subject.make_with("fork", Create::default()).await;
}
