//! Reading a file from front to back.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use sys::File;

const WINDOW_BYTES: usize = 1024 * 1024;

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
