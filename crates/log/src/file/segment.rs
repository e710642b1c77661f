//! Segments of the write-ahead log: frames, one per group commit, in files that are used again.
//!
//! ```text
//! segment:  0  magic u32 │ version u32 │ number u32 │ previous end u32 │ crc u32 │ zeros to 64
//!           64 frames …
//! frame:    0  magic u32 │ length u32 │ segment u32 │ offset u32 │ records u32 │ flags u16
//!           22 key u16 │ body u32 (over the heads of its records) │ crc u32 (over all before)
//!           32 records …, zeros to a multiple of 8
//! ```
//!
//! A file keeps what its last life left behind. A frame counts only where it says it stands, so
//! what is left of older frames never passes for a new one, and its head vouches for its records,
//! so neither do theirs; the end of a segment is written into the head of the next, so a hole can
//! be told from an end.

use bytes::Bytes;

use super::{
    codec::{Put, Take},
    place::{FileId, Place},
    record::{self, Record, Salt},
};

const SEGMENT_MAGIC: u32 = u32::from_le_bytes(*b"HWsg");
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"HWfr");
const VERSION: u32 = 1;

/// Where the first frame stands.
pub(super) const SEGMENT_HEADER_BYTES: usize = 64;
/// Bytes of a frame before its records.
pub(super) const FRAME_HEADER_BYTES: usize = 32;
/// Frames begin at multiples of this.
pub(super) const FRAME_ALIGNMENT: usize = 8;

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: u32,
    /// Where the segment before this one ends.
    pub(super) previous_end: u32,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) segment: u32,
    pub(super) offset: u32,
    /// Of the whole frame, with its padding.
    pub(super) length: u32,
    pub(super) records: u32,
    /// A checksum over the lengths and checksums of the records.
    body: u32,
}

impl SegmentHeader {
    pub(super) fn encode(self, salt: Salt) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        bytes.put_u32(SEGMENT_MAGIC);
        bytes.put_u32(VERSION);
        bytes.put_u32(self.number);
        bytes.put_u32(self.previous_end);
        bytes.put_u32(salt.checksum(&bytes));
        bytes.resize(SEGMENT_HEADER_BYTES, 0);
        bytes.try_into().expect("resized to its length")
    }

    pub(super) fn decode(bytes: &[u8], salt: Salt) -> Option<Self> {
        let mut take = Take::new(Bytes::copy_from_slice(bytes.get(..SEGMENT_HEADER_BYTES)?));
        let (magic, version) = (take.u32()?, take.u32()?);
        let header = Self { number: take.u32()?, previous_end: take.u32()? };
        let whole = take.u32()? == salt.checksum(&bytes[..16]);
        (whole && magic == SEGMENT_MAGIC && version == VERSION).then_some(header)
    }
}

impl FrameHeader {
    fn encode(self, salt: Salt) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES);
        bytes.put_u32(FRAME_MAGIC);
        bytes.put_u32(self.length);
        bytes.put_u32(self.segment);
        bytes.put_u32(self.offset);
        bytes.put_u32(self.records);
        bytes.put_u32(0);
        bytes.put_u32(self.body);
        bytes.put_u32(salt.checksum(&bytes));
        bytes.try_into().expect("seven numbers and a checksum")
    }

    /// The frame at `place`, if one stands there.
    pub(super) fn decode(bytes: &[u8], salt: Salt, segment: u32, offset: u32) -> Option<Self> {
        let header = bytes.get(..FRAME_HEADER_BYTES)?;
        let mut take = Take::new(Bytes::copy_from_slice(header));
        let magic = take.u32()?;
        let length = take.u32()?;
        let (frame_segment, frame_offset, records) = (take.u32()?, take.u32()?, take.u32()?);
        let (flags, body, crc) = (take.u32()?, take.u32()?, take.u32()?);
        let frame = Self { segment: frame_segment, offset: frame_offset, length, records, body };
        let here = frame.segment == segment && frame.offset == offset;
        let sound = magic == FRAME_MAGIC
            && flags == 0
            && length as usize >= FRAME_HEADER_BYTES
            && crc == salt.checksum(&header[..28]);
        (here && sound).then_some(frame)
    }
}

/// A quick look: true for every frame, and for little else.
pub(super) fn may_be_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(&FRAME_MAGIC.to_le_bytes())
}

/// Starts a frame in an empty buffer; records follow.
pub(super) fn begin_frame(buffer: &mut Vec<u8>) {
    debug_assert!(buffer.is_empty(), "one frame is built at a time");
    buffer.resize(FRAME_HEADER_BYTES, 0);
}

