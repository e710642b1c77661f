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

/// Written at a time where space cannot be reserved.
const GROW_BYTES: usize = 1024 * 1024;

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
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = match file {
            Err(error) if may_be_readable(&error) => return lock_read_only(path, error),
            file => file?,
        };
        try_lock(&file)?;
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
    /// Grows to `len` by writing zeros, where space cannot be reserved otherwise.
    fn grow(&self, len: u64) -> io::Result<()> {
        let zeros = vec![0; GROW_BYTES];
        let mut at = self.len()?;
        while at < len {
            let step = zeros.len().min(usize::try_from(len - at).unwrap_or(usize::MAX));
            self.write_all_at(&zeros[..step], at)?;
            at += step as u64;
        }
        Ok(())
    }
}

/// Takes a lock where nothing can be written, for those who only look.
fn lock_read_only(path: &Path, denied: io::Error) -> io::Result<Lock> {
    match fs::File::open(path) {
        Ok(file) => {
            try_lock(&file)?;
            Ok(Lock { _held: Box::new(file) })
        }
        // Where no file can be made, no other process has made one.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                && denied.kind() == io::ErrorKind::ReadOnlyFilesystem =>
        {
            Ok(Lock { _held: Box::new(()) })
        }
        Err(_) => Err(denied),
    }
}

fn try_lock(file: &fs::File) -> io::Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
        TryLockError::Error(error) => error,
    })
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
    fn a_lock_can_be_taken_where_nothing_can_be_written() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let (path, missing) = (dir.path().join("lock"), dir.path().join("missing"));
        fs::write(&path, "1\n")?;
        let denied = || io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        let held = lock_read_only(&path, denied())?;
        let second = lock_read_only(&path, denied()).map(drop);
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(fs::read_to_string(&path)?, "1\n");
        drop(held);
        let _held = lock_read_only(&path, denied())?;
        let _free = lock_read_only(&missing, denied())?;
        let refused = lock_read_only(&missing, io::ErrorKind::PermissionDenied.into()).map(drop);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
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
