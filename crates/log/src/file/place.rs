//! Where records stand on the disk.

use wire::Offset;

/// A file of the log: a segment of the write-ahead log, or a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum FileId {
    Segment(u32),
    Pack(u32),
}

/// A record's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: FileId,
    pub(super) offset: u32,
}

/// A record with messages: where they stand in their stream, and where on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The first message.
    pub(super) start: Offset,
    pub(super) place: Place,
    /// Bytes of the whole record.
    pub(super) length: u32,
}

impl Place {
    /// An order of all changes: segments are numbered in the order they are written.
    pub(super) fn sequence(self) -> u64 {
        match self.file {
            FileId::Segment(number) => u64::from(number) << 32 | u64::from(self.offset),
            FileId::Pack(_) => 0,
        }
    }

    pub(super) fn is_in_segment(self) -> bool {
        matches!(self.file, FileId::Segment(_))
    }

    pub(super) fn end(self, length: u32) -> u64 {
        u64::from(self.offset) + u64::from(length)
    }
}
