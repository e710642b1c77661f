//! A full disk refuses what would grow, lets go what frees room, and loses nothing.

use std::io;

use log::{Append, AppendError, Create, Delete, Log, Unavailable, file::FileLog};
use sys::disk::SimFaults;
use wire::{Messages, ReadFrom};

use crate::place::{Place, read_all, stream};

/// Far more than the log needs when it is empty.
const CAPACITY: u64 = 40 * 16 * 1024;

fn message(number: usize) -> String {
    format!("{number:06}{}", "z".repeat(1_000))
}

async fn append(log: &FileLog, name: &str, number: usize) -> Result<(), AppendError> {
    let body = Messages::one(message(number)).expect("one message");
    log.append(&stream(name), Append::messages(body)).await.map(drop)
}

/// Appends until there is no room; how many were acknowledged.
async fn fill(log: &FileLog, name: &str, from: usize) -> usize {
    for number in from..10_000 {
        match append(log, name, number).await {
            Ok(()) => {}
            Err(AppendError::Unavailable(Unavailable::DiskFull(_))) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk never fills up");
}

/// The same where a quota is full and not the disk.
fn quota() -> Place {
    let place = Place::empty();
    place.disk.manner().by_quota = true;
    place
}

async fn full_log(place: &Place) -> (FileLog, [usize; 2]) {
    place.disk.sim.set_faults(SimFaults { capacity_bytes: Some(CAPACITY), ..SimFaults::default() });
    let log = place.open().await;
    for name in ["keep", "free"] {
        let _ = log.create(&stream(name), Create::default()).await.expect("a new name");
    }
    let mut counts = [0; 2];
    for number in 0..200 {
        for (name, count) in ["keep", "free"].into_iter().zip(&mut counts) {
            if append(&log, name, number).await.is_ok() {
                *count = number + 1;
            }
        }
    }
    place.rest().await;
    // The regrouper may have made room meanwhile, so it is filled until it stays full.
    for _ in 0..10 {
        counts[1] = fill(&log, "free", counts[1]).await;
        place.rest().await;
    }
    counts[1] = fill(&log, "free", counts[1]).await;
    (log, counts)
}

async fn check(log: &FileLog, name: &str, count: usize) {
    let (texts, end) = read_all(log, name, ReadFrom::Start).await;
    end.expect("it can be read to its end");
    let expected: Vec<String> = (0..count).map(message).collect();
    assert!(texts == expected, "{name} has {} of {count} messages", texts.len());
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_serves_readers_and_frees_room_by_itself() {
    for (place, delete) in [
        (Place::empty(), Delete::Stream),
        (Place::empty(), Delete::Erase),
        (quota(), Delete::Stream),
        (quota(), Delete::Erase),
    ] {
        let (log, counts) = full_log(&place).await;
        check(&log, "keep", counts[0]).await;
        check(&log, "free", counts[1]).await;
        log.delete(&stream("free"), delete).await.expect("a full disk lets go");
        place.rest().await;
        append(&log, "keep", counts[0]).await.expect("there is room again");
        check(&log, "keep", counts[0] + 1).await;
        log.close().await;
        let log = place.open().await;
        check(&log, "keep", counts[0] + 1).await;
        assert!(log.head(&stream("free")).await.is_err());
        log.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_takes_trims() {
    let place = Place::empty();
    let (log, counts) = full_log(&place).await;
    let tail = log.head(&stream("free")).await.expect("it is there").tail;
    log.trim(&stream("free"), tail).await.expect("a full disk lets go");
    place.rest().await;
    append(&log, "keep", counts[0]).await.expect("there is room again");
    log.close().await;
    let log = place.open().await;
    check(&log, "keep", counts[0] + 1).await;
    assert_eq!(log.head(&stream("free")).await.expect("it is there").earliest, tail);
    log.close().await;
}

#[tokio::test(start_paused = true)]
async fn writes_go_on_when_there_is_room_again() {
    let place = Place::empty();
    let (log, counts) = full_log(&place).await;
    place.disk.sim.set_faults(SimFaults::default());
    place.rest().await;
    append(&log, "keep", counts[0]).await.expect("there is room again");
    log.close().await;
    let log = place.open().await;
    check(&log, "keep", counts[0] + 1).await;
    check(&log, "free", counts[1]).await;
    log.close().await;
}

/// Freeing room does not help against too many open files, or a directory that may not be written.
#[tokio::test(start_paused = true)]
async fn a_disk_that_gives_no_file_is_not_called_full() {
    for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::Other] {
        let place = Place::empty();
        let log = place.open().await;
        let _ = log.create(&stream("keep"), Create::default()).await.expect("a new name");
        place.rest().await;
        place.disk.manner().no_file = Some(kind);
        let mut count = 0;
        let refused = loop {
            match append(&log, "keep", count).await {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
            assert!(count < 1_000, "another file was never needed");
        };
        assert!(
            matches!(&refused, AppendError::Unavailable(Unavailable::NoFile(why))
                if *why == io::Error::from(kind).to_string()),
            "{refused:?}"
        );
        assert!(refused.is_retryable());
        check(&log, "keep", count).await;
        log.delete(&stream("none"), Delete::Stream).await.expect_err("there is none");
        place.disk.manner().no_file = None;
        append(&log, "keep", count).await.expect("it goes on by itself");
        log.close().await;
        let log = place.open().await;
        check(&log, "keep", count + 1).await;
        log.close().await;
    }
}

/// However many streams go, one by one, on a full disk.
#[tokio::test(start_paused = true)]
async fn a_full_disk_lets_many_streams_go() {
    let place = Place::empty();
    place.disk.sim.set_faults(SimFaults { capacity_bytes: Some(CAPACITY), ..SimFaults::default() });
    let log = place.open().await;
    let mut made = 0;
    // Several rounds, since the regrouper makes room in between.
    for _ in 0..10 {
        while made < 5_000 {
            let name = format!("s{made}");
            let Ok(_) = log.create(&stream(&name), Create::default()).await else { break };
            made += 1;
            if append(&log, &name, 0).await.is_err() {
                break;
            }
        }
        place.rest().await;
    }
    assert!(made > 200 && made < 5_000, "{made}");
    for number in 0..made {
        log.delete(&stream(&format!("s{number}")), Delete::Stream).await.expect("it lets go");
    }
    place.rest().await;
    let _ = log.create(&stream("new"), Create::default()).await.expect("there is room again");
    log.close().await;
}
