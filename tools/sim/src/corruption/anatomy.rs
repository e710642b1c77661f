//! What each byte of a file is for. It is told from the formats alone, as they are drawn in the
//! log's own modules, so that the log's idea of its files is not asked.

use std::ops::Range;

/// What a byte is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// What a file begins with: its kind, version and number.
    Head,
    FrameHead,
    /// Of a record, or of an entry of a checkpoint: its length and checksum.
    RecordHead,
    /// What a record or an entry says; of the format file, the salt.
    Payload,
    /// A record of a pack that describes a stream.
    Stream,
    Trailer,
    /// What says nothing: padding, and what an earlier life of the file left behind.
    Rest,
    /// No byte, but the whole file.
    File,
}

/// Where the first frame of a segment stands, and the first record of a pack.
const FILE_HEAD: usize = 64;
const FRAME_HEAD: usize = 32;
const RECORD_HEAD: usize = 20;
const KIND_AT: usize = 8;
/// The kind of a record that describes a stream.
const STREAM_KIND: u8 = 8;
const CHECKPOINT_HEAD: usize = 20;
const ENTRY_HEAD: usize = 8;
const PACK_TRAILER: usize = 20;

/// The parts of a file, from front to back.
pub(super) type Parts = Vec<(Class, Range<usize>)>;

/// Of a format file: its three lines.
pub(super) fn of_format(bytes: &[u8]) -> Parts {
    let mut parts = Parts::new();
    let mut from = 0;
    for class in [Class::Head, Class::Payload, Class::Trailer] {
        let line = bytes[from..].iter().position(|byte| *byte == b'\n');
        let end = line.map_or(bytes.len(), |at| from + at + 1);
        parts.push((class, from..end));
        from = end;
    }
    parts
}

pub(super) fn of_checkpoint(bytes: &[u8]) -> Parts {
    let mut parts = vec![(Class::Head, 0..CHECKPOINT_HEAD.min(bytes.len()))];
    let mut at = CHECKPOINT_HEAD;
    while let Some(length) = number(bytes, at) {
        let body = at + ENTRY_HEAD;
        if length == 0 {
            parts.push((Class::Trailer, at..bytes.len()));
            break;
        }
        parts.push((Class::RecordHead, at..body.min(bytes.len())));
        at = body + length;
        parts.push((Class::Payload, body.min(bytes.len())..at.min(bytes.len())));
    }
    parts
}

pub(super) fn of_pack(bytes: &[u8]) -> Parts {
    let mut parts = vec![(Class::Head, 0..FILE_HEAD.min(bytes.len()))];
    let end = bytes.len().saturating_sub(PACK_TRAILER);
    let at = put_records(&mut parts, bytes, FILE_HEAD, end);
    parts.push((Class::Trailer, at.min(bytes.len())..bytes.len()));
    parts
}

pub(super) fn of_segment(bytes: &[u8]) -> Parts {
    let mut parts = vec![(Class::Head, 0..FILE_HEAD.min(bytes.len()))];
    let own = number(bytes, 8);
    let mut at = FILE_HEAD;
    while bytes.get(at..).is_some_and(|rest| rest.starts_with(b"HWfr")) {
        let is_own = number(bytes, at + 8) == own && number(bytes, at + 12) == Some(at);
        let Some(length) = number(bytes, at + 4).filter(|_| is_own) else { break };
        let end = (at + length.max(FRAME_HEAD)).min(bytes.len());
        parts.push((Class::FrameHead, at..(at + FRAME_HEAD).min(end)));
        let last = put_records(&mut parts, bytes, at + FRAME_HEAD, end);
        parts.push((Class::Rest, last.min(end)..end));
        at = end;
    }
    parts.push((Class::Rest, at.min(bytes.len())..bytes.len()));
    parts
}

/// Of a file that says nothing.
pub(super) fn of_other(bytes: &[u8]) -> Parts {
    vec![(Class::Rest, 0..bytes.len())]
}

/// The records from `at` up to `end`; where they end.
fn put_records(parts: &mut Parts, bytes: &[u8], mut at: usize, end: usize) -> usize {
    while let Some(length) = number(bytes, at)
        && length >= RECORD_HEAD
        && at + length <= end
    {
        let class = if bytes[at + KIND_AT] == STREAM_KIND { Class::Stream } else { Class::Payload };
        parts.push((Class::RecordHead, at..at + RECORD_HEAD));
        parts.push((class, at + RECORD_HEAD..at + length));
        at += length;
    }
    at
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(four) as usize)
}
