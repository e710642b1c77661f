//! A pack that is damaged or gone refuses its messages, and nothing else.

use std::{collections::BTreeSet, path::Path};

use log::{Log, ReadError, Unavailable, file::doctor};
use wire::ReadFrom;

use crate::place::{DIR, MESSAGES, Place, check_filled, read_all, stream, text};

/// Reads what can be read around the damage; how many messages are missing.
async fn readable(place: &Place, name: &str) -> u64 {
    readable_of(place, name, MESSAGES).await
}

async fn readable_of(place: &Place, name: &str, count: u64) -> u64 {
    place_readable(place, name, count as usize, |number| text(name, number as u64)).await
}

/// What can be read around the damage.
async fn read_around(log: &log::file::FileLog, name: &str) -> BTreeSet<String> {
    let (mut texts, mut end) = read_all(log, name, ReadFrom::Start).await;
    while let Err(ReadError::Unavailable(Unavailable::Damaged(lost))) = end {
        let rest = read_all(log, name, ReadFrom::At(lost.until)).await;
        texts.extend(rest.0);
        end = rest.1;
    }
    texts.into_iter().collect()
}

async fn place_readable(
    place: &Place,
    name: &str,
    count: usize,
    message: impl Fn(usize) -> String,
) -> u64 {
    let log = place.open().await;
    let tail = log.head(&stream(name)).await.expect("it is there").tail;
    let (mut texts, mut end) = read_all(&log, name, ReadFrom::Start).await;
    let mut missing = 0;
    while let Err(error) = end {
        let ReadError::Unavailable(Unavailable::Damaged(lost)) = &error else { panic!("{error}") };
        assert!(lost.until > lost.from && lost.until <= tail, "{lost:?}");
        assert!(error.to_string().contains(name) && error.to_string().contains("doctor"));
        missing += lost.until.position.get() - lost.from.position.get();
        let rest = read_all(&log, name, ReadFrom::At(lost.until)).await;
        texts.extend(rest.0);
        end = rest.1;
    }
    assert_eq!(texts.len() as u64 + missing, tail.position.get());
    assert_eq!(tail.position.get(), count as u64);
    let mut written = (0..count).map(message);
    for found in &texts {
        assert!(written.any(|text| text == *found), "what is read was written, in this order");
    }
    log.close().await;
    missing
}

