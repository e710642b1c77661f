//! Deleting: at once for everybody, at last for the forks.

use wire::{Address, ContentType, Offset, ReadFrom};

use super::{
    Subject,
    fork::fork_at,
    subject::{append, messages, produced, stream, stream_seq},
};
use crate::{
    Append, AppendError, Create, CreateError, Delete, DeleteError, Fork, ForkError, HeadError,
    ReadError, TrimError,
};

/// Erases, unless the engine says that it cannot; then true.
async fn lacks_erase(subject: &Subject, address: &Address) -> bool {
    match subject.log.delete(address, Delete::Erase).await {
        Err(DeleteError::Unsupported(_)) => true,
        erased => {
            erased.expect("a stream can be erased");
            false
        }
    }
}

/// A deleted stream is as if it had never been.
pub async fn a_deleted_stream_is_not_found(subject: Subject) {
    let address = subject.make_filled("a", &[&["one"]]).await;
    let log = &subject.log;
    subject.delete(&address).await;
    assert_matches!(log.head(&address).await, Err(HeadError::NotFound(_)));
    assert_matches!(log.tail(&address, Offset::START).await, Err(HeadError::NotFound(_)));
    let read = log.read(&address, ReadFrom::Start, 100).await;
    assert_matches!(read, Err(ReadError::NotFound(_)));
    assert_matches!(log.append(&address, append(&["b"])).await, Err(AppendError::NotFound(_)));
    assert_matches!(log.delete(&address, Delete::Stream).await, Err(DeleteError::NotFound(_)));
    let fork = log.fork(&stream("fork"), Fork::of(address)).await;
    assert_matches!(fork, Err(ForkError::SourceNotFound(_)));
}

/// A new stream of an old name owes nothing to the old one.
pub async fn a_stream_made_anew_knows_nothing_of_the_old(subject: Subject) {
    let address = subject.make_filled("a", &[&["old", "messages"]]).await;
    subject.accept(&address, Append { seq: Some(stream_seq("9")), ..produced("p", 7, 0) }).await;
    let close = Append { closing: crate::Closing::Close, ..produced("p", 7, 1) };
    subject.accept(&address, close).await;
    let old = subject.head(&address).await;
    subject.delete(&address).await;

    let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
    subject.make_with("a", create).await;
    let new = subject.head(&address).await;
    assert_ne!(new.incarnation, old.incarnation);
    assert_eq!((new.earliest, new.tail, new.closed), (Offset::START, Offset::START, false));
    assert!(new.content_type.is_json());
    subject.holds(&address, &[]).await;
    let past = subject.read(&address, ReadFrom::At(old.tail)).await;
    assert_eq!((past.next, past.incarnation), (Offset::START, new.incarnation));
    let first = Append { messages: messages(&["1"]), ..produced("p", 0, 0) };
    subject.accept(&address, Append { seq: Some(stream_seq("1")), ..first }).await;
    subject.holds(&address, &["1"]).await;
}

/// A name can be used again and again.
pub async fn a_name_can_be_used_many_times(subject: Subject) {
    let mut seen = std::collections::BTreeSet::new();
    for life in 0..20 {
        let address = subject.make("a").await;
        subject.append(&address, &[&life.to_string()]).await;
        subject.holds(&address, &[life.to_string().as_str()]).await;
        assert!(seen.insert(subject.head(&address).await.incarnation), "life {life}");
        subject.delete(&address).await;
    }
}

