//! What is on disks stays readable: a frozen directory of each format is opened for ever. And what
//! is broken is found, told, and mended only when told to.

#![allow(clippy::disallowed_methods, reason = "the tests look at and break the files themselves")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use log::{
    Append, Closing, Create, Delete, Fork, Freshness, Log,
    file::{FileLog, OpenError, Settings, doctor},
};
use sys::Sys;
use tempfile::TempDir;
use wire::{
    Address, ContentType, Epoch, Messages, Producer, ProducerSeq, ReadFrom, StreamPath,
    caps::CHUNK_BYTES_DEFAULT,
};

fn settings() -> Settings {
    Settings {
        segment_bytes: 16 * 1024,
        commit_bytes_max: 2 * 1024,
        regroup_segments: 1,
        ..Settings::default()
    }
}

fn stream(name: &str) -> Address {
    name.parse::<StreamPath>().expect("a plain name").into()
}

/// The directories of earlier versions: one copy of everything, and two.
const FIXTURES: [&str; 2] = ["format-1", "format-1-copies"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

async fn open(dir: &Path) -> FileLog {
    FileLog::open(&Sys::real(), dir, settings()).await.expect("a sound log")
}

/// Writes what the fixture holds. The frozen directory was made by this function.
async fn fill(log: &FileLog) {
    let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
    let _ = log.create(&stream("chat"), create).await.expect("a new name");
    for seq in 0..200 {
        let producer = Producer {
            id: "writer".parse().expect("a plain id"),
            epoch: Epoch::new(1),
            seq: ProducerSeq::new(seq),
        };
        let message = format!("{{\"n\":{seq},\"pad\":\"{}\"}}", "x".repeat(100));
        let messages = Messages::one(message).expect("one message");
        let append = Append { producer: Some(producer), ..Append::messages(messages) };
        let _ = log.append(&stream("chat"), append).await.expect("an open stream");
    }
    let _ = log.fork(&stream("fork"), Fork::of(stream("chat"))).await.expect("a fork");
    let _ = log.create(&stream("gone"), Create::default()).await.expect("a new name");
    log.delete(&stream("gone"), Delete::Stream).await.expect("it was there");
    let last = Messages::one("\"end\"").expect("one message");
    let append = Append { closing: Closing::Close, ..Append::messages(last) };
    let _ = log.append(&stream("chat"), append).await.expect("an open stream");
}

async fn check_filled(log: &FileLog) {
    let mut messages = Vec::new();
    let mut from = ReadFrom::Start;
    loop {
        let chunk = log.read(&stream("chat"), from, 1000).await.expect("it can be read");
        messages.extend(chunk.messages().map(<[u8]>::to_vec));
        from = ReadFrom::At(chunk.next);
        if chunk.freshness == Freshness::Closed {
            break;
        }
    }
    assert_eq!(messages.len(), 201);
    assert!(messages[199].starts_with(b"{\"n\":199,"));
    assert_eq!(messages[200], b"\"end\"");
    let fork = log.read(&stream("fork"), ReadFrom::Start, CHUNK_BYTES_DEFAULT).await;
    assert_eq!(fork.expect("it can be read").messages().count(), 200);
    assert!(log.head(&stream("gone")).await.is_err());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a scratch directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a readable file");
        }
    }
}

fn scratch_copy() -> TempDir {
    scratch_copy_of(FIXTURES[0])
}

fn scratch_copy_of(name: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    copy(&fixture(name), dir.path());
    dir
}

/// The active segment: the one in use with the highest number.
fn newest_slot(dir: &Path) -> PathBuf {
    let slots =
        fs::read_dir(dir.join("wal")).expect("a directory").map(|entry| entry.expect("one").path());
    let number = |path: &PathBuf| {
        let bytes = fs::read(path).expect("a readable file");
        u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"))
    };
    slots.max_by_key(number).expect("a segment")
}

#[tokio::test(flavor = "multi_thread")]
async fn format_1_can_be_read() {
    for name in FIXTURES {
        let dir = scratch_copy_of(name);
        let log = open(dir.path()).await;
        check_filled(&log).await;
        log.close().await;
        let log = open(dir.path()).await;
        check_filled(&log).await;
        log.close().await;
    }
}

