//! System streams: like any other to those who hold their address, invisible to everybody else.

use wire::{Address, Glob, Offset, ReadFrom};

use super::{
    Subject,
    subject::{is_pending, stream, texts_of},
};
use crate::{Create, Delete, Fork, HeadError, List, Outcome};

fn system(name: &str) -> Address {
    Address::System(name.parse().expect("tests name streams by valid paths"))
}

/// True if the engine has no system streams; then it must make none.
async fn lacks_system_streams(subject: &Subject) -> bool {
    let created = subject.log.create(&system("a"), Create::default()).await;
    let has_them = subject.log.capabilities().system_streams;
    assert_eq!(created.is_ok(), has_them, "{created:?}");
    !has_them
}

/// The contract holds for them.
pub async fn a_system_stream_works_like_any_other(subject: Subject) {
    if lacks_system_streams(&subject).await {
        return;
    }
    let address = system("a");
    let again = subject.log.create(&address, Create::default()).await.expect("the same stream");
    assert_eq!(again.outcome, Outcome::Duplicate);
    let mut waiting = subject.log.tail(&address, Offset::START);
    assert!(is_pending(&mut waiting).await);
    let tail = subject.append(&address, &["one", "two"]).await;
    assert_eq!(subject.soon(waiting).await.expect("it exists").tail, tail);
    let chunk = subject.read(&address, ReadFrom::Start).await;
    assert_eq!((texts_of(&chunk), chunk.next), (vec!["one".to_owned(), "two".to_owned()], tail));
    let fork = system("fork");
    let forked = subject.log.fork(&fork, Fork::of(address.clone())).await.expect("a fork");
    assert_eq!(forked.head.tail, tail);
    subject.close(&address).await;
    subject.log.delete(&address, Delete::Stream).await.expect("it exists");
    assert_matches!(subject.log.head(&address).await, Err(HeadError::Gone(_)));
    subject.holds(&fork, &["one", "two"]).await;
}

/// A user's path never leads to a system stream.
pub async fn a_system_stream_and_a_users_of_one_name_are_apart(subject: Subject) {
    if lacks_system_streams(&subject).await {
        return;
    }
    subject.append(&system("a"), &["ours"]).await;
    assert_matches!(subject.log.head(&stream("a")).await, Err(HeadError::NotFound(_)));
    subject.make_filled("a", &[&["theirs"]]).await;
    subject.holds(&system("a"), &["ours"]).await;
    subject.delete(&stream("a")).await;
    subject.holds(&system("a"), &["ours"]).await;
}

/// No list shows them, whatever its prefix.
pub async fn no_list_shows_a_system_stream(subject: Subject) {
    if lacks_system_streams(&subject).await || !subject.log.capabilities().list {
        return;
    }
    for name in ["zzz", "system", "b"] {
        let created = subject.log.create(&system(name), Create::default()).await;
        assert!(created.is_ok(), "the log has system streams");
    }
    subject.make("b").await;
    for prefix in ["", "a", "b", "z", "system", "(system) "] {
        for limit in [1, 100] {
            let list = List { prefix: prefix.to_owned(), after: None, limit };
            let page = subject.log.list(list).await.expect("the log can list");
            let paths: Vec<_> = page.streams.iter().map(|listed| listed.path.as_str()).collect();
            let expected: &[&str] = if "b".starts_with(prefix) { &["b"] } else { &[] };
            assert_eq!((paths.as_slice(), page.next), (expected, None), "{prefix:?}");
        }
    }
}

/// No glob matches them.
pub async fn no_watcher_hears_of_a_system_stream(subject: Subject) {
    if lacks_system_streams(&subject).await || !subject.log.capabilities().watch {
        return;
    }
    let mut watch = subject.log.watch(Glob::everything()).expect("the log can watch");
    subject.append(&system("a"), &["ours"]).await;
    subject.close(&system("a")).await;
    subject.log.delete(&system("a"), Delete::Stream).await.expect("it exists");
    subject.stays_pending(watch.next()).await;
}
