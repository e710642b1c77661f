//! Lives of child processes that are killed at each of their durable writes, for crash tests.
//!
//! A test binary starts itself: one test is the parent, another one, named by the parent, is the
//! child. The child does its work on the disk of its [`Life`], which counts writes or kills.

#![expect(clippy::disallowed_methods, reason = "processes and files are real here")]

use std::{
    env, fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::process::Signal;

use super::{End, KillDisk, KillPoint, RealDisk, sweep};

const DIR: &str = "HEADWATER_CRASH_DIR";
const KILL_AT: &str = "HEADWATER_CRASH_AT";
/// Where a child that was not killed leaves the number of its writes.
const WRITES: &str = "writes";
/// Children at a time.
const HANDS: usize = 4;
/// Writes at the begin of a second life at which it is killed, one after the other.
const EARLY_WRITES: u64 = 6;

/// What a child process of a crash test is given.
#[derive(Debug)]
pub struct Life {
    /// Where it works. It finds there what earlier lives left.
    pub dir: PathBuf,
    /// The disk that all its durable writes must go to.
    pub disk: Arc<KillDisk>,
}

impl Life {
    /// The life of this process, if it is a child.
    ///
    /// # Panics
    /// If the parent named a point that is none.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let dir = env::var_os(DIR)?.into();
        let disk = match env::var(KILL_AT) {
            Ok(point) => KillDisk::new(Arc::new(RealDisk), point.parse().expect("a point")),
            Err(_) => KillDisk::counter(Arc::new(RealDisk)),
        };
        Some(Self { dir, disk: Arc::new(disk) })
    }

    /// Says that all that was to be done is done. A child that ends without it has failed.
    ///
    /// # Panics
    /// If this cannot be written.
    pub fn end(self) {
        let writes = self.disk.count().to_string();
        fs::write(self.dir.join(WRITES), writes).expect("the directory can be written");
    }
}

/// How often children were killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kills {
    /// Writes of a first life at each of which one was killed, in both ways.
    pub writes: u64,
    /// Second lives that were killed, too.
    pub second_lives: u64,
}

/// Starts the test `child` of this binary, kills it at a write, kills its second life early, lets
/// the third one come to its end, and gives `check` what is left; for every write, before it and
/// in the middle of it. One life that is not killed at all comes first. Each has a directory of
/// its own in `root`.
///
/// # Panics
/// If a life ends in any other way, or none of the second lives was killed.
pub fn kill_at_every_write(root: &Path, child: &str, check: impl Fn(&Path, &str) + Sync) -> Kills {
    let whole = root.join("whole");
    assert_eq!(live_once(child, &whole, None), End::Whole);
    check(&whole, "never killed");
    let second_lives = AtomicU64::new(0);
    let writes = sweep(HANDS, |point| {
        let dir = root.join(point.to_string());
        let first = live_once(child, &dir, Some(point));
        let early = KillPoint { at: 1 + point.at % EARLY_WRITES, ..point };
        let second = live_once(child, &dir, Some(early));
        second_lives.fetch_add(u64::from(second == End::Killed), Ordering::Relaxed);
        let what = format!("at write {point} ({first:?}), then at write {early} ({second:?})");
        assert_eq!(live_once(child, &dir, None), End::Whole, "{what}");
        check(&dir, &what);
        fs::remove_dir_all(&dir).expect("a child and a check leave nothing behind that writes");
        first
    });
    let kills = Kills { writes, second_lives: second_lives.into_inner() };
    assert!(kills.second_lives > 0, "no second life was killed");
    kills
}

/// Lives once. Whatever else than a whole life or a kill becomes of it is a failure.
fn live_once(child: &str, dir: &Path, kill_at: Option<KillPoint>) -> End {
    fs::create_dir_all(dir).expect("a directory can be made");
    let _ = fs::remove_file(dir.join(WRITES));
    let mut command = Command::new(env::current_exe().expect("this binary has a path"));
    command.args(["--exact", child, "--quiet"]).env(DIR, dir);
    if let Some(point) = kill_at {
        command.env(KILL_AT, point.to_string());
    }
    let output = command.stdin(Stdio::null()).output().expect("this binary can be started");
    let status = output.status;
    match status.signal() {
        Some(signal) if signal == Signal::KILL.as_raw() && kill_at.is_some() => End::Killed,
        None if status.success() && dir.join(WRITES).exists() => End::Whole,
        _ => {
            let (said, cried) = (output.stdout, output.stderr);
            let (said, cried) = (String::from_utf8_lossy(&said), String::from_utf8_lossy(&cried));
            panic!("to be killed at {kill_at:?}, a life ended with {status}:\n{said}\n{cried}");
        }
    }
}