#[tokio::test(start_paused = true)]
async fn a_lost_pack_refuses_its_messages_and_nothing_else() {
    let whole = Place::filled().await;
    assert!(whole.files("packs").len() > 1);
    for (index, path) in whole.files("packs").into_iter().enumerate() {
        let place = Place::filled().await;
        place.remove(&path);
        let missing = (readable(&place, "a").await, readable(&place, "b").await);
        assert!(missing.0 + missing.1 > 0, "pack {index}");
        let report = doctor::examine(&place.sys, Path::new(DIR)).expect("it can be examined");
        assert!(!report.is_sound());
        assert!(report.findings.iter().any(|finding| finding.path == path), "{report:?}");

        // Writes go on, also through many more rounds of regrouping.
        let log = place.open().await;
        for round in 0..40 {
            let name = format!("new-{round}");
            let _ = log.create(&stream(&name), log::Create::default()).await.expect("a new name");
            let body = wire::Messages::one("y".repeat(1_500)).expect("one message");
            let _ = log.append(&stream(&name), log::Append::messages(body)).await.expect("open");
        }
        place.append_next(&log, "a").await;
        place.rest().await;
        log.close().await;
        let sealed = place.files("wal").len();
        assert!(sealed <= 4, "segments are given back: {sealed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_pack_keeps_its_damage_to_itself() {
    for at in [70, 1_000, 5_000] {
        let place = Place::filled().await;
        place.flip(&place.files("packs")[0], at);
        let missing = readable(&place, "a").await + readable(&place, "b").await;
        assert!(missing > 0 && missing < MESSAGES, "{missing}");
        // What was damaged is carried along, not lost, when its pack is written again.
        let log = place.open().await;
        for name in ["c", "d"] {
            let _ = log.create(&stream(name), log::Create::default()).await.expect("a new name");
            log.delete(&stream(name), log::Delete::Erase).await.expect("it was there");
        }
        log.delete(&stream("fork"), log::Delete::Erase).await.expect("it was there");
        place.rest().await;
        log.close().await;
        let again = readable(&place, "a").await + readable(&place, "b").await;
        assert_eq!(again, missing);
    }
}

/// One sector of one pack refused the start.
#[tokio::test(start_paused = true)]
async fn a_pack_whose_trailer_cannot_be_read_is_in_use() {
    let whole = Place::filled().await;
    for path in whole.files("packs") {
        let place = Place::filled().await;
        // The last records of a pack describe streams.
        place.disk.sim.spoil(&path, place.length(&path) - 20..u64::MAX).expect("a file");
        let log = place.open().await;
        check_filled(&log).await;
        place.append_next(&log, "a").await;
        place.rest().await;
        log.close().await;
        check_filled_and(&place, 1).await;
    }
}

/// All of `a`, with some more messages.
async fn check_filled_and(place: &Place, more: usize) {
    let log = place.open().await;
    let (texts, end) = read_all(&log, "a", ReadFrom::Start).await;
    end.expect("it can be read to its end");
    assert_eq!(texts.len(), MESSAGES as usize + more);
    log.close().await;
}

/// A read of it failed for ever, and did not say where to go on.
#[tokio::test(start_paused = true)]
async fn a_bad_sector_refuses_its_messages_and_nothing_else() {
    let place = Place::filled().await;
    let path = place.files("packs")[0].clone();
    place.spoil(&path, 2_048);
    let missing = (readable(&place, "a").await, readable(&place, "b").await);
    assert!(missing.0 + missing.1 > 0, "nothing is missing");
    assert!(missing.0 + missing.1 < MESSAGES, "{missing:?}");
    let report = doctor::examine(&place.sys, Path::new(DIR)).expect("it can be examined");
    assert!(report.findings.iter().any(|finding| finding.path == path), "{report:?}");

    // It fails no pass, also not one that would write the pack again.
    let log = place.open().await;
    log.delete(&stream("b"), log::Delete::Erase).await.expect("it was there");
    place.append_next(&log, "a").await;
    write_much(&place, &log).await;
    log.close().await;
    let sealed = place.files("wal").len();
    assert!(sealed <= 4, "segments are given back: {sealed}");
    assert_eq!(readable_of(&place, "a", MESSAGES + 1).await, missing.0);

    // What stands there stayed there.
    place.disk.sim.heal();
    check_filled_and(&place, 1).await;
}

async fn write_much(place: &Place, log: &log::file::FileLog) {
    let _ = log.create(&stream("many"), log::Create::default()).await.expect("a new name");
    for _ in 0..200 {
        let body = wire::Messages::one("y".repeat(1_500)).expect("one message");
        let _ = log.append(&stream("many"), log::Append::messages(body)).await.expect("open");
    }
    place.rest().await;
}

/// The pass that should have moved the rest failed for ever, and the log grew.
#[tokio::test(start_paused = true)]
async fn a_bad_sector_of_a_segment_costs_its_messages_and_nothing_else() {
    let place = Place::filled().await;
    let log = place.open().await;
    let _ = log.create(&stream("new"), log::Create::default()).await.expect("a new name");
    let message = |number: usize| format!("{number:04}{}", "n".repeat(100));
    for number in 0..40 {
        let body = wire::Messages::one(message(number)).expect("one message");
        let _ = log.append(&stream("new"), log::Append::messages(body)).await.expect("open");
    }
    // Those before it may stand in a pack by now.
    let last = message(39);
    let mut spoiled = 0;
    for path in place.files("wal") {
        let mut bytes = vec![0; place.length(&path) as usize];
        place.read(&path, 0, &mut bytes);
        let found = bytes.windows(104).position(|window| window == last.as_bytes());
        if let Some(at) = found {
            place.spoil(&path, at as u64);
            spoiled += 1;
        }
    }
    assert_eq!(spoiled, 1, "it stands in one segment");
    write_much(&place, &log).await;
    let sealed = place.files("wal").len();
    assert!(sealed <= 4, "segments are given back: {sealed}");
    log.close().await;
    let missing = place_readable(&place, "new", 40, message).await;
    assert_eq!(missing, 1);
    let log = place.open().await;
    check_filled(&log).await;
    log.close().await;
}

/// Both copies of the checkpoint are gone, and a pack has a bad sector.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_made_again_from_packs_with_bad_sectors() {
    let whole = Place::filled().await;
    for (index, path) in whole.files("packs").into_iter().enumerate() {
        for at in [0, 2_048, whole.length(&path).saturating_sub(600)] {
            let place = Place::filled().await;
            place.spoil(&path, at);
            let missing = (readable(&place, "a").await, readable(&place, "b").await);
            for path in place.files("checkpoints") {
                place.remove(&path);
            }
            doctor::repair(&place.sys, Path::new(DIR)).expect("it can be mended");
            let again = (readable(&place, "a").await, readable(&place, "b").await);
            // A segment may still hold what a pack has lost.
            let is_less = again.0 <= missing.0 && again.1 <= missing.1;
            assert!(is_less, "pack {index} at {at}: {again:?} of {missing:?}");
            // The file itself is kept: the disk may read it some day.
            let log = place.open().await;
            write_much(&place, &log).await;
            log.close().await;
            place.disk.sim.heal();
            let log = place.open().await;
            let mut found = read_around(&log, "a").await;
            found.extend(read_around(&log, "b").await);
            log.close().await;
            for path in place.files("lost+found") {
                doctor::salvage(&place.sys, Path::new(DIR), &path, |one| {
                    found.insert(String::from_utf8_lossy(&one.message).into_owned());
                    Ok(())
                })
                .expect("it can be read");
            }
            let written = (0..MESSAGES).flat_map(|number| [text("a", number), text("b", number)]);
            let lost: Vec<String> = written.filter(|text| !found.contains(text)).collect();
            assert!(lost.is_empty(), "pack {index} at {at}: {lost:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sound_log_reads_whole() {
    let place = Place::filled().await;
    let log = place.open().await;
    check_filled(&log).await;
    log.close().await;
}
