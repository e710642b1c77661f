//! Watching a glob: hints, no more and no less.

use std::time::Duration;

use wire::{Address, Glob, Offset};

use super::{
    Subject,
    subject::{append, closing, messages, stream},
};
use crate::{Create, Delete, Fork, Moved, Watch, WatchError};

/// More hints than anybody keeps for a watcher that does not listen.
const LAG: usize = 5_000;
/// No hint for this long means that all were heard.
const QUIET: Duration = Duration::from_millis(200);

fn glob(pattern: &str) -> Glob {
    pattern.parse().expect("tests use valid globs")
}

/// A watcher of the pattern; none if the engine cannot watch, and says so.
async fn watcher(subject: &Subject, pattern: &str) -> Option<Watch> {
    let mut watch = begun(subject, pattern)?;
    if subject.is_remote {
        assert_eq!(subject.soon(watch.next()).await, Some(Moved::Resync), "hints begin");
    }
    Some(watch)
}

/// The same, without waiting for hints to begin.
fn begun(subject: &Subject, pattern: &str) -> Option<Watch> {
    let watch = subject.log.watch(glob(pattern));
    if subject.log.capabilities().watch {
        Some(watch.expect("the log can watch"))
    } else {
        assert_matches!(watch, Err(WatchError::Unsupported(_)));
        None
    }
}

/// Waits for a hint that this stream is at `tail` or further. All hints until then must match.
async fn hears(subject: &Subject, watch: &mut Watch, pattern: &str, of: &Address, tail: Offset) {
    let listening = async {
        loop {
            match watch.next().await.expect("the log is open") {
                Moved::Resync => return,
                Moved::Stream(path, at, _) => {
                    assert!(glob(pattern).matches(&path), "{path} does not match {pattern}");
                    if of.stream() == Some(&path) && at >= tail {
                        return;
                    }
                }
            }
        }
    };
    subject.soon(listening).await;
}

async fn hears_nothing(subject: &Subject, watch: &mut Watch) {
    subject.stays_pending(watch.next()).await;
}

/// Whatever moves a tail, makes or ends a stream is hinted at.
pub async fn a_watcher_hears_of_every_change(subject: Subject) {
    let Some(mut watch) = watcher(&subject, "**").await else { return };
    let (a, start) = (stream("a"), Offset::START);
    subject.make("a").await;
    hears(&subject, &mut watch, "**", &a, start).await;
    let tail = subject.append(&a, &["one"]).await;
    hears(&subject, &mut watch, "**", &a, tail).await;
    let fork = subject.fork("fork/of/a", Fork::of(a.clone())).await;
    hears(&subject, &mut watch, "**", &fork, tail).await;
    let tail = subject.accept(&a, closing(append(&["two"]))).await;
    hears(&subject, &mut watch, "**", &a, tail).await;
    subject.close(&fork).await;
    hears(&subject, &mut watch, "**", &fork, start).await;
    subject.delete(&fork).await;
    hears(&subject, &mut watch, "**", &fork, start).await;
    hears_nothing(&subject, &mut watch).await;
}

/// A stream that is made with messages is hinted at with its tail.
pub async fn a_watcher_hears_of_initial_messages(subject: Subject) {
    let Some(mut watch) = watcher(&subject, "*").await else { return };
    let create = Create { messages: messages(&["one", "two"]), ..Create::default() };
    let address = subject.make_with("a", create).await;
    hears(&subject, &mut watch, "*", &address, Offset::new(2, 6)).await;
}

/// A glob chooses.
pub async fn a_watcher_hears_only_of_what_matches(subject: Subject) {
    let patterns = ["chats/*", "chats/**", "*/1", "chats/1", "**/1"];
    for pattern in patterns {
        let Some(mut watch) = watcher(&subject, pattern).await else { return };
        let folder = pattern.replace(['*', '/'], "-");
        for other in [format!("{folder}/2/1/3"), format!("{folder}x"), "chat/2".to_owned()] {
            let address = subject.make_filled(&other, &[&["not yours"]]).await;
            subject.delete(&address).await;
        }
        hears_nothing(&subject, &mut watch).await;
        let address = subject.make("chats/1").await;
        let tail = subject.append(&address, &["yours"]).await;
        hears(&subject, &mut watch, pattern, &address, tail).await;
        subject.delete(&address).await;
    }
}

