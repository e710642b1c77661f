//! A checkpoint or a format file that is damaged or gone.

use std::path::Path;

use log::file::{OpenError, doctor};

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
            for removed in [false, true] {
                let place = Place::filled().await;
                let files = place.files(folder);
                let mut copies = files.iter().filter(|path| path.to_string_lossy().contains(kind));
                let path = copies.nth(index).expect("two copies");
                match removed {
                    true => place.remove(path),
                    false => place.flip(path, 30),
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
