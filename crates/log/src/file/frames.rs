//! Finding segments in the files of a write-ahead log, and the frames in a segment.

use std::{io, path::Path};

use bytes::Bytes;
use sys::File;

use super::{
    files::{Files, number_in},
    open_error::OpenError,
    record::{Record, Salt},
    recovery::at,
    scan::Scan,
    segment::{self, FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, SegmentHeader},
    wal::Slot,
};

/// Segments in order, and the files that hold them.
pub(super) type Segments = Vec<(SegmentHeader, Slot)>;

/// The files of a write-ahead log.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) segments: Segments,
    /// Files that hold none.
    pub(super) spare: Vec<Slot>,
    /// Files that do not say what they hold.
    pub(super) headless: Vec<Slot>,
}

/// Looks for the segments after `through`.
pub(super) fn survey(files: &Files, salt: Salt, through: u32) -> Result<Survey, OpenError> {
    let dir = files.layout.wal();
    let names = files.disk.list(&dir).map_err(at(&dir))?;
    let mut survey = Survey::default();
    for number in names.iter().filter_map(|name| number_in(name, "slot-", "")) {
        let path = files.layout.slot(number);
        let file = files.disk.open(&path).map_err(at(&path))?;
        let slot = Slot { number, file };
        match read_header(slot.file.as_ref(), salt).map_err(at(&path))? {
            Some(header) if header.number > through => survey.segments.push((header, slot)),
            Some(_) => survey.spare.push(slot),
            None => survey.headless.push(slot),
        }
    }
    survey.segments.sort_by_key(|(header, _)| header.number);
    Ok(survey)
}

/// The records of a frame: where each stands in it, its length, and what it says.
pub(super) type FrameRecords = Vec<(u32, u32, Record)>;

type Frame = (u32, Bytes, FrameRecords);

/// Hands on the frames of a segment up to the first that is not whole; where that is.
pub(super) fn each_frame(
    slot: &Slot,
    path: &Path,
    number: u32,
    salt: Salt,
    mut take: impl FnMut(u32, Bytes, FrameRecords) -> Result<(), OpenError>,
) -> Result<u32, OpenError> {
    let mut scan = Scan::new(slot.file.clone(), SEGMENT_HEADER_BYTES as u64).map_err(at(path))?;
    while let Some((offset, frame, records)) =
        next_frame(&mut scan, number, salt).map_err(at(path))?
    {
        take(offset, frame, records)?;
    }
    Ok(u32::try_from(scan.at()).expect("segments are bounded"))
}

/// The frame that begins here, if it is whole, and moves past it.
fn next_frame(scan: &mut Scan, segment: u32, salt: Salt) -> io::Result<Option<Frame>> {
    let Ok(offset) = u32::try_from(scan.at()) else { return Ok(None) };
    let Some(bytes) = scan.peek(FRAME_HEADER_BYTES)? else { return Ok(None) };
    let Some(header) = FrameHeader::decode(&bytes, salt, segment, offset) else {
        return Ok(None);
    };
    let Some(frame) = scan.peek(header.length as usize)? else { return Ok(None) };
    let Some(records) = segment::frame_records(&frame, header, salt) else { return Ok(None) };
    scan.skip(frame.len());
    Ok(Some((offset, frame, records)))
}

fn read_header(file: &dyn File, salt: Salt) -> io::Result<Option<SegmentHeader>> {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(SegmentHeader::decode(&bytes, salt)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}