/// What changes nothing is no news.
pub async fn a_watcher_hears_nothing_of_reads_and_refusals(subject: Subject) {
    let address = subject.make_filled("a", &[&["one"]]).await;
    subject.close(&address).await;
    let Some(mut watch) = watcher(&subject, "**").await else { return };
    subject.holds(&address, &["one"]).await;
    subject.head(&address).await;
    subject.close(&address).await;
    assert!(subject.log.append(&address, append(&["two"])).await.is_err());
    assert!(subject.log.create(&address, Create::default()).await.is_err());
    assert!(subject.log.delete(&stream("b"), Delete::Stream).await.is_err());
    hears_nothing(&subject, &mut watch).await;
}

/// Each watcher hears all.
pub async fn every_watcher_hears(subject: Subject) {
    let mut watchers = Vec::new();
    for pattern in ["**", "**", "a", "*"] {
        let Some(watch) = watcher(&subject, pattern).await else { return };
        watchers.push(watch);
    }
    let address = subject.make("a").await;
    drop(watchers.pop());
    let tail = subject.append(&address, &["one"]).await;
    for watch in &mut watchers {
        hears(&subject, watch, "**", &address, tail).await;
    }
}

/// A watcher that lags hears all the same, or is told to look for itself.
pub async fn a_watcher_that_lags_misses_nothing_unknowingly(subject: Subject) {
    let Some(mut watch) = watcher(&subject, "a/**").await else { return };
    let (a, b) = (subject.make("a/a").await, subject.make("a/b").await);
    let tail_of_a = subject.append(&a, &["one"]).await;
    for _ in 0..LAG {
        subject.append(&b, &["x"]).await;
    }
    let tail_of_b = subject.head(&b).await.tail;
    let mut missing = vec![(a, tail_of_a), (b, tail_of_b)];
    let listening = async {
        while !missing.is_empty() {
            match watch.next().await.expect("the log is open") {
                Moved::Resync => return,
                Moved::Stream(path, at, _) => {
                    missing.retain(|(of, tail)| of.stream() != Some(&path) || at < *tail);
                }
            }
        }
    };
    subject.soon(listening).await;
}

/// After a resync, hints go on.
pub async fn a_watcher_that_lagged_hears_again(subject: Subject) {
    let Some(mut watch) = watcher(&subject, "**").await else { return };
    let address = subject.make("a").await;
    for _ in 0..LAG {
        subject.append(&address, &["x"]).await;
    }
    let draining = async {
        loop {
            let quiet = subject.sys.clock.timeout(QUIET, watch.next());
            if quiet.await.is_err() {
                return;
            }
        }
    };
    subject.soon(draining).await;
    let tail = subject.append(&address, &["news"]).await;
    let news = subject.soon(watch.next()).await.expect("the log is open");
    let life = subject.head(&address).await.incarnation;
    assert_eq!(news, Moved::Stream("a".parse().expect("a path"), tail, life));
}

/// A stream that is made anew is heard as another one.
pub async fn a_stream_made_anew_is_told_apart(subject: Subject) {
    let Some(mut watch) = watcher(&subject, "**").await else { return };
    let address = subject.make("a").await;
    subject.append(&address, &["one"]).await;
    let first = subject.head(&address).await.incarnation;
    subject.log.delete(&address, Delete::Stream).await.expect("it is there");
    subject.make("a").await;
    let tail = subject.append(&address, &["two"]).await;
    let second = subject.head(&address).await.incarnation;
    assert!(second > first, "{second:?} after {first:?}");
    let listening = async {
        let mut lives = Vec::new();
        loop {
            match watch.next().await.expect("the log is open") {
                Moved::Resync => return,
                Moved::Stream(_, at, life) => {
                    lives.push(life);
                    if life == second && at == tail {
                        assert!(lives.is_sorted() && lives.contains(&first), "{lives:?}");
                        return;
                    }
                }
            }
        }
    };
    subject.soon(listening).await;
}

/// Watchers that left are forgotten.
pub async fn watchers_come_and_go(subject: Subject) {
    let address = subject.make("a").await;
    for _ in 0..5_000 {
        let Some(watch) = begun(&subject, "**") else { return };
        drop(watch);
    }
    let Some(mut watch) = watcher(&subject, "**").await else { return };
    let tail = subject.append(&address, &["one"]).await;
    hears(&subject, &mut watch, "**", &address, tail).await;
}
