//! Every record that can be read in a file, whatever stands between them.
//!
//! Packs are read so when no checkpoint says where their records are, and files that a repair has
//! set aside: after damage, or a sector that the disk fails to read, reading goes on with the next
//! bytes that are a record.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use sys::File;

use super::{
    record::{self, HEADER_BYTES, Record, Salt},
    scan::read_lossy,
};

/// Read at a time, unless a record is larger.
const WINDOW_BYTES: usize = 1024 * 1024;
/// Bytes that may look like records and be none: so many, and so many times the file.
const VAIN_BYTES_MAX: u64 = 1 << 30;
const VAIN_SHARE_MAX: u64 = 16;

/// A search for records, from front to back.
#[derive(Debug)]
pub(super) struct Records {
    file: Arc<dyn File>,
    salt: Salt,
    length: u64,
    /// Where the window begins in the file.
    at: u64,
    window: Bytes,
    /// Bytes that looked like records.
    vain_bytes: u64,
    is_whole: bool,
}

/// A record, and where it stands.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) record: Record,
}

impl Records {
    pub(super) fn new(file: Arc<dyn File>, salt: Salt) -> io::Result<Self> {
        let length = file.len()?;
        Ok(Self { file, salt, length, at: 0, window: Bytes::new(), vain_bytes: 0, is_whole: true })
    }

    /// True if the disk has read everything so far.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The next record; none at the end of the file.
    ///
    /// # Errors
    /// Also if so many bytes look like records and are none that the search would not end.
    pub(super) fn next(&mut self) -> io::Result<Option<Found>> {
        loop {
            self.fill(HEADER_BYTES)?;
            if self.window.len() < HEADER_BYTES {
                return Ok(None);
            }
            if !record::may_be_record(&self.window) {
                self.skip_to_candidate();
            } else if let Some(found) = self.take()? {
                return Ok(Some(found));
            } else {
                self.skip(1);
            }
        }
    }

    /// The record at the front of the window, if one stands there.
    fn take(&mut self) -> io::Result<Option<Found>> {
        let Some(length) = record::length(&self.window) else { return Ok(None) };
        self.fill(length)?;
        if self.window.len() < length {
            return Ok(None);
        }
        let Some(record) = record::read(&self.window.slice(..length), self.salt) else {
            self.vain_bytes += length as u64;
            if self.vain_bytes > VAIN_BYTES_MAX + VAIN_SHARE_MAX * self.length {
                return Err(io::Error::other("too much of it looks like records and is none"));
            }
            return Ok(None);
        };
        let found = Found { offset: self.at, length: length as u32, record };
        self.skip(length);
        Ok(Some(found))
    }

    /// Moves on to what may be a record, or to the last bytes of the window.
    fn skip_to_candidate(&mut self) {
        let last = self.window.len() - HEADER_BYTES;
        let next = (1..=last).find(|at| record::may_be_record(&self.window[*at..]));
        self.skip(next.unwrap_or(last + 1));
    }

    fn skip(&mut self, count: usize) {
        let _ = self.window.split_to(count);
        self.at += count as u64;
    }

    /// Reads on until the window holds so many bytes, or the rest of the file.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        if self.window.len() >= bytes {
            return Ok(());
        }
        let left = self.length - self.at;
        let size = usize::try_from(left.min(bytes.max(WINDOW_BYTES) as u64)).expect("bounded");
        if size > self.window.len() {
            let mut window = BytesMut::zeroed(size);
            self.is_whole &= read_lossy(self.file.as_ref(), &mut window, self.at)? == 0;
            self.window = window.freeze();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sys::{
        Disk as _,
        disk::{SimDisk, SimFaults},
    };

    use super::*;
    use crate::{Incarnation, table::Change};

    const SALT: Salt = Salt(7);

    /// The ids of the records that are found in `bytes`, and where.
    fn found(bytes: &[u8]) -> Vec<(u64, u64)> {
        let file = SimDisk::new(0, SimFaults::default()).create(Path::new("a")).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        let mut records = Records::new(file, SALT).unwrap();
        std::iter::from_fn(|| records.next().unwrap())
            .map(|found| (found.record.id().0, found.offset))
            .collect()
    }

    #[test]
    fn reading_goes_on_after_damage() {
        let mut bytes = vec![0; 64];
        for id in 1..4 {
            record::write_change(&mut bytes, SALT, &Change::Retire { id: Incarnation(id) });
        }
        assert_eq!(found(&bytes), [(1, 64), (2, 84), (3, 104)]);
        for at in 84..104 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert_eq!(found(&damaged), [(1, 64), (3, 104)], "byte {at}");
        }
        assert_eq!(found(&bytes[..110]), [(1, 64), (2, 84)]);
        assert_eq!(found(&bytes[..10]), []);
    }

    #[test]
    fn reading_goes_on_after_a_bad_sector() {
        let mut bytes = Vec::new();
        let mut places = Vec::new();
        for id in 1..200 {
            places.push((id, bytes.len() as u64));
            record::write_change(&mut bytes, SALT, &Change::Retire { id: Incarnation(id) });
        }
        for bad in [0..512, 512..1_024, 1_024..3_072, 3_584..4_096] {
            let disk = SimDisk::new(0, SimFaults::default());
            let file = disk.create(Path::new("a")).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            disk.spoil(Path::new("a"), bad.clone()).unwrap();
            let mut records = Records::new(file, SALT).unwrap();
            let found: Vec<(u64, u64)> = std::iter::from_fn(|| records.next().unwrap())
                .map(|found| (found.record.id().0, found.offset))
                .collect();
            let is_good = |(_, at): &&(u64, u64)| at + 20 <= bad.start || *at >= bad.end;
            let expected: Vec<(u64, u64)> = places.iter().filter(is_good).copied().collect();
            assert_eq!(found, expected, "{bad:?}");
            assert!(!records.is_whole());
        }
    }
}
