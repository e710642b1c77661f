//! Files and directories, with the durability of each call spelled out.
//!
//! The calls block. Owners that make many of them run on a thread of their own
//! ([`crate::Spawn::owner`]), all others go through [`crate::Spawn::blocking`].

mod kill;
mod lives;
mod real;
#[cfg(feature = "sim")]
mod sim;
mod sweep;

use std::{fmt, io, path::Path, sync::Arc};

use rustix::io::Errno;

pub use kill::{KillDisk, KillMode, KillPoint};
pub use lives::{Kills, Life, kill_at_every_write};
pub use real::RealDisk;
#[cfg(feature = "sim")]
pub use sim::{SimDisk, SimFaults};
pub use sweep::{BadKillPoint, End, sweep};

/// True if the disk could not read these bytes, and was given the chance to: a bad sector, or a
/// checksum of the file system that does not fit. Asking again will rarely help, and may.
#[must_use]
pub fn is_unreadable(error: &io::Error) -> bool {
    let found = error.raw_os_error();
    // The last is what a block device says of a medium that fails.
    let all = [Errno::IO, Errno::BADMSG, Errno::ILSEQ, Errno::NODATA];
    all.iter().any(|errno| found == Some(errno.raw_os_error()))
}

/// A directory tree. Nothing is durable until the matching sync returned.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a directory and its missing parents. Durable after `sync_dir` of each parent.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Opens an existing file for reading and writing, or only for reading if that is all that
    /// is allowed.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Makes a new file, or fails with `AlreadyExists`. The name is durable after `sync_dir`.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Names of the plain files and directories in `dir`, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Renames over whatever stands at `to`. Durable after `sync_dir`; atomic in any case.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Durable after `sync_dir`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on the file at `path` (made if missing), held until dropped or the
    /// process ends.
    ///
    /// # Errors
    /// `WouldBlock` if somebody else holds it.
    fn lock(&self, path: &Path) -> io::Result<Lock>;
}

/// One open file. Reads and writes name their place; there is no cursor.
#[expect(clippy::len_without_is_empty, reason = "nobody asks a file whether it is empty")]
pub trait File: Send + Sync + fmt::Debug {
    /// Reads up to `buf.len()` bytes at `offset`; 0 means end of file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `buf` at `offset`, growing the file if needed. Durable after `sync`.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the contents, and the length if it changed, durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Cuts or extends (with zeros) to `len`. Durable after `sync`.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves space up to `len` so that later writes below it cannot meet a full disk. A shorter
    /// file grows (with zeros) to `len`; a longer one keeps its length. Durable after `sync`.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Fills `buf` from `offset`, or fails with `UnexpectedEof`.
    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }
}

/// An exclusive lock, released when dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    pub(crate) _held: Box<dyn std::any::Any + Send + Sync>,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

