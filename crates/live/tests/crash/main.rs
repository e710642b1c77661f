//! Real processes that are killed at each of their durable writes.
//!
//! A test starts itself as a child; the parent kills it at the n-th write, for every n, before it
//! and in the middle of it, starts it again, and looks at what is left.

#![allow(clippy::disallowed_methods, reason = "processes and files are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod effects;
mod outbox;

use std::{
    env, fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use sys::{
    Sys,
    disk::{End, KillDisk, KillPoint, RealDisk, sweep},
};

const DIR: &str = "LIVE_CRASH_DIR";
const KILL_AT: &str = "LIVE_CRASH_AT";
/// The signal that cannot be caught.
const SIGKILL: i32 = 9;
/// Children at a time.
const HANDS: usize = 4;

/// Kills a child at each of its writes, before and in the middle of it, and starts it again.
fn kill_at_every_write(child: &str, check: impl Fn(&Path, &str) + Sync) {
    if env::var_os(DIR).is_some() {
        return;
    }
    let scratch = scratch();
    let count = scratch.path().join("count");
    assert_eq!(live_once(child, &count, None), End::Whole);
    check(&count, "never killed");
    let writes: u64 = fs::read_to_string(count.join("writes")).unwrap().parse().unwrap();
    assert!(writes > 20, "{writes} writes are too few to be worth killing at");
    let killed = sweep(HANDS, |point| {
        let dir = scratch.path().join(point.to_string());
        let first = live_once(child, &dir, Some(point));
        assert_eq!(live_once(child, &dir, None), End::Whole, "after a kill at write {point}");
        check(&dir, &format!("at write {point}: {first:?}"));
        fs::remove_dir_all(&dir).unwrap();
        first
    });
    // How many writes a life takes varies a little.
    assert!(killed >= writes * 9 / 10, "killed at {killed} writes, of about {writes}");
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

/// Lives once. Whatever else than a whole life or a kill becomes of it is a failure.
fn live_once(child: &str, dir: &Path, kill_at: Option<KillPoint>) -> End {
    fs::create_dir_all(dir).unwrap();
    let _ = fs::remove_file(dir.join("writes"));
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", child, "--quiet"]).env(DIR, dir);
    if let Some(point) = kill_at {
        command.env(KILL_AT, point.to_string());
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let status = output.status;
    match status.signal() {
        Some(SIGKILL) if kill_at.is_some() => End::Killed,
        None if status.success() && dir.join("writes").exists() => End::Whole,
        _ => {
            let cried = String::from_utf8_lossy(&output.stderr);
            panic!("to be killed at {kill_at:?}, a life ended with {status}:\n{cried}");
        }
    }
}

/// The disk of a child: it counts, or it kills.
fn disk() -> Arc<KillDisk> {
    match env::var(KILL_AT) {
        Ok(point) => Arc::new(KillDisk::new(Arc::new(RealDisk), point.parse().unwrap())),
        Err(_) => Arc::new(KillDisk::counter(Arc::new(RealDisk))),
    }
}
