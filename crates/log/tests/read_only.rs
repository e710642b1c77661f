//! A directory that cannot be written to is examined all the same.
//!
//! This stands alone: a process that is being started holds for a moment what its parent has
//! locked, and other tests would find their logs in use.

#![allow(clippy::disallowed_methods, reason = "files and processes are real here")]

use std::{
    env, fs,
    path::Path,
    process::{Command, Output},
};

use log::file::doctor;
use sys::Sys;

/// Names the directory to the process that sees it mounted for reading only.
const READ_ONLY_VARIABLE: &str = "HEADWATER_READ_ONLY_DIR";

/// Runs this test again in a mount namespace of its own, since permissions do not hold `root` back.
#[test]
fn a_directory_on_a_read_only_file_system_can_be_examined() {
    if let Some(dir) = env::var_os(READ_ONLY_VARIABLE) {
        return examine_read_only(Path::new(&dir));
    }
    for has_lock in [false, true] {
        let dir = tempfile::tempdir().expect("a scratch directory");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/format-1-copies"), dir.path());
        if has_lock {
            fs::write(dir.path().join("LOCK"), "1\n").expect("a writable directory");
        }
        let again = run_mounted(dir.path());
        let told = String::from_utf8_lossy(&again.stdout);
        let cried = String::from_utf8_lossy(&again.stderr);
        assert!(
            again.status.success() && told.contains("1 passed"),
            "this needs `unshare --user --map-root-user --mount`, and bind mounts:\n{told}\n{cried}"
        );
    }
}

fn run_mounted(dir: &Path) -> Output {
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && \
                  exec \"$2\" --exact a_directory_on_a_read_only_file_system_can_be_examined";
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .args([dir.as_os_str(), env::current_exe().expect("a test").as_os_str()])
        .env(READ_ONLY_VARIABLE, dir)
        .output()
        .expect("this test needs `unshare`, of the package util-linux")
}

fn examine_read_only(dir: &Path) {
    fs::write(dir.join("any"), "").expect_err("the directory is read-only");
    let report = doctor::examine(&Sys::real(), dir).expect("it can be examined");
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.streams, report.messages), (2, 201));
    let mut messages = 0;
    for entry in fs::read_dir(dir.join("packs")).expect("a directory") {
        let path = entry.expect("an entry").path();
        let count = |_| {
            messages += 1;
            Ok(())
        };
        doctor::salvage(&Sys::real(), dir, &path, count).expect("it can be read");
    }
    assert!(messages > 0, "packs hold messages");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("a file can be copied");
        }
    }
}