/// Data that forks need is gone for everybody else.
pub async fn a_deleted_source_is_gone_for_all_but_its_forks(subject: Subject) {
    let source = subject.make_filled("source", &[&["one", "two"]]).await;
    let fork = subject.fork("fork", fork_at(&source, Offset::new(1, 3))).await;
    let log = &subject.log;
    subject.delete(&source).await;
    assert_matches!(log.head(&source).await, Err(HeadError::Gone(_)));
    assert_matches!(log.tail(&source, Offset::START).await, Err(HeadError::Gone(_)));
    assert_matches!(log.read(&source, ReadFrom::Start, 100).await, Err(ReadError::Gone(_)));
    assert_matches!(log.append(&source, append(&["b"])).await, Err(AppendError::Gone(_)));
    assert_matches!(log.close(&source).await, Err(AppendError::Gone(_)));
    assert_matches!(log.delete(&source, Delete::Stream).await, Err(DeleteError::Gone(_)));
    assert_matches!(log.create(&source, Create::default()).await, Err(CreateError::Gone(_)));
    let from_it = log.fork(&stream("refused"), Fork::of(source.clone())).await;
    assert_matches!(from_it, Err(ForkError::Gone(_)));
    let onto_it = log.fork(&source, Fork::of(fork.clone())).await;
    assert_matches!(onto_it, Err(ForkError::Gone(_)));
    if log.capabilities().trim {
        assert_matches!(log.trim(&source, Offset::START).await, Err(TrimError::Gone(_)));
    }
    subject.holds(&fork, &["one"]).await;
    subject.append(&fork, &["own"]).await;
    subject.holds(&fork, &["one", "own"]).await;
}

/// The last fork to go frees the name.
pub async fn the_last_fork_takes_its_source_along(subject: Subject) {
    let source = subject.make_filled("source", &[&["one"]]).await;
    let forks = [
        subject.fork("fork/1", Fork::of(source.clone())).await,
        subject.fork("fork/2", Fork::of(source.clone())).await,
    ];
    subject.delete(&source).await;
    subject.delete(&forks[0]).await;
    assert_matches!(subject.log.head(&source).await, Err(HeadError::Gone(_)));
    subject.holds(&forks[1], &["one"]).await;
    subject.delete(&forks[1]).await;
    subject.vanishes(&source).await;
    subject.make("source").await;
    subject.holds(&source, &[]).await;
}

/// The end of a chain climbs to its beginning.
pub async fn a_chain_of_deleted_forks_ends_with_its_last(subject: Subject) {
    let chain = ["a", "b", "c", "d"].map(stream);
    subject.make_filled("a", &[&["a"]]).await;
    for pair in chain.windows(2) {
        subject.fork(&pair[1].to_string(), Fork::of(pair[0].clone())).await;
        subject.append(&pair[1], &[&pair[1].to_string()]).await;
    }
    for deleted in &chain[..3] {
        subject.delete(deleted).await;
        subject.holds(&chain[3], &["a", "b", "c", "d"]).await;
    }
    for deleted in &chain[..3] {
        assert_matches!(subject.log.head(deleted).await, Err(HeadError::Gone(_)));
    }
    subject.delete(&chain[3]).await;
    for address in &chain {
        subject.vanishes(address).await;
    }
}

/// The climb stops at a stream that lives.
pub async fn a_living_source_outlives_its_forks(subject: Subject) {
    let source = subject.make_filled("source", &[&["one"]]).await;
    let child = subject.fork("child", Fork::of(source.clone())).await;
    let grandchild = subject.fork("grandchild", Fork::of(child.clone())).await;
    subject.delete(&child).await;
    subject.delete(&grandchild).await;
    subject.vanishes(&child).await;
    subject.holds(&source, &["one"]).await;
    subject.delete(&source).await;
    assert_matches!(subject.log.head(&source).await, Err(HeadError::NotFound(_)));
}

/// Erasing leaves no descendant, and nobody else's stream.
pub async fn an_erase_takes_the_forks_along(subject: Subject) {
    let source = subject.make_filled("source", &[&["secret"]]).await;
    let bystander = subject.make_filled("bystander", &[&["mine"]]).await;
    let child = subject.fork("child", Fork::of(source.clone())).await;
    let retired = subject.fork("retired", Fork::of(source.clone())).await;
    let grandchildren = [
        subject.fork("grandchild/1", Fork::of(child.clone())).await,
        subject.fork("grandchild/2", Fork::of(retired.clone())).await,
    ];
    subject.delete(&retired).await;
    if lacks_erase(&subject, &source).await {
        return;
    }
    for address in [&source, &child, &retired, &grandchildren[0], &grandchildren[1]] {
        assert_matches!(subject.log.head(address).await, Err(HeadError::NotFound(_)));
    }
    subject.holds(&bystander, &["mine"]).await;
    subject.make("source").await;
    subject.holds(&source, &[]).await;
}