/// Pads the frame and fills in its head.
pub(super) fn finish_frame(buffer: &mut Vec<u8>, salt: Salt, place: Place, records: u32) {
    buffer.resize(buffer.len().next_multiple_of(FRAME_ALIGNMENT), 0);
    let FileId::Segment(segment) = place.file else { unreachable!("frames stand in segments") };
    let length = u32::try_from(buffer.len()).expect("a frame is bounded");
    let body = record_heads(&buffer[FRAME_HEADER_BYTES..], records);
    let body = salt.checksum(&body.expect("whole records were written"));
    let header = FrameHeader { segment, offset: place.offset, length, records, body };
    buffer[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode(salt));
}

/// The records of a whole frame with their offsets in it; none if one of them is torn.
pub(super) fn frame_records(
    frame: &Bytes,
    header: FrameHeader,
    salt: Salt,
) -> Option<Vec<(u32, u32, Record)>> {
    let heads = record_heads(frame.get(FRAME_HEADER_BYTES..)?, header.records)?;
    if salt.checksum(&heads) != header.body {
        return None;
    }
    let mut records = Vec::with_capacity((header.records as usize).min(4096));
    let mut at = FRAME_HEADER_BYTES;
    for _ in 0..header.records {
        let length = record::length(frame.get(at..)?)?;
        let end = at.checked_add(length).filter(|end| *end <= frame.len())?;
        let record = record::read(&frame.slice(at..end), salt)?;
        records.push((at as u32, length as u32, record));
        at = end;
    }
    (at.next_multiple_of(FRAME_ALIGNMENT) == frame.len()).then_some(records)
}

/// The length and checksum of each record, end to end.
fn record_heads(records: &[u8], count: u32) -> Option<Vec<u8>> {
    let mut heads = Vec::with_capacity(8 * (count as usize).min(4096));
    let mut at = 0usize;
    for _ in 0..count {
        let length = record::length(records.get(at..)?)?;
        heads.put(records.get(at..at.checked_add(8)?)?);
        at = at.checked_add(length)?;
    }
    Some(heads)
}

/// Reads bytes as the records of a frame, as if its head had been written for them.
#[cfg(fuzzing)]
pub(super) fn read_vouched(body: &[u8], records: u32, salt: Salt) {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    frame.extend_from_slice(body);
    let Some(heads) = record_heads(body, records) else { return };
    let body = salt.checksum(&heads);
    let length = frame.len() as u32;
    let header = FrameHeader { segment: 1, offset: 64, length, records, body };
    let _ = frame_records(&frame.into(), header, salt);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Incarnation, table::Change};

    const SALT: Salt = Salt(7);
    const PLACE: Place = Place { file: FileId::Segment(3), offset: 64 };

    fn frame() -> Vec<u8> {
        let mut frame = Vec::new();
        begin_frame(&mut frame);
        for id in 0..3 {
            record::write_change(&mut frame, SALT, &Change::Retire { id: Incarnation(id) });
        }
        finish_frame(&mut frame, SALT, PLACE, 3);
        frame
    }

    fn records(frame: Vec<u8>, segment: u32, offset: u32) -> Option<usize> {
        let header = FrameHeader::decode(&frame, SALT, segment, offset)?;
        frame_records(&frame.into(), header, SALT).map(|records| records.len())
    }

    #[test]
    fn a_frame_counts_only_where_it_stands() {
        assert_eq!(records(frame(), 3, 64), Some(3));
        assert_eq!(records(frame(), 3, 72), None);
        assert_eq!(records(frame(), 4, 64), None);
    }

    #[test]
    fn a_torn_frame_is_no_frame() {
        let whole = frame();
        for cut in 0..whole.len() {
            let mut torn = whole.clone();
            torn[cut] ^= 0xff;
            // Padding carries nothing, so its bytes may be anything.
            let padding = cut >= FRAME_HEADER_BYTES + 3 * record::HEADER_BYTES;
            assert_eq!(records(torn, 3, 64).is_some(), padding, "byte {cut}");
        }
    }

    #[test]
    fn segment_heads_round_trip() {
        let header = SegmentHeader { number: 9, previous_end: 1234 };
        assert_eq!(SegmentHeader::decode(&header.encode(SALT), SALT), Some(header));
        assert_eq!(SegmentHeader::decode(&header.encode(SALT), Salt(8)), None);
    }
}
