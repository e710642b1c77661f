//! Streams cost no file descriptors: a hundred thousand of them fit a process that may have 1,024.

#![allow(clippy::disallowed_methods, reason = "the test counts its own descriptors")]

use std::{fs, sync::Arc};

use log::{
    Append, Create, Log,
    file::{FileLog, Settings},
};
use sys::Sys;
use wire::{Address, Messages, ReadFrom, StreamPath};

const STREAMS: u64 = 100_000;
const TASKS: u64 = 200;
const DESCRIPTORS_MAX: u64 = 1024;

fn stream(number: u64) -> Address {
    format!("s/{number}").parse::<StreamPath>().expect("a plain name").into()
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("a process knows its descriptors").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_streams_need_no_descriptors() {
    let limit =
        rustix::process::Rlimit { current: Some(DESCRIPTORS_MAX), maximum: Some(DESCRIPTORS_MAX) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("may be lowered");
    let dir = tempfile::tempdir().expect("a scratch directory");
    let log = FileLog::open(&Sys::real(), dir.path(), Settings::default()).await;
    let log = Arc::new(log.expect("an empty directory"));
    let before = open_descriptors();

    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let log = log.clone();
        tasks.spawn(async move {
            for number in (task..STREAMS).step_by(TASKS as usize) {
                let _ = log.create(&stream(number), Create::default()).await.expect("a new name");
                let message = Messages::one(number.to_string()).expect("one message");
                let append = Append::messages(message);
                let _ = log.append(&stream(number), append).await.expect("an open stream");
            }
        });
    }
    tasks.join_all().await;

    // A few packs may be open by now, and spare segments; their number does not depend on streams.
    let after = open_descriptors();
    assert!(after < before + 100, "{before} descriptors before, {after} after");
    for number in [0, STREAMS / 2, STREAMS - 1] {
        let chunk = log.read(&stream(number), ReadFrom::Start, 1000).await.expect("readable");
        assert_eq!(chunk.bytes(), number.to_string());
    }
    Arc::into_inner(log).expect("the tasks are done").close().await;
}
