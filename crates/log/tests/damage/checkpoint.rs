//! A checkpoint or a format file that is damaged or gone.

use std::path::{Path, PathBuf};

use log::file::{
    OpenError,
    doctor::{self, Severity},
};
use sys::Disk as _;

use crate::place::{DIR, Place, check_filled};

/// All that packs hold was lost by a start after a repair of this.
#[tokio::test(start_paused = true)]
async fn a_start_without_any_checkpoint_removes_no_pack() {
    let place = Place::filled().await;
    let packs = place.files("packs");
    assert!(!packs.is_empty());
    for path in place.files("checkpoints") {
        place.remove(&path);
    }
    let refused = place.try_open().await;
    let Err(OpenError::Damaged { path, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(path, Path::new(DIR).join("checkpoints"), "the file that is blamed");
    assert_eq!(place.files("packs"), packs);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_made_again_from_packs_and_segments() {
    let place = Place::filled().await;
    for path in place.files("checkpoints") {
        place.remove(&path);
    }
    let report = doctor::examine(&place.sys, Path::new(DIR)).expect("it can be examined");
    assert!(!report.is_sound());
    assert_eq!(report.findings[0].path, Path::new(DIR).join("checkpoints"));
    let done = doctor::repair(&place.sys, Path::new(DIR)).expect("it can be mended");
    assert!(!done.is_empty());
    let report = doctor::examine(&place.sys, Path::new(DIR)).expect("it can be examined");
    assert!(report.is_sound(), "{report:?}");
    let log = place.open().await;
    check_filled(&log).await;
    place.append_next(&log, "a").await;
    log.close().await;
    place.open().await.close().await;
}

#[tokio::test(start_paused = true)]
async fn damage_to_one_copy_changes_nothing() {
    for (folder, kind) in [("checkpoints", ""), ("", "FORMAT")] {
        for index in 0..2 {
            for damage in ["flipped", "removed", "unreadable"] {
                let place = Place::filled().await;
                let files = place.files(folder);
                let mut copies = files.iter().filter(|path| path.to_string_lossy().contains(kind));
                let path = copies.nth(index).expect("two copies");
                match damage {
                    "removed" => place.remove(path),
                    "flipped" => place.flip(path, 30),
                    _ => place.spoil(path, 0),
                }
                let report = doctor::examine(&place.sys, Path::new(DIR)).expect("examined");
                assert!(report.is_sound(), "{report:?}");
                assert_eq!(&report.findings[0].path, path, "it is told which copy is broken");
                let log = place.open().await;
                check_filled(&log).await;
                log.close().await;
                let report = doctor::examine(&place.sys, Path::new(DIR)).expect("examined");
                assert!(report.findings.is_empty(), "the start makes it whole: {report:?}");
            }
        }
    }
}

/// A disk that fails to read for a while made a repair write the checkpoint anew, from less.
#[tokio::test(start_paused = true)]
async fn nothing_is_made_again_while_the_disk_fails_to_read_it() {
    for (folder, kind) in [("checkpoints", ""), ("", "FORMAT")] {
        for other in ["flipped", "removed", "unreadable"] {
            let place = Place::filled().await;
            let files = place.files(folder);
            let copies: Vec<_> =
                files.iter().filter(|path| path.to_string_lossy().contains(kind)).collect();
            place.spoil(copies[0], 0);
            match other {
                "removed" => place.disk.rename(copies[1], Path::new("/aside")).expect("a file"),
                "flipped" => place.flip(copies[1], 30),
                _ => place.spoil(copies[1], 0),
            }
            let refused = place.try_open().await;
            assert!(matches!(refused, Err(OpenError::Io { .. })), "{other}: {refused:?}");
            let before = place.disk.sim.op_count();
            let refused = doctor::repair(&place.sys, Path::new(DIR));
            assert!(matches!(refused, Err(OpenError::Io { .. })), "{other}: {refused:?}");
            assert_eq!(place.disk.sim.op_count(), before, "{other}: nothing is written");
            let report = doctor::examine(&place.sys, Path::new(DIR)).expect("examined");
            let told = &report.findings[0];
            assert_eq!((told.severity, &told.path), (Severity::Damage, copies[0]), "{report:?}");
            assert!(told.remedy.contains("sound disk"), "{told:?}");
            place.disk.sim.heal();
            let log = place.open().await;
            check_filled(&log).await;
            log.close().await;
        }
    }
}

/// It was said that the directory holds no log, beside full packs.
#[tokio::test(start_paused = true)]
async fn a_directory_without_its_format_is_told_to_be_damaged() {
    for removed in [true, false] {
        let place = Place::filled().await;
        let copies = [Path::new(DIR).join("FORMAT"), Path::new(DIR).join("FORMAT.copy")];
        for path in &copies {
            match removed {
                true => place.remove(path),
                false => place.flip(path, 30),
            }
        }
        let report = doctor::examine(&place.sys, Path::new(DIR)).expect("it can be examined");
        let told = &report.findings[0];
        assert_eq!((told.severity, &told.path), (Severity::Damage, &copies[0]), "{report:?}");
        assert!(told.remedy.contains("backup of this directory"), "{told:?}");
        let before = place.disk.sim.op_count();
        let refused = doctor::repair(&place.sys, Path::new(DIR));
        assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
        let pack = &place.files("packs")[0];
        let refused = doctor::salvage(&place.sys, Path::new(DIR), pack, |_| Ok(()));
        assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
        assert_eq!(place.disk.sim.op_count(), before, "nothing is written");
    }
    let place = Place::empty();
    let nothing = doctor::examine(&place.sys, Path::new(DIR));
    assert!(matches!(nothing, Err(OpenError::NoLog(_))), "{nothing:?}");
}

/// Half of a salt passed for another salt, and nothing in the directory for sound.
#[tokio::test(start_paused = true)]
async fn a_format_that_was_cut_is_not_read_as_another() {
    for length in 0..42 {
        let place = Place::filled().await;
        for name in ["FORMAT", "FORMAT.copy"] {
            let file = place.disk.open(&Path::new(DIR).join(name)).expect("a file");
            file.set_len(length).expect("a sound disk");
        }
        let whole = place.length(&Path::new(DIR).join("FORMAT"));
        match place.try_open().await {
            Ok(log) => check_filled(&log).await,
            Err(error) => {
                let is_format = matches!(&error, OpenError::Damaged { path, .. }
                    if path.ends_with("FORMAT"));
                assert!(is_format, "{length} of {whole} bytes: {error}");
            }
        }
    }
}

/// Nothing was printed, as if it had held nothing that matters.
#[tokio::test(start_paused = true)]
async fn salvaging_a_checkpoint_says_that_it_holds_no_messages() {
    let place = Place::filled().await;
    for path in place.files("checkpoints") {
        place.flip(&path, place.length(&path) - 40);
    }
    doctor::repair(&place.sys, Path::new(DIR)).expect("it can be mended");
    let aside = place.files("lost+found");
    let is_checkpoint = |path: &&PathBuf| path.to_string_lossy().contains("checkpoint");
    let aside = aside.iter().find(is_checkpoint).expect("it was kept");
    let told = doctor::salvage(&place.sys, Path::new(DIR), aside, |_| Ok(()));
    let told = told.expect_err("it has none").to_string();
    assert!(told.contains("checkpoint") && told.contains("holds no messages"), "{told}");
    let report = doctor::examine(&place.sys, Path::new(DIR)).expect("it can be examined");
    let note = report.findings.iter().find(|finding| finding.path == *aside).expect("a note");
    assert!(note.remedy.contains("holds no messages"), "{note:?}");
}
