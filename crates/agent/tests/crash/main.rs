//! A whole run in a real process that is killed at each of its durable writes: a model that asks
//! for two tools, reads what they say, and answers.
//!
//! A test starts itself as a child; the parent kills it at the n-th write, for every n, before it
//! and in the middle of it, starts it again (and kills that life early, too), and looks at what is
//! left. The tools leave their traces in files, as services outside would.

#![allow(clippy::disallowed_methods, reason = "processes and files are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod check;
mod life;

use std::{
    env, fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use sys::disk::{KillDisk, KillMode, KillPoint, RealDisk};

const DIR: &str = "AGENT_CRASH_DIR";
const KILL_AT: &str = "AGENT_CRASH_AT";
/// The signal that nobody hears.
const SIGKILL: i32 = 9;
/// Children at a time.
const HANDS: u64 = 4;
/// Writes at the begin of a second life at which it is killed, one after the other.
const EARLY_WRITES: u64 = 6;

#[test]
fn killed_at_every_write_a_run_comes_to_the_same_end() {
    if env::var_os(DIR).is_some() {
        return;
    }
    let scratch = scratch();
    let count = scratch.path().join("count");
    assert_eq!(live_once(&count, None), End::Whole, "a life without a kill comes to its end");
    let expected = check::whole(&count, None, "never killed");
    let writes: u64 = fs::read_to_string(count.join("writes")).unwrap().parse().unwrap();
    assert!(writes > 20, "{writes} writes are too few to be worth killing at");
    let killed = AtomicU64::new(0);
    thread::scope(|scope| {
        for hand in 0..HANDS {
            let (root, expected, killed) = (scratch.path(), &expected, &killed);
            scope.spawn(move || {
                for at in (1..=writes).filter(|at| at % HANDS == hand) {
                    for mode in ["", "torn"] {
                        let first = kill(&root.join(format!("{at}{mode}")), at, mode, expected);
                        killed.fetch_add(u64::from(first == End::Killed), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    // How many writes a life takes varies a little, so its very last ones may not be reached.
    let killed = killed.into_inner();
    assert!(killed >= 2 * writes * 9 / 10, "only {killed} of {} lives were killed", 2 * writes);
}

/// Kills a first life at this write and a second one early, and lets the third come to its end.
/// Tells what became of the first.
fn kill(dir: &Path, at: u64, mode: &str, expected: &[String]) -> End {
    let first = live_once(dir, Some(&format!("{at}{mode}")));
    let early = at % EARLY_WRITES + 1;
    let second = live_once(dir, Some(&early.to_string()));
    let what = format!("at write {at}{mode} ({first:?}), then at write {early} ({second:?})");
    let last = live_once(dir, None);
    assert_eq!(last, End::Whole, "{what}: the last life did not come to its end");
    check::whole(dir, Some(expected), &what);
    fs::remove_dir_all(dir).unwrap();
    first
}

/// The other process.
#[test]
fn child() {
    let Some(dir) = env::var_os(DIR).map(PathBuf::from) else { return };
    let disk = disk();
    let sys = sys::Sys { disk: disk.clone(), ..sys::Sys::real() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(life::live(&dir, &sys));
    fs::write(dir.join("writes"), disk.count().to_string()).unwrap();
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It did all it was to do, in fewer writes than the one it was to be killed at.
    Whole,
    /// By SIGKILL, in the middle of what it did.
    Killed,
}

/// Lives once. Whatever else than a whole life or a kill becomes of it is a failure.
fn live_once(dir: &Path, kill_at: Option<&str>) -> End {
    fs::create_dir_all(dir).unwrap();
    let _ = fs::remove_file(dir.join("writes"));
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--quiet"]).env(DIR, dir);
    if let Some(at) = kill_at {
        command.env(KILL_AT, at);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let status = output.status;
    let (said, cried) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let writes = fs::read_to_string(dir.join("writes")).ok();
    match status.signal() {
        Some(SIGKILL) if kill_at.is_some() => End::Killed,
        None if status.success() && writes.is_some() => End::Whole,
        _ => panic!("to be killed at {kill_at:?}, a life ended with {status}:\n{said}\n{cried}"),
    }
}

/// The disk of a child: it counts, or it kills.
fn disk() -> Arc<KillDisk> {
    let Ok(at) = env::var(KILL_AT) else { return Arc::new(KillDisk::counter(Arc::new(RealDisk))) };
    let (at, mode) = match at.strip_suffix("torn") {
        Some(at) => (at.to_owned(), KillMode::Torn),
        None => (at, KillMode::Before),
    };
    let point = KillPoint { at: at.parse().unwrap(), mode };
    Arc::new(KillDisk::new(Arc::new(RealDisk), point))
}

/// A directory in memory where there is one: a killed process cannot tell the difference.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}
