//! A disk that kills its own process at a chosen durable write, for crash tests in a child process.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use rustix::process::{Signal, getpid, kill_process};

use super::{Disk, File, Lock};

/// Counts the durable operations on the disk it wraps, and dies at one of them if told to.
///
/// Each `write_all_at`, `sync`, `set_len`, `allocate`, `create`, `rename`, `remove` and `sync_dir`
/// counts one, over all files together.
#[derive(Debug)]
pub struct KillDisk {
    inner: Arc<dyn Disk>,
    tally: Arc<Tally>,
}

/// Where a [`KillDisk`] dies.
#[derive(Clone, Copy, Debug)]
pub struct KillPoint {
    /// The operation to die at; the first is 1.
    pub at: u64,
    /// What is left of that operation.
    pub mode: KillMode,
}

/// What is left of the operation a [`KillDisk`] dies at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillMode {
    /// Nothing.
    Before,
    /// The first half of what a `write_all_at` was given; nothing of any other operation.
    Torn,
}

#[derive(Debug)]
struct Tally {
    count: AtomicU64,
    point: Option<KillPoint>,
}

#[derive(Debug)]
struct KillFile {
    inner: Arc<dyn File>,
    tally: Arc<Tally>,
}

impl KillDisk {
    /// Kills this process with `SIGKILL` once `point` is reached.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>, point: KillPoint) -> Self {
        Self::with_tally(inner, Some(point))
    }

    /// Kills nobody; a first run with it tells how many points there are to die at.
    #[must_use]
    pub fn counter(inner: Arc<dyn Disk>) -> Self {
        Self::with_tally(inner, None)
    }

    /// The durable operations begun so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.tally.count.load(Ordering::Relaxed)
    }

    fn with_tally(inner: Arc<dyn Disk>, point: Option<KillPoint>) -> Self {
        Self { inner, tally: Arc::new(Tally { count: AtomicU64::new(0), point }) }
    }

    fn watch(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(KillFile { inner, tally: Arc::clone(&self.tally) })
    }
}

impl Disk for KillDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.watch(self.inner.open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.tally.count_or_die();
        Ok(self.watch(self.inner.create(path)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.tally.count_or_die();
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.tally.count_or_die();
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.tally.count_or_die();
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.inner.lock(path)
    }
}

impl File for KillFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        match self.tally.count_one() {
            None => self.inner.write_all_at(buf, offset),
            Some(KillMode::Before) => die(),
            Some(KillMode::Torn) => {
                // The process dies whether or not the half could be written.
                let _ = self.inner.write_all_at(&buf[..buf.len() / 2], offset);
                die()
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.tally.count_or_die();
        self.inner.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.tally.count_or_die();
        self.inner.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.tally.count_or_die();
        self.inner.allocate(len)
    }
}

impl Tally {
    /// Counts one operation; says how to die if it is the one to die at.
    fn count_one(&self) -> Option<KillMode> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let point = self.point?;
        (number == point.at).then_some(point.mode)
    }

    fn count_or_die(&self) {
        if self.count_one().is_some() {
            die();
        }
    }
}

/// Ends the process as a power cut would: no destructor, no flush, no handler.
fn die() -> ! {
    // Only a process without a self could refuse, and then there is nobody left to tell.
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, os::unix::process::ExitStatusExt, process::Command};

    use super::*;
    use crate::disk::RealDisk;

    /// Tells a child process where to die.
    const VICTIM_FILE: &str = "SYS_KILL_TEST_FILE";

    #[test]
    fn every_durable_operation_counts_once_and_no_other_counts() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let (one, two) = (dir.path().join("sub/1"), dir.path().join("sub/2"));
        let disk = KillDisk::counter(Arc::new(RealDisk));
        let check = |expect: u64, what: &str| assert_eq!(disk.count(), expect, "after {what}");

        disk.create_dir_all(&dir.path().join("sub"))?;
        check(0, "create_dir_all");
        let file = disk.create(&one)?;
        check(1, "create");
        file.write_all_at(b"abc", 0)?;
        check(2, "write_all_at");
        file.sync()?;
        check(3, "sync");
        file.set_len(1)?;
        check(4, "set_len");
        file.allocate(10)?;
        check(5, "allocate");
        disk.rename(&one, &two)?;
        check(6, "rename");
        disk.sync_dir(dir.path())?;
        check(7, "sync_dir");
        let again = disk.open(&two)?;
        again.read_at(&mut [0; 4], 0)?;
        again.len()?;
        disk.list(dir.path())?;
        let _held = disk.lock(&dir.path().join("lock"))?;
        check(7, "reading and locking");
        disk.remove(&two)?;
        check(8, "remove");
        Ok(())
    }

    #[test]
    fn only_the_chosen_operation_is_deadly() {
        let point = KillPoint { at: 2, mode: KillMode::Torn };
        let tally = Tally { count: AtomicU64::new(0), point: Some(point) };
        let fates = [tally.count_one(), tally.count_one(), tally.count_one()];
        assert_eq!(fates, [None, Some(KillMode::Torn), None]);
    }

    #[test]
    fn the_process_dies_in_the_middle_of_a_torn_write() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("torn");
        let status = Command::new(env::current_exe()?)
            .args(["--exact", "disk::kill::tests::victim", "--quiet"])
            .env(VICTIM_FILE, &path)
            .status()?;
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(fs::read(&path)?, b"first sec");
        Ok(())
    }

    /// Does nothing but in the child process of the test above, which dies in it.
    #[test]
    fn victim() {
        let Some(path) = env::var_os(VICTIM_FILE) else {
            return;
        };
        let disk = KillDisk::new(Arc::new(RealDisk), KillPoint { at: 3, mode: KillMode::Torn });
        let file = disk.create(Path::new(&path)).unwrap();
        file.write_all_at(b"first ", 0).unwrap();
        file.write_all_at(b"second", 6).unwrap();
        unreachable!("the second write kills");
    }
}
