//! A repair may be killed at any write: the next one has all that the first had.

use std::{collections::BTreeSet, path::Path};

use log::{Append, Create, List, Log, file::doctor};
use sys::disk::SimFaults;
use wire::{Messages, ReadFrom};

use crate::place::{DIR, Place, read_all, stream};

/// Ways to break a log that a repair can mend.
#[derive(Clone, Copy, Debug)]
enum Broken {
    /// Both copies of the checkpoint, near their end.
    Checkpoint,
    /// The same, and the newest segment has a hole.
    CheckpointAndSegment,
    /// The same, and the newest segment has lost its head.
    CheckpointAndHead,
    /// The newest segment has a hole.
    Segment,
    /// The head of the newest segment.
    Head,
}

const ALL: [Broken; 5] = [
    Broken::Checkpoint,
    Broken::CheckpointAndSegment,
    Broken::CheckpointAndHead,
    Broken::Segment,
    Broken::Head,
];

/// A log with streams that only its checkpoint knows, since every segment was written again.
async fn with_empty_streams() -> Place {
    let place = Place::filled().await;
    let log = place.open().await;
    for number in 0..5 {
        let name = format!("empty-{number}");
        let _ = log.create(&stream(&name), Create::default()).await.expect("a new name");
    }
    let _ = log.create(&stream("many"), Create::default()).await.expect("a new name");
    for number in 0..600 {
        append(&log, "many", number).await;
    }
    place.rest().await;
    // These stay in the write-ahead log.
    for number in 600..620 {
        append(&log, "many", number).await;
    }
    log.close().await;
    place.restarted()
}

async fn append(log: &log::file::FileLog, name: &str, number: u32) {
    let body = Messages::one(format!("{number} {}", "z".repeat(200))).expect("one message");
    let _ = log.append(&stream(name), Append::messages(body)).await.expect("an open stream");
}

impl Broken {
    fn inflict(self, place: &Place) {
        let (checkpoint, at) = match self {
            Self::Checkpoint => (true, None),
            Self::CheckpointAndSegment => (true, Some(1_000)),
            Self::CheckpointAndHead => (true, Some(0)),
            Self::Segment => (false, Some(1_000)),
            Self::Head => (false, Some(0)),
        };
        if checkpoint {
            for path in place.files("checkpoints") {
                place.flip(&path, place.length(&path) - 40);
            }
        }
        if let Some(at) = at {
            place.flip(&newest_segment(place), at);
        }
    }
}

/// The file whose segment has the highest number.
fn newest_segment(place: &Place) -> std::path::PathBuf {
    let number = |path: &std::path::PathBuf| {
        let mut bytes = [0; 12];
        place.read(path, 0, &mut bytes);
        u32::from_le_bytes(bytes[8..].try_into().expect("four bytes"))
    };
    place.files("wal").into_iter().max_by_key(number).expect("a segment")
}

/// The names of all streams, and every message that can be read in the log or in lost+found.
async fn known(place: &Place) -> BTreeSet<String> {
    let log = place.open().await;
    let mut known = BTreeSet::new();
    for listed in log.list(List::default()).await.expect("a page").streams {
        let name = listed.path.to_string();
        known.extend(read_all(&log, &name, ReadFrom::Start).await.0);
        known.insert(name);
    }
    log.close().await;
    let aside = place.files("lost+found").into_iter();
    // Checkpoints hold no messages.
    for path in aside.filter(|path| !path.to_string_lossy().contains(".checkpoint")) {
        doctor::salvage(&place.sys, Path::new(DIR), &path, |found| {
            known.insert(String::from_utf8_lossy(&found.message).into_owned());
            Ok(())
        })
        .expect("it can be read");
    }
    known
}

fn repair(place: &Place) -> bool {
    doctor::repair(&place.sys, Path::new(DIR)).is_ok()
}

/// Starts, if that can be done, and writes until files are used again.
async fn start_and_write(place: &Place) {
    let Ok(log) = place.try_open().await else { return };
    let _ = log.create(&stream("later"), Create::default()).await.expect("a new name");
    for number in 0..300 {
        append(&log, "later", number).await;
    }
    place.rest().await;
    log.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_repair_that_is_killed_at_any_write_loses_nothing() {
    for broken in ALL {
        let base = with_empty_streams().await;
        broken.inflict(&base);
        let whole = base.restarted();
        assert!(whole.try_open().await.is_err(), "{broken:?} is no damage");
        assert!(repair(&whole), "{broken:?} cannot be mended");
        let expected = known(&whole).await;
        assert!(expected.contains("empty-0") && expected.len() > 800, "{}", expected.len());
        let mut kills = 0;
        for starts_between in [false, true] {
            for at in 1.. {
                let place = base.restarted();
                let power_cut_at_op = Some(place.disk.sim.op_count() + at);
                place.disk.sim.set_faults(SimFaults { power_cut_at_op, ..SimFaults::default() });
                let is_mended = repair(&place);
                assert_eq!(is_mended, !place.disk.sim.is_off(), "{broken:?}: write {at}");
                if is_mended {
                    break;
                }
                kills += 1;
                let place = place.restarted();
                if starts_between {
                    start_and_write(&place).await;
                }
                assert!(repair(&place), "{broken:?}, killed at write {at}");
                let found = known(&place).await;
                let lost: Vec<_> = expected.difference(&found).take(3).collect();
                assert!(lost.is_empty(), "{broken:?}, {starts_between}, write {at}: {lost:?}");
                start_and_write(&place).await;
                let found = known(&place).await;
                let lost: Vec<_> = expected.difference(&found).take(3).collect();
                assert!(lost.is_empty(), "{broken:?}, later, write {at}: {lost:?}");
            }
        }
        assert!(kills > 6, "{broken:?}: {kills} kills");
    }
}
