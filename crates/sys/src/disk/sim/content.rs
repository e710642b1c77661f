//! One simulated file: what reads see, what is durable, and the changes in between.
//!
//! ```text
//! durable ──▶ change ──▶ change ──▶ change ──▶ seen
//!             └─────── since the last sync ───┘
//! ```
//!
//! A sync moves the durable state up to what is seen. A crash goes back to the durable state and
//! lets chance decide which of the changes came through.

use std::{collections::BTreeSet, io, ops::Range};

use rustix::io::Errno;

use super::survival::Survival;

/// The disk writes a sector whole or not at all.
const SECTOR_BYTES: u64 = 512;
/// Space is taken in pages, so that overwriting what has space needs no more.
pub(super) const PAGE_BYTES: u64 = 4_096;

/// The bytes of one file.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// All changes applied, as the page cache would show it.
    seen: Vec<u8>,
    /// What no crash can take away.
    durable: Vec<u8>,
    /// Oldest first.
    unsynced: Vec<Change>,
    /// Pages that take space on the disk, whether written or reserved.
    pages: BTreeSet<u64>,
}

#[derive(Debug)]
enum Change {
    /// The file was cut or extended with zeros. Such changes come through in order, as they would
    /// from a journal.
    Len(u64),
    /// Bytes inside the length of that moment were replaced. They come through in any order.
    Bytes { offset: u64, bytes: Vec<u8> },
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.seen.len() as u64
    }

    pub(super) fn pages_taken(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let rest = self.seen.get(index(offset)..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        count
    }

    /// How many of `len` bytes at `offset` can be written with `pages_free` more pages.
    pub(super) fn fitting(&self, offset: u64, len: usize, mut pages_free: u64) -> usize {
        let end = offset + len as u64;
        for page in pages_of(offset..end) {
            if self.pages.contains(&page) {
                continue;
            }
            if pages_free == 0 {
                return index((page * PAGE_BYTES).saturating_sub(offset));
            }
            pages_free -= 1;
        }
        len
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        if end > self.len() {
            self.change_len(end);
        }
        overlay(&mut self.seen, offset, bytes);
        self.pages.extend(pages_of(offset..end));
        self.unsynced.push(Change::Bytes { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len != self.len() {
            self.change_len(len);
        }
        self.pages.split_off(&len.div_ceil(PAGE_BYTES));
    }

    /// Takes the pages below `len`, and grows to it.
    pub(super) fn allocate(&mut self, len: u64, pages_free: u64) -> io::Result<()> {
        let missing = pages_of(0..len).filter(|page| !self.pages.contains(page)).count() as u64;
        if missing > pages_free {
            return Err(Errno::NOSPC.into());
        }
        self.pages.extend(pages_of(0..len));
        if len > self.len() {
            self.change_len(len);
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) {
        let changes = std::mem::take(&mut self.unsynced);
        settle(&mut self.durable, &changes, &Survival::complete());
    }

    /// Fails to write back: some of the bytes are forgotten for good, and no later sync will know.
    /// Lengths stay in the journal.
    pub(super) fn fail_sync(&mut self, survival: &Survival) {
        let mut left = Vec::new();
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Change::Len(_) => left.push(change),
                Change::Bytes { offset, bytes } => {
                    let pieces = surviving_pieces(offset, &bytes, survival);
                    left.extend(
                        pieces
                            .into_iter()
                            .map(|(offset, piece)| Change::Bytes { offset, bytes: piece.to_vec() }),
                    );
                }
            }
        }
        self.unsynced = left;
    }

    /// What the power cut left, all of it durable now.
    pub(super) fn after_crash(&self, survival: &Survival) -> Self {
        let mut image = self.durable.clone();
        settle(&mut image, &self.unsynced, survival);
        let mut pages = self.pages.clone();
        pages.split_off(&(image.len() as u64).div_ceil(PAGE_BYTES));
        // A cut of the file may have been undone, and its bytes are back.
        let chunks = image.chunks(index(PAGE_BYTES)).zip(0..);
        pages.extend(chunks.filter(|(chunk, _)| chunk.iter().any(|&b| b != 0)).map(|(_, n)| n));
        Self { seen: image.clone(), durable: image, unsynced: Vec::new(), pages }
    }

    fn change_len(&mut self, len: u64) {
        self.seen.resize(index(len), 0);
        self.unsynced.push(Change::Len(len));
    }
}

/// Brings those of `changes` that survive into `image`.
fn settle(image: &mut Vec<u8>, changes: &[Change], survival: &Survival) {
    let lens = changes.iter().filter(|change| matches!(change, Change::Len(_))).count();
    let mut lens_left = survival.prefix_of(lens);
    for change in changes {
        match change {
            Change::Len(len) if lens_left > 0 => {
                lens_left -= 1;
                image.resize(index(*len), 0);
            }
            Change::Len(_) => {}
            Change::Bytes { offset, bytes } => {
                for (offset, piece) in surviving_pieces(*offset, bytes, survival) {
                    overlay(image, offset, piece);
                }
            }
        }
    }
}

fn surviving_pieces<'a>(offset: u64, bytes: &'a [u8], survival: &Survival) -> Vec<(u64, &'a [u8])> {
    let fate = survival.fate_of_write();
    sectors(offset, bytes).into_iter().filter(|_| survival.spares_sector(fate)).collect()
}

