//! Listing a user's streams, page by page.

use wire::{Expiry, StreamPath, Ttl, caps::LIST_PAGE_MAX};

use super::{Subject, subject::stream};
use crate::{Create, Fork, List, ListError, Page};

const NAMES: [&str; 8] = ["a", "a/1", "a/10", "a/2", "ab", "b", "c/d/e", "é"];

fn path(name: &str) -> StreamPath {
    name.parse().expect("tests name streams by valid paths")
}

fn names(page: &Page) -> Vec<&str> {
    page.streams.iter().map(|listed| listed.path.as_str()).collect()
}

async fn list(subject: &Subject, prefix: &str, after: Option<&str>, limit: usize) -> Page {
    let list = List { prefix: prefix.to_owned(), after: after.map(path), limit };
    subject.log.list(list).await.expect("the log can list")
}

/// True if the engine cannot list; then it must say so. Otherwise makes the streams of [`NAMES`].
async fn lacks_list(subject: &Subject) -> bool {
    if !subject.log.capabilities().list {
        let answer = subject.log.list(List { limit: 10, ..List::default() }).await;
        assert_matches!(answer, Err(ListError::Unsupported(_)));
        return true;
    }
    for name in NAMES.iter().rev() {
        subject.make(name).await;
    }
    false
}

/// Prefix, start and limit choose a page of the ordered names.
pub async fn a_page_is_chosen_by_prefix_after_and_limit(subject: Subject) {
    if lacks_list(&subject).await {
        return;
    }
    let rows: [(&str, Option<&str>, usize, &[&str]); 14] = [
        ("", None, 100, &NAMES),
        ("", None, 3, &["a", "a/1", "a/10"]),
        ("", Some("a/10"), 2, &["a/2", "ab"]),
        ("", Some("a/15"), 2, &["a/2", "ab"]),
        ("", Some("é"), 5, &[]),
        ("a", None, 100, &["a", "a/1", "a/10", "a/2", "ab"]),
        ("a/", None, 100, &["a/1", "a/10", "a/2"]),
        ("a/1", None, 100, &["a/1", "a/10"]),
        ("a/", Some("a/1"), 1, &["a/10"]),
        ("a/", Some("a"), 1, &["a/1"]),
        ("b", Some("a"), 9, &["b"]),
        ("a", Some("b"), 9, &[]),
        ("c/d", None, 9, &["c/d/e"]),
        ("x", None, 9, &[]),
    ];
    for (prefix, after, limit, expected) in rows {
        let page = list(&subject, prefix, after, limit).await;
        assert_eq!(names(&page), expected, "{prefix:?} after {after:?}, {limit}");
    }
}

/// Going on after each page's last shows every stream once, and then says that it was all.
pub async fn pages_follow_each_other_to_the_end(subject: Subject) {
    if lacks_list(&subject).await {
        return;
    }
    for (prefix, count) in [("", 8), ("a/", 3)] {
        for limit in 1..10 {
            let mut seen = Vec::new();
            let mut after: Option<StreamPath> = None;
            loop {
                let page = list(&subject, prefix, after.as_ref().map(StreamPath::as_str), limit);
                let page = page.await;
                assert!(page.streams.len() <= limit);
                seen.extend(page.streams.into_iter().map(|listed| listed.path));
                assert_eq!(page.next.is_some(), seen.len() < count, "{limit} a page");
                match page.next {
                    Some(next) => assert_eq!(Some(&next), seen.last()),
                    None => break,
                }
                after = seen.last().cloned();
            }
            assert_eq!(seen.len(), count);
            assert!(seen.is_sorted());
        }
    }
}

/// A list tells of each stream what a head does.
pub async fn a_list_shows_heads(subject: Subject) {
    if lacks_list(&subject).await {
        return;
    }
    subject.append(&stream("a"), &["one"]).await;
    subject.close(&stream("b")).await;
    let page = list(&subject, "", None, 100).await;
    for listed in &page.streams {
        assert_eq!(listed.head, subject.head(&listed.path.clone().into()).await);
    }
}

/// What cannot be read is not listed.
pub async fn a_list_hides_what_is_gone(subject: Subject) {
    if lacks_list(&subject).await {
        return;
    }
    let expiry = Expiry::Sliding(Ttl::from_seconds(1));
    subject.make_with("a/expired", Create { expiry, ..Create::default() }).await;
    subject.fork("a/fork", Fork::of(stream("a/1"))).await;
    subject.delete(&stream("a/1")).await;
    subject.delete(&stream("a/2")).await;
    subject.pass_ms(1_001).await;
    assert_eq!(names(&list(&subject, "a/", None, 100).await), ["a/10", "a/fork"]);
    subject.make("a/2").await;
    assert_eq!(names(&list(&subject, "a/", None, 2).await), ["a/10", "a/2"]);
}

/// What is hidden takes no place on a page and makes no page of its own.
pub async fn hidden_streams_do_not_count(subject: Subject) {
    if lacks_list(&subject).await {
        return;
    }
    for name in ["a", "a/1", "ab", "é"] {
        subject.delete(&stream(name)).await;
    }
    let page = list(&subject, "", None, 3).await;
    assert_eq!(names(&page), ["a/10", "a/2", "b"]);
    let last = list(&subject, "", Some("b"), 1).await;
    assert_eq!((names(&last), &last.next), (vec!["c/d/e"], &None));
}

/// A page is bounded, whatever was asked for.
pub async fn a_page_has_a_bound(subject: Subject) {
    const MORE: usize = LIST_PAGE_MAX + 10 - NAMES.len();
    const TASKS: usize = 16;
    if lacks_list(&subject).await {
        return;
    }
    subject
        .side_by_side(TASKS, async |subject, task| {
            for number in (task..MORE).step_by(TASKS) {
                subject.make(&format!("many/{number}")).await;
            }
        })
        .await;
    let page = list(&subject, "", None, usize::MAX).await;
    assert_eq!(page.streams.len(), LIST_PAGE_MAX);
    let next = page.next.expect("there is more");
    let rest = list(&subject, "", Some(next.as_str()), usize::MAX).await;
    assert_eq!((rest.streams.len(), rest.next), (10, None));
}
