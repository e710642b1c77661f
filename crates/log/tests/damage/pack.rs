//! A pack that is damaged or gone refuses its messages, and nothing else.

use std::path::Path;

use log::{Log, ReadError, Unavailable, file::doctor};
use wire::ReadFrom;

use crate::place::{DIR, MESSAGES, Place, check_filled, read_all, stream, text};

/// Reads what can be read around the damage; how many messages are missing.
async fn readable(place: &Place, name: &str) -> u64 {
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
    let mut written = (0..MESSAGES).map(|number| text(name, number));
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

#[tokio::test(start_paused = true)]
async fn a_sound_log_reads_whole() {
    let place = Place::filled().await;
    let log = place.open().await;
    check_filled(&log).await;
    log.close().await;
}
