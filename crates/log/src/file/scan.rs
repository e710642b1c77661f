//! Reading a file from front to back.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use sys::{File, disk::is_unreadable};

const WINDOW_BYTES: usize = 1024 * 1024;
/// What a disk fails to read, it fails to read by the sector.
const SECTOR_BYTES: u64 = 512;

/// Fills `buf` from `offset`, with zeros in the place of sectors that the disk fails to read; how
/// many bytes those are.
///
/// # Errors
/// If the file is shorter, or the disk fails in another way.
pub(super) fn read_lossy(file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<u64> {
    match file.read_exact_at(buf, offset) {
        Err(error) if is_unreadable(&error) => {}
        read => return read.map(|()| 0),
    }
    let end = offset + buf.len() as u64;
    let middle = offset + buf.len() as u64 / 2;
    let before = middle - middle % SECTOR_BYTES;
    let boundary = if before > offset { before } else { before + SECTOR_BYTES };
    if boundary >= end {
        buf.fill(0);
        return Ok(end - offset);
    }
    let (left, right) = buf.split_at_mut(usize::try_from(boundary - offset).expect("within"));
    Ok(read_lossy(file, left, offset)? + read_lossy(file, right, boundary)?)
}

/// A place in a file that moves forward.
#[derive(Debug)]
pub(super) struct Scan {
    file: Arc<dyn File>,
    length: u64,
    /// The file offset of `window`'s first byte.
    at: u64,
    window: Bytes,
}

impl Scan {
    pub(super) fn new(file: Arc<dyn File>, at: u64) -> io::Result<Self> {
        let length = file.len()?;
        Ok(Self { file, length, at, window: Bytes::new() })
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The next `count` bytes without moving; none past the end of the file.
    pub(super) fn peek(&mut self, count: usize) -> io::Result<Option<Bytes>> {
        if self.length.saturating_sub(self.at) < count as u64 {
            return Ok(None);
        }
        if self.window.len() < count {
            let left = self.length - self.at;
            let size = (count.max(WINDOW_BYTES) as u64).min(left);
            let mut window = BytesMut::zeroed(usize::try_from(size).expect("fits memory"));
            self.file.read_exact_at(&mut window, self.at)?;
            self.window = window.freeze();
        }
        Ok(Some(self.window.slice(..count)))
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> io::Result<Option<Bytes>> {
        let bytes = self.peek(count)?;
        if bytes.is_some() {
            self.skip(count);
        }
        Ok(bytes)
    }

    /// Moves on over bytes that were peeked at.
    pub(super) fn skip(&mut self, count: usize) {
        let _ = self.window.split_to(count);
        self.at += count as u64;
    }
}