/// What every disk does while the power is on.
#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `check` in an empty directory of each kind of disk.
    fn on_every_disk(check: impl Fn(&dyn Disk, &Path) -> io::Result<()>) -> io::Result<()> {
        check(&RealDisk, tempfile::tempdir()?.path())?;
        check(&KillDisk::counter(Arc::new(RealDisk)), tempfile::tempdir()?.path())?;
        #[cfg(feature = "sim")]
        check(&SimDisk::new(0, SimFaults::default()), Path::new("/"))?;
        Ok(())
    }

    fn kind_of<T: fmt::Debug>(result: io::Result<T>) -> io::ErrorKind {
        result.unwrap_err().kind()
    }

    #[test]
    fn a_file_keeps_what_it_was_given() -> io::Result<()> {
        on_every_disk(|disk, dir| {
            let path = dir.join("a");
            let file = disk.create(&path)?;
            file.write_all_at(b"hello", 3)?;
            file.sync()?;
            disk.sync_dir(dir)?;
            let again = disk.open(&path)?;
            let mut buf = [0xff; 8];
            again.read_exact_at(&mut buf, 0)?;
            assert_eq!(&buf, b"\0\0\0hello");
            assert_eq!(again.read_at(&mut buf, 6)?, 2);
            assert_eq!(&buf[..2], b"lo");
            for past_end in [8, 9, 100_000] {
                assert_eq!(again.read_at(&mut buf, past_end)?, 0, "at {past_end}");
            }
            let short = again.read_exact_at(&mut buf, 1);
            assert_eq!(kind_of(short), io::ErrorKind::UnexpectedEof);
            Ok(())
        })
    }

    #[test]
    fn lengths_change_as_told_and_cut_bytes_are_gone() -> io::Result<()> {
        on_every_disk(|disk, dir| {
            let file = disk.create(&dir.join("a"))?;
            file.write_all_at(b"hello", 0)?;
            file.set_len(2)?;
            file.set_len(4)?;
            let mut buf = [0xff; 4];
            file.read_exact_at(&mut buf, 0)?;
            assert_eq!(&buf, b"he\0\0");
            file.write_all_at(b"", 100)?;
            assert_eq!(file.len()?, 4);
            Ok(())
        })
    }

    #[test]
    fn allocate_grows_but_never_cuts() -> io::Result<()> {
        on_every_disk(|disk, dir| {
            let file = disk.create(&dir.join("a"))?;
            for (reserve, expect) in [(0, 0), (8_192, 8_192), (4_096, 8_192)] {
                file.allocate(reserve)?;
                assert_eq!(file.len()?, expect, "after reserving {reserve}");
            }
            Ok(())
        })
    }

    #[test]
    fn names_are_listed_sorted_and_move_and_go() -> io::Result<()> {
        on_every_disk(|disk, dir| {
            disk.create(&dir.join("b"))?;
            disk.create(&dir.join("a"))?.write_all_at(b"from a", 0)?;
            disk.create_dir_all(&dir.join("c/d"))?;
            disk.create_dir_all(&dir.join("c"))?;
            assert_eq!(disk.list(dir)?, ["a", "b", "c"]);
            assert_eq!(disk.list(&dir.join("c"))?, ["d"]);
            disk.rename(&dir.join("a"), &dir.join("b"))?;
            assert_eq!(disk.list(dir)?, ["b", "c"]);
            assert_eq!(disk.open(&dir.join("b"))?.len()?, 6);
            disk.remove(&dir.join("b"))?;
            assert_eq!(disk.list(dir)?, ["c"]);
            Ok(())
        })
    }

    #[test]
    fn wrong_names_are_told_apart() -> io::Result<()> {
        on_every_disk(|disk, dir| {
            let (file, missing) = (dir.join("file"), dir.join("missing"));
            disk.create(&file)?;
            assert_eq!(kind_of(disk.create(&file)), io::ErrorKind::AlreadyExists);
            let not_found = [
                kind_of(disk.open(&missing)),
                kind_of(disk.remove(&missing)),
                kind_of(disk.rename(&missing, &file)),
                kind_of(disk.list(&missing)),
                kind_of(disk.sync_dir(&missing)),
                kind_of(disk.create(&missing.join("a"))),
                kind_of(disk.lock(&missing.join("a"))),
            ];
            assert_eq!(not_found, [io::ErrorKind::NotFound; 7]);
            assert_eq!(kind_of(disk.list(&file)), io::ErrorKind::NotADirectory);
            Ok(())
        })
    }

    #[test]
    fn an_open_file_outlives_its_name() -> io::Result<()> {
        on_every_disk(|disk, dir| {
            let file = disk.create(&dir.join("a"))?;
            disk.remove(&dir.join("a"))?;
            file.write_all_at(b"still here", 0)?;
            assert_eq!(file.len()?, 10);
            Ok(())
        })
    }

    #[test]
    fn a_lock_excludes_others_until_it_is_dropped() -> io::Result<()> {
        on_every_disk(|disk, dir| {
            let path = dir.join("lock");
            let held = disk.lock(&path)?;
            assert_eq!(kind_of(disk.lock(&path)), io::ErrorKind::WouldBlock);
            let _other = disk.lock(&dir.join("other"))?;
            drop(held);
            let _held_again = disk.lock(&path)?;
            Ok(())
        })
    }
}
