//! What the fuzz targets may reach.

use std::{io, path::Path, sync::Arc};

use bytes::Bytes;
use sys::{Disk, File, disk::Lock};

use super::{
    files::Layout,
    format,
    record::{self, Record, Salt},
};

/// Reads bytes as a record without checking their checksum; what is read must survive a round trip.
///
/// # Panics
/// If it does not.
pub fn record(input: &[u8]) {
    if input.len() < record::HEADER_BYTES {
        return;
    }
    let bytes = Bytes::copy_from_slice(input);
    let Some(Record::Change(change)) = record::decode(&bytes) else { return };
    let mut written = Vec::new();
    record::write_change(&mut written, Salt(7), &change);
    let again = record::read(&written.into(), Salt(7));
    assert_eq!(again, Some(Record::Change(change)), "a round trip changed the record");
}

/// Reads bytes as an entry of a checkpoint.
pub fn checkpoint_entry(input: &[u8]) {
    let _ = super::checkpoint::entry(Bytes::copy_from_slice(input));
}

/// Reads bytes as the records of a frame whose head vouches for them.
pub fn frame(input: &[u8]) {
    let Some((&count, body)) = input.split_first() else { return };
    super::segment::read_vouched(body, u32::from(count), Salt(7));
}

/// Reads bytes as the two copies of the format file; a copy that is missing is none. The salt of a
/// directory, if it has one that can be used.
pub fn format(first: Option<&[u8]>, second: Option<&[u8]>) -> Option<u32> {
    let copies = [first, second].map(|copy| copy.map(<[u8]>::to_vec));
    let layout = Layout::new(Path::new("/"));
    let disk = Copies { paths: layout.formats(), copies };
    format::read(&disk, &layout).ok().flatten().map(|format| format.salt.0)
}

/// A disk that holds two files, and takes no other.
#[derive(Debug)]
struct Copies {
    paths: [std::path::PathBuf; 2],
    copies: [Option<Vec<u8>>; 2],
}

#[derive(Debug)]
struct Copy(Vec<u8>);

impl Disk for Copies {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let copy = self.paths.iter().zip(&self.copies).find(|(known, _)| *known == path);
        match copy.and_then(|(_, bytes)| bytes.clone()) {
            Some(bytes) => Ok(Arc::new(Copy(bytes))),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn create(&self, _: &Path) -> io::Result<Arc<dyn File>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn lock(&self, _: &Path) -> io::Result<Lock> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl File for Copy {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let length = buf.len().min(self.0.len() - start);
        buf[..length].copy_from_slice(&self.0[start..start + length]);
        Ok(length)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
