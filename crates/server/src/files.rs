//! Small files that a server reads when it starts.

use std::{
    io,
    path::{Path, PathBuf},
};

use sys::Sys;

/// No certificate chain, key or list of keys is larger.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be read: {error}")]
pub struct BadFile {
    /// Which.
    pub path: PathBuf,
    /// Why not.
    pub error: io::Error,
}

pub(crate) async fn read(sys: &Sys, path: &Path) -> Result<Vec<u8>, BadFile> {
    let (disk, file) = (sys.disk.clone(), path.to_owned());
    let reading = sys.spawn.blocking(move || {
        let file = disk.open(&file)?;
        let len = file.len()?;
        if len > FILE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
        }
        let mut contents = vec![0; len as usize];
        file.read_exact_at(&mut contents, 0)?;
        Ok(contents)
    });
    reading.await.map_err(|error| BadFile { path: path.to_owned(), error })
}
