//! A copy of a directory that is in use: whole, and with all that was acknowledged before.

#![allow(clippy::disallowed_methods, reason = "the tests look at the files themselves")]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use log::{
    Append, Create, Delete, Freshness, Log,
    file::{FileLog, OpenError, Settings, backup},
};
use sys::Sys;
use wire::{Address, Messages, ReadFrom, StreamPath};

const WRITERS: usize = 4;
const COPIES: usize = 12;

fn settings() -> Settings {
    Settings {
        segment_bytes: 32 * 1024,
        commit_bytes_max: 4 * 1024,
        regroup_segments: 1,
        ..Settings::default()
    }
}

fn stream(name: &str) -> Address {
    name.parse::<StreamPath>().expect("a plain name").into()
}

fn text(writer: usize, number: u64) -> String {
    format!("{writer} {number} {}", "x".repeat(300))
}

async fn open(dir: &Path) -> FileLog {
    FileLog::open(&Sys::real(), dir, settings()).await.expect("a sound log")
}

/// Appends until told to stop, and makes and deletes streams in between, so that packs are
/// written again.
async fn write(log: FileLog, writer: usize, acknowledged: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    let name = format!("w{writer}");
    let _ = log.create(&stream(&name), Create::default()).await.expect("a new name");
    for number in 0.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let body = Messages::one(text(writer, number)).expect("one message");
        let _ = log.append(&stream(&name), Append::messages(body)).await.expect("an open stream");
        acknowledged.store(number + 1, Ordering::Release);
        if number % 10 == 0 {
            let brief = format!("brief-{writer}-{number}");
            let _ = log.create(&stream(&brief), Create::default()).await.expect("a new name");
            let body = Messages::one("y".repeat(2_000)).expect("one message");
            let _ = log.append(&stream(&brief), Append::messages(body)).await.expect("open");
            log.delete(&stream(&brief), Delete::Erase).await.expect("it was there");
        }
    }
}

/// How many messages of a writer the log holds; they are as they were written.
async fn count(log: &FileLog, writer: usize) -> u64 {
    let (mut number, mut from) = (0, ReadFrom::Start);
    loop {
        let chunk = log.read(&stream(&format!("w{writer}")), from, 64 * 1024).await;
        let chunk = chunk.expect("it can be read");
        for message in chunk.messages() {
            assert_eq!(message, text(writer, number).as_bytes());
            number += 1;
        }
        from = ReadFrom::At(chunk.next);
        if chunk.freshness != Freshness::Behind {
            return number;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_log_in_use_holds_all_that_was_acknowledged() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let source = dir.path().join("source");
    let log = open(&source).await;
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged: Vec<Arc<AtomicU64>> = (0..WRITERS).map(|_| Arc::default()).collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let counter = acknowledged[writer].clone();
            tokio::spawn(write(log.clone(), writer, counter, stop.clone()))
        })
        .collect();
    for number in 0..COPIES {
        while acknowledged.iter().any(|count| count.load(Ordering::Acquire) == 0) {
            tokio::task::yield_now().await;
        }
        let before: Vec<u64> =
            acknowledged.iter().map(|count| count.load(Ordering::Acquire)).collect();
        let (from, to) = (source.clone(), dir.path().join(format!("copy-{number}")));
        let target = to.clone();
        let copied = tokio::task::spawn_blocking(move || backup(&Sys::real(), &from, &target, &[]));
        let copied = copied.await.expect("no panic").expect("it can be copied");
        assert!(copied.report.is_sound(), "{:?}", copied.report);
        let copy = open(&to).await;
        for (writer, before) in before.into_iter().enumerate() {
            let found = count(&copy, writer).await;
            assert!(found >= before, "writer {writer}: {found} of {before}");
        }
        copy.close().await;
    }
    stop.store(true, Ordering::Release);
    for writer in writers {
        writer.await.expect("no panic");
    }
    log.close().await;
}

#[test]
fn nothing_is_copied_over_and_nothing_from_nowhere() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::create_dir_all(&from).expect("a directory");
    let refused = backup(&Sys::real(), &from, &to, &[]);
    assert!(matches!(refused, Err(OpenError::NoLog(_))), "{refused:?}");
    assert!(!to.exists());
    std::fs::write(from.join("FORMAT"), "headwater log, format 1\nsalt 0\n").expect("writable");
    std::fs::create_dir_all(&to).expect("a directory");
    std::fs::write(to.join("mine"), "").expect("writable");
    let refused = backup(&Sys::real(), &from, &to, &[]);
    assert!(refused.expect_err("it is not empty").to_string().contains("not empty"));
}