/// Cuts a write at the sector boundaries.
fn sectors(mut offset: u64, mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let to_boundary = index(SECTOR_BYTES - offset % SECTOR_BYTES);
        let (piece, rest) = bytes.split_at(to_boundary.min(bytes.len()));
        pieces.push((offset, piece));
        offset += piece.len() as u64;
        bytes = rest;
    }
    pieces
}

/// Replaces bytes of `image`; what lies past its end is lost with the length that did not survive.
fn overlay(image: &mut [u8], offset: u64, bytes: &[u8]) {
    let place = image.get_mut(index(offset)..).unwrap_or_default();
    let count = place.len().min(bytes.len());
    place[..count].copy_from_slice(&bytes[..count]);
}

/// The pages that a range of bytes touches.
const fn pages_of(bytes: Range<u64>) -> Range<u64> {
    bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES)
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a simulated file fits in memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chance;

    #[test]
    fn writes_are_cut_at_sector_boundaries() {
        let check = |offset: u64, len: usize, expect: &[(u64, usize)]| {
            let bytes = vec![1; len];
            let cut: Vec<_> = sectors(offset, &bytes).iter().map(|(o, p)| (*o, p.len())).collect();
            assert_eq!(cut, expect, "{len} bytes at {offset}");
        };
        check(0, 0, &[]);
        check(0, 512, &[(0, 512)]);
        check(500, 12, &[(500, 12)]);
        check(500, 600, &[(500, 12), (512, 512), (1_024, 76)]);
    }

    #[test]
    fn an_append_that_loses_its_bytes_but_not_its_length_reads_as_zeros() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..200 {
            let mut content = Content::default();
            content.write(0, b"x");
            let crashed = content.after_crash(&Survival::draw(&Chance::seeded(seed)));
            outcomes.insert(crashed.durable);
        }
        let expect = [b"".to_vec(), b"\0".to_vec(), b"x".to_vec()];
        assert_eq!(outcomes, BTreeSet::from(expect));
    }

    #[test]
    fn cutting_and_growing_again_leaves_zeros_or_is_undone() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..200 {
            let mut content = Content::default();
            content.write(0, b"ab");
            content.sync();
            content.set_len(1);
            content.set_len(2);
            let crashed = content.after_crash(&Survival::draw(&Chance::seeded(seed)));
            outcomes.insert(crashed.durable);
        }
        let expect = [b"ab".to_vec(), b"a".to_vec(), b"a\0".to_vec()];
        assert_eq!(outcomes, BTreeSet::from(expect));
    }

    #[test]
    fn bytes_forgotten_by_a_failed_sync_stay_lost_after_a_good_one() {
        let mut lost = 0;
        for seed in 0..200 {
            let mut content = Content::default();
            content.write(0, b"x");
            content.fail_sync(&Survival::draw(&Chance::seeded(seed)));
            content.sync();
            let mut seen = [0];
            assert_eq!((content.read_at(&mut seen, 0), &seen), (1, b"x"), "seed {seed}");
            let crashed = content.after_crash(&Survival::complete());
            assert!([b"\0", b"x"].contains(&crashed.durable.as_slice().try_into().unwrap()));
            lost += u32::from(crashed.durable == b"\0");
        }
        assert!((20..180).contains(&lost), "{lost} of 200");
    }

    #[test]
    fn a_write_fits_up_to_the_first_page_without_space() {
        let mut content = Content::default();
        content.write(0, &[1; 100]);
        let check = |offset, len, pages_free, expect| {
            assert_eq!(content.fitting(offset, len, pages_free), expect, "{len} at {offset}");
        };
        check(0, 4_096, 0, 4_096);
        check(0, 4_097, 0, 4_096);
        check(4_000, 200, 0, 96);
        check(4_000, 200, 1, 200);
        check(9_000, 10, 0, 0);
    }
}