/// One fork that may not be erased keeps the whole family, whatever it descends from.
pub async fn an_erase_stays_within_its_bounds(subject: Subject) {
    let source = subject.make_filled("mine/source", &[&["one"]]).await;
    let fork = subject.fork("mine/fork", Fork::of(source.clone())).await;
    let elsewhere = subject.fork("theirs/fork", Fork::of(fork.clone())).await;
    let within = async |globs: &[&str]| {
        let globs = globs.iter().map(|glob| glob.parse().expect("a glob")).collect();
        subject.log.erase_within(&source, globs).await
    };
    match within(&["mine/**"]).await {
        Err(DeleteError::Unsupported(_)) => return,
        refused => assert_matches!(refused, Err(DeleteError::ForkedElsewhere(_))),
    }
    assert_matches!(within(&[]).await, Err(DeleteError::ForkedElsewhere(_)));
    for address in [&source, &fork, &elsewhere] {
        subject.holds(address, &["one"]).await;
    }
    within(&["mine/**", "theirs/*"]).await.expect("all may be erased");
    for address in [&source, &fork, &elsewhere] {
        assert_matches!(subject.log.head(address).await, Err(HeadError::NotFound(_)));
    }
    // What its owner has deleted already is only kept for its forks.
    let source = subject.make_filled("mine/source", &[&["one"]]).await;
    let retired = subject.fork("theirs/fork", Fork::of(source.clone())).await;
    let last = subject.fork("mine/last", Fork::of(retired.clone())).await;
    subject.delete(&retired).await;
    let mine = ["mine/**".parse().expect("a glob")];
    subject.log.erase_within(&source, mine.into()).await.expect("what is left may be erased");
    for address in [&source, &retired, &last] {
        assert_matches!(subject.log.head(address).await, Err(HeadError::NotFound(_)));
    }
}

/// Deleted first, erased later.
pub async fn a_source_that_is_gone_can_be_erased(subject: Subject) {
    let source = subject.make("source").await;
    let fork = subject.fork("fork", Fork::of(source.clone())).await;
    subject.delete(&source).await;
    if lacks_erase(&subject, &source).await {
        return;
    }
    for address in [&source, &fork] {
        assert_matches!(subject.log.head(address).await, Err(HeadError::NotFound(_)));
    }
    let again = subject.log.delete(&source, Delete::Erase).await;
    assert_matches!(again, Err(DeleteError::NotFound(_)));
}

/// Erasing a fork erases downwards only.
pub async fn an_erased_fork_leaves_its_source(subject: Subject) {
    let source = subject.make_filled("source", &[&["one"]]).await;
    let sibling = subject.fork("sibling", Fork::of(source.clone())).await;
    let fork = subject.fork("fork", Fork::of(source.clone())).await;
    let grandchild = subject.fork("grandchild", Fork::of(fork.clone())).await;
    if lacks_erase(&subject, &fork).await {
        return;
    }
    for address in [&fork, &grandchild] {
        assert_matches!(subject.log.head(address).await, Err(HeadError::NotFound(_)));
    }
    subject.holds(&source, &["one"]).await;
    subject.holds(&sibling, &["one"]).await;
}

/// Erasing the last fork frees what was kept for it.
pub async fn an_erased_last_fork_takes_its_deleted_source_along(subject: Subject) {
    let source = subject.make("source").await;
    let fork = subject.fork("fork", Fork::of(source.clone())).await;
    subject.delete(&source).await;
    if lacks_erase(&subject, &fork).await {
        return;
    }
    subject.vanishes(&source).await;
}

/// Of many who delete, one does.
pub async fn one_of_many_deletes_wins(subject: Subject) {
    subject.make("a").await;
    let answers = subject
        .side_by_side(16, async |subject, _| subject.log.delete(&stream("a"), Delete::Stream).await)
        .await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    for loser in answers.into_iter().filter_map(Result::err) {
        assert_matches!(loser, DeleteError::NotFound(_));
    }
}
