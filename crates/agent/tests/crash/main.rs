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
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use sys::disk::{KillDisk, KillMode, KillPoint, RealDisk};

const DIR: &str = "AGENT_CRASH_DIR";
const KILL_AT: &str = "AGENT_CRASH_AT";
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
    assert!(live_once(&count, None), "a life without a kill comes to its end");
    let expected = check::whole(&count, None, "never killed");
    let writes: u64 = fs::read_to_string(count.join("writes")).unwrap().parse().unwrap();
    assert!(writes > 20, "{writes} writes are too few to be worth killing at");
    thread::scope(|scope| {
        for hand in 0..HANDS {
            let (root, expected) = (scratch.path(), &expected);
            scope.spawn(move || {
                for at in (1..=writes).filter(|at| at % HANDS == hand) {
                    for mode in ["", "torn"] {
                        kill(&root.join(format!("{at}{mode}")), at, mode, expected);
                    }
                }
            });
        }
    });
}

/// Kills a first life at this write and a second one early, and lets the third come to its end.
fn kill(dir: &Path, at: u64, mode: &str, expected: &[String]) {
    let first = live_once(dir, Some(&format!("{at}{mode}")));
    let early = at % EARLY_WRITES + 1;
    let second = live_once(dir, Some(&early.to_string()));
    let what = format!(
        "killed at write {at}{mode} (killed: {}), then at write {early} (killed: {})",
        !first, !second
    );
    assert!(live_once(dir, None), "{what}: the last life did not come to its end");
    check::whole(dir, Some(expected), &what);
    fs::remove_dir_all(dir).unwrap();
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

/// Lives once; true if it came to its end.
fn live_once(dir: &Path, kill_at: Option<&str>) -> bool {
    fs::create_dir_all(dir).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--quiet"]).env(DIR, dir);
    if let Some(at) = kill_at {
        command.env(KILL_AT, at);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
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
