//! Real processes that are killed at each of their durable writes.
//!
//! A test starts itself as a child; the parent kills it at the n-th write, for every n, starts it
//! again, and looks at what is left.

#![allow(clippy::disallowed_methods, reason = "processes and files are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod effects;
mod outbox;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use sys::{
    Sys,
    disk::{KillDisk, KillMode, KillPoint, RealDisk},
};

const DIR: &str = "LIVE_CRASH_DIR";
const KILL_AT: &str = "LIVE_CRASH_AT";

/// Kills a child at each of its writes, before and in the middle of it, and starts it again.
fn kill_at_every_write(child: &str, check: impl Fn(&Path, &str)) {
    if env::var_os(DIR).is_some() {
        return;
    }
    let scratch = scratch();
    let count = scratch.path().join("count");
    assert!(live_once(child, &count, None));
    check(&count, "never killed");
    let writes: u64 = fs::read_to_string(count.join("writes")).unwrap().parse().unwrap();
    assert!(writes > 20, "{writes} writes are too few to be worth killing at");
    for at in 1..=writes {
        for mode in ["", "torn"] {
            let dir = scratch.path().join(format!("{at}{mode}"));
            let first = live_once(child, &dir, Some(&format!("{at}{mode}")));
            let second = live_once(child, &dir, None);
            assert!(second, "write {at}{mode}: the second life did not come to its end");
            check(&dir, &format!("killed at write {at}{mode} (killed: {})", !first));
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}

/// The life of a child, if this is one.
fn as_child<F: Future<Output = ()>>(live: impl FnOnce(PathBuf, Sys) -> F) {
    let Some(dir) = env::var_os(DIR).map(PathBuf::from) else { return };
    let disk = disk();
    let sys = Sys { disk: disk.clone(), ..Sys::real() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(live(dir.clone(), sys));
    fs::write(dir.join("writes"), disk.count().to_string()).unwrap();
}

fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// Lives once; true if it came to its end.
fn live_once(child: &str, dir: &Path, kill_at: Option<&str>) -> bool {
    fs::create_dir_all(dir).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", child, "--quiet"]).env(DIR, dir);
    if let Some(at) = kill_at {
        command.env(KILL_AT, at);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

/// The disk of a child: it counts, or it kills.
fn disk() -> Arc<KillDisk> {
    let Ok(at) = env::var(KILL_AT) else { return Arc::new(KillDisk::counter(Arc::new(RealDisk))) };
    let mode = if at.ends_with("torn") { KillMode::Torn } else { KillMode::Before };
    let at = at.trim_end_matches("torn").parse().unwrap();
    Arc::new(KillDisk::new(Arc::new(RealDisk), KillPoint { at, mode }))
}