/// Packs of the first version do not say what their streams are called.
#[tokio::test(flavor = "multi_thread")]
async fn messages_without_a_name_are_found_again_after_a_repair() {
    let dir = scratch_copy();
    fs::remove_dir_all(dir.path().join("checkpoints")).expect("a directory");
    let newest = newest_slot(dir.path());
    for entry in fs::read_dir(dir.path().join("wal")).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path != newest {
            fs::remove_file(path).expect("a file");
        }
    }
    let refused = FileLog::open(&Sys::real(), dir.path(), settings()).await;
    assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
    let done = doctor::repair(&Sys::real(), dir.path()).expect("it can be mended");
    assert!(done.iter().any(|line| line.contains("lost+found/ID")), "{done:?}");
    let log = open(dir.path()).await;
    let page = log.list(log::List { prefix: "lost+found/".into(), ..log::List::default() }).await;
    let mut messages = 0;
    for listed in page.expect("a list").streams {
        let chunk = log.read(&listed.path.into(), ReadFrom::Start, usize::MAX).await;
        messages += chunk.expect("it can be read").messages().count();
    }
    assert_eq!(messages, 201);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_today_can_be_read_back() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let log = open(dir.path()).await;
    fill(&log).await;
    check_filled(&log).await;
    log.close().await;
    let log = open(dir.path()).await;
    check_filled(&log).await;
    log.close().await;
    if let Some(target) = std::env::var_os("HEADWATER_WRITE_FIXTURE") {
        copy(dir.path(), Path::new(&target));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_kept_out() {
    let dir = scratch_copy();
    let log = open(dir.path()).await;
    let second = FileLog::open(&Sys::real(), dir.path(), settings()).await;
    assert!(matches!(second, Err(OpenError::Locked(_))), "{second:?}");
    log.close().await;
    open(dir.path()).await.close().await;
}

#[test]
fn a_sound_log_is_told_to_be_sound() {
    let dir = scratch_copy();
    let report = doctor::examine(&Sys::real(), dir.path()).expect("it can be examined");
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.streams, report.messages), (2, 201));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_in_the_log_is_refused_and_mended_only_when_told_to() {
    let dir = scratch_copy();
    let slot = newest_slot(dir.path());
    let mut bytes = fs::read(&slot).expect("a readable file");
    // Inside the first frame of the newest segment, which others follow.
    bytes[64 + 40] ^= 0xff;
    fs::write(&slot, bytes).expect("a writable file");

    let refused = FileLog::open(&Sys::real(), dir.path(), settings()).await;
    assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
    let before = fs::read(&slot).expect("a readable file");
    let report = doctor::examine(&Sys::real(), dir.path()).expect("it can be examined");
    assert!(!report.is_sound());
    assert_eq!(fs::read(&slot).expect("a readable file"), before, "looking changes nothing");

    let done = doctor::repair(&Sys::real(), dir.path()).expect("it can be mended");
    assert_eq!(done.len(), 2, "what was cut, and which stream ends earlier: {done:?}");
    assert!(done[1].starts_with("chat ends at "), "{done:?}");
    open(dir.path()).await.close().await;
    let report = doctor::examine(&Sys::real(), dir.path()).expect("it can be examined");
    assert!(report.is_sound(), "{report:?}");
}

/// A head that is gone must not make the rest of its segment pass for an empty file.
#[tokio::test(flavor = "multi_thread")]
async fn a_segment_without_its_head_is_refused_and_mended_only_when_told_to() {
    for damage in [0..1, 0..512] {
        let dir = scratch_copy();
        let slot = newest_slot(dir.path());
        let mut bytes = fs::read(&slot).expect("a readable file");
        bytes[damage].fill(0);
        fs::write(&slot, bytes).expect("a writable file");
        let refused = FileLog::open(&Sys::real(), dir.path(), settings()).await;
        assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
        let report = doctor::examine(&Sys::real(), dir.path()).expect("it can be examined");
        assert!(!report.is_sound());
        mend(dir.path()).await;
    }
}

/// A checkpoint may speak of messages in a segment that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_missing_is_noticed_and_mended_only_when_told_to() {
    let dir = scratch_copy();
    fs::remove_file(newest_slot(dir.path())).expect("a file to remove");
    let refused = FileLog::open(&Sys::real(), dir.path(), settings()).await;
    assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
    mend(dir.path()).await;
}

/// Repairs the log; what is left is sound, and takes appends.
async fn mend(dir: &Path) {
    doctor::repair(&Sys::real(), dir).expect("it can be mended");
    let log = open(dir).await;
    let streams = log.list(log::List::default()).await.expect("a list").streams;
    for listed in streams.iter().filter(|listed| !listed.head.closed) {
        let address = Address::from(listed.path.clone());
        let append = Append::messages(Messages::one("\"more\"").expect("a small message"));
        let _ = log.append(&address, append).await.expect("it can be appended to");
    }
    log.close().await;
    let report = doctor::examine(&Sys::real(), dir).expect("it can be examined");
    assert!(report.is_sound(), "{report:?}");
    open(dir).await.close().await;
}

/// Waits for the regrouper, which works in its own time.
async fn first_checkpoint(dir: &Path) {
    let written = || fs::read_dir(dir.join("checkpoints")).expect("a directory").count() > 0;
    for _ in 0..1000 {
        if written() {
            return;
        }
        tokio::task::yield_now().await;
        Sys::real().clock.sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("an erase ends in a checkpoint");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_stream_outlives_the_checkpoint_of_an_empty_log() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let log = open(dir.path()).await;
    log.delete(&stream("nothing"), Delete::Erase).await.expect_err("there is no such stream");
    first_checkpoint(dir.path()).await;
    let _ = log.create(&stream("first"), Create::default()).await.expect("a new name");
    log.close().await;
    let log = open(dir.path()).await;
    log.head(&stream("first")).await.expect("it was acknowledged");
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_refused() {
    let dir = scratch_copy();
    fs::write(dir.path().join("FORMAT"), "headwater log, format 9\nsalt 0\n").expect("writable");
    let refused = FileLog::open(&Sys::real(), dir.path(), settings()).await;
    assert!(matches!(refused, Err(OpenError::Format { .. })), "{refused:?}");
}
