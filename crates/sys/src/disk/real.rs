//! The disk of the operating system.

use std::{
    fs::{self, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt as _},
    path::Path,
    sync::Arc,
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};

use super::{Disk, File, Lock};

/// The file system of the machine, with relative paths taken from the working directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile {
    file: fs::File,
}

impl Disk for RealDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if may_be_readable(&error) => OpenOptions::new().read(true).open(path)?,
            opened => opened?,
        };
        Ok(Arc::new(RealFile { file }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        // What is stored here is nobody else's business.
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Arc::new(RealFile { file }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if !(kind.is_file() || kind.is_dir()) {
                continue;
            }
            // Callers name their files in UTF-8, so any other name is none of theirs.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The process id is there for people who wonder who holds the lock.
        file.set_len(0)?;
        file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)?;
        Ok(Lock { _held: Box::new(file) })
    }
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), 0, len) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) => return self.grow(len),
                done => return Ok(done?),
            }
        }
    }
}

impl RealFile {
    /// Grows to `len` without reserving: all that can be done where space cannot be reserved.
    fn grow(&self, len: u64) -> io::Result<()> {
        if self.len()? < len {
            self.set_len(len)?;
        }
        Ok(())
    }
}

/// Secrets, for one, are often mounted so that nobody can write them.
fn may_be_readable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_names_its_holder() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("lock");
        fs::write(&path, "a longer name than that of this process")?;
        let _held = RealDisk.lock(&path)?;
        assert_eq!(fs::read_to_string(&path)?, format!("{}\n", std::process::id()));
        Ok(())
    }

    #[test]
    fn growing_without_reserving_never_cuts() -> io::Result<()> {
        let file = RealFile { file: tempfile::tempfile()? };
        for (len, expect) in [(10, 10), (4, 10), (20, 20)] {
            file.grow(len)?;
            assert_eq!(file.len()?, expect, "after growing to {len}");
        }
        Ok(())
    }
}
