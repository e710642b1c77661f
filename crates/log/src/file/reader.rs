//! Reading messages back: from the newest frames in memory, or from the disk in few large reads.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use wire::{Messages, Offset};

use super::{
    files::Files,
    hot::Hot,
    place::{Extent, Place},
    record::{self, Record, Salt},
    stream::{Parent, Stream},
};
use crate::{
    OffsetUnknown, ReadError, Unavailable,
    reading::{Appetite, Collector},
};

/// Records this close in a file are read in one go, with what stands between them.
const GAP_BYTES_MAX: u64 = 16 * 1024;
/// And not more than this at once.
const SPAN_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// A record may be moved while it is read; then it is looked up again.
const ATTEMPTS_MAX: usize = 8;

/// All that reading needs.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) files: Arc<Files>,
    pub(super) hot: Arc<Hot>,
    pub(super) salt: Salt,
}

/// What a read found without the disk.
pub(super) enum Warm {
    Whole(Result<(Vec<Messages>, Offset), ReadError>),
    NeedsDisk,
}

/// Part of a read: the extents of one stream of a lineage.
struct Part {
    stream: Arc<Stream>,
    extents: Vec<Extent>,
    end: Offset,
}

/// Why a record could not be read.
enum Missed {
    /// It stands elsewhere by now, or its bytes are damaged.
    Moved,
    Io(io::Error),
}

impl Reader {
    /// Reads what is in memory, without waiting for the disk.
    pub(super) fn read_warm(
        &self,
        stream: &Arc<Stream>,
        start: Offset,
        tail: Offset,
        bytes_max: usize,
    ) -> Warm {
        let mut collector = Collector::new(start, bytes_max);
        for part in parts(stream, start, tail, bytes_max) {
            for extent in &part.extents {
                let Some(bytes) = self.hot.get(extent.place, extent.length) else {
                    return Warm::NeedsDisk;
                };
                match take(&mut collector, &part, extent, record::decode(&bytes)) {
                    Ok(Appetite::More) => {}
                    Ok(Appetite::Full) => return Warm::Whole(finish(collector, tail)),
                    Err(Failed::Moved) => return Warm::NeedsDisk,
                    Err(Failed::Unknown(fact)) => return Warm::Whole(Err(fact.into())),
                }
            }
            if collector.next() < part.end {
                break;
            }
        }
        Warm::Whole(finish(collector, tail))
    }

    /// Reads from memory and disk.
    pub(super) fn read_cold(
        &self,
        stream: &Arc<Stream>,
        start: Offset,
        tail: Offset,
        bytes_max: usize,
    ) -> Result<(Vec<Messages>, Offset), ReadError> {
        let mut failure = None;
        for _ in 0..ATTEMPTS_MAX {
            stream.check_kept(start)?;
            match self.try_read(stream, start, tail, bytes_max) {
                Ok(found) => return found,
                Err(missed) => failure = Some(missed),
            }
        }
        let why = match failure {
            Some(Missed::Io(error)) => error.to_string(),
            _ => format!("a record of {} is damaged; run headwater doctor", stream.address),
        };
        Err(Unavailable::Read(why).into())
    }

    /// The messages of one extent.
    pub(super) fn messages(&self, stream: &Stream, extent: &Extent) -> io::Result<Messages> {
        let bytes = match self.hot.get(extent.place, extent.length) {
            Some(bytes) => bytes,
            None => self.read_span(extent.place, u64::from(extent.length))?,
        };
        match record::read(&bytes, self.salt) {
            Some(record) if record.id() == stream.id => match record.messages() {
                Some((start, messages)) if start == extent.start => Ok(messages.clone()),
                _ => Err(io::ErrorKind::InvalidData.into()),
            },
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn try_read(
        &self,
        stream: &Arc<Stream>,
        start: Offset,
        tail: Offset,
        bytes_max: usize,
    ) -> Result<Result<(Vec<Messages>, Offset), ReadError>, Missed> {
        let mut collector = Collector::new(start, bytes_max);
        for part in parts(stream, start, tail, bytes_max) {
            for span in spans(&part.extents) {
                let bytes = self.span_bytes(span)?;
                for extent in span {
                    let at = (extent.place.offset - span[0].place.offset) as usize;
                    let record = bytes.slice(at..at + extent.length as usize);
                    let record = record::read(&record, self.salt);
                    match take(&mut collector, &part, extent, record) {
                        Ok(Appetite::More) => {}
                        Ok(Appetite::Full) => return Ok(finish(collector, tail)),
                        Err(Failed::Moved) => return Err(Missed::Moved),
                        Err(Failed::Unknown(fact)) => return Ok(Err(fact.into())),
                    }
                }
            }
            if collector.next() < part.end {
                break;
            }
        }
        Ok(finish(collector, tail))
    }

    fn span_bytes(&self, span: &[Extent]) -> Result<Bytes, Missed> {
        let (first, last) = (span[0], span[span.len() - 1]);
        if let ([only], Some(bytes)) = (span, self.hot.get(first.place, first.length)) {
            debug_assert_eq!(only.length as usize, bytes.len());
            return Ok(bytes);
        }
        let length = last.place.end(last.length) - u64::from(first.place.offset);
        self.read_span(first.place, length).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => Missed::Moved,
            _ => Missed::Io(error),
        })
    }

    fn read_span(&self, place: Place, length: u64) -> io::Result<Bytes> {
        let file = self.files.get(place.file)?;
        let length = usize::try_from(length).expect("a span is bounded");
        let mut bytes = BytesMut::zeroed(room(length));
        bytes.truncate(length);
        file.read_exact_at(&mut bytes, u64::from(place.offset))?;
        Ok(bytes.freeze())
    }
}

enum Failed {
    Moved,
    Unknown(OffsetUnknown),
}

fn take(
    collector: &mut Collector,
    part: &Part,
    extent: &Extent,
    record: Option<Record>,
) -> Result<Appetite, Failed> {
    let record = record.filter(|record| record.id() == part.stream.id).ok_or(Failed::Moved)?;
    match record.messages() {
        // Extents before the reader's place may be gone by now.
        Some((start, _)) if start > collector.next() => Err(Failed::Moved),
        Some((start, messages)) if start == extent.start => {
            collector.take(start, messages, part.end).map_err(Failed::Unknown)
        }
        _ => Err(Failed::Moved),
    }
}

/// Room for so many bytes. Allocators keep blocks of a few megabytes when they are freed, for each
/// thread; larger ones come from the system and go back to it, and what is not touched of them is
/// not there.
fn room(length: usize) -> usize {
    const LARGE_BYTES_MIN: usize = 2 * 1024 * 1024;
    const OWN_BYTES_MIN: usize = 33 * 1024 * 1024;
    if length < LARGE_BYTES_MIN { length } else { length.max(OWN_BYTES_MIN) }
}

fn finish(collector: Collector, tail: Offset) -> Result<(Vec<Messages>, Offset), ReadError> {
    Ok(collector.finish(tail)?)
}

/// The extents that a read from `start` may need, oldest ancestor first.
fn parts(stream: &Arc<Stream>, start: Offset, tail: Offset, bytes_max: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let byte_limit = start.byte.get().saturating_add(bytes_max as u64);
    let (mut stream, mut end) = (stream.clone(), tail);
    loop {
        let parent = stream.origin.clone();
        let own_start = parent.as_ref().map_or(Offset::START, |parent| parent.end).min(end);
        if end > start && own_start.byte.get() <= byte_limit {
            let extents = stream.extents_between(start.max(own_start), end, byte_limit);
            parts.push(Part { stream, extents, end });
        }
        match parent {
            Some(Parent { stream: parent, .. }) if own_start > start => {
                (stream, end) = (parent, own_start);
            }
            _ => break,
        }
    }
    parts.reverse();
    parts
}

/// Neighbours on the disk, to be read together.
fn spans(extents: &[Extent]) -> impl Iterator<Item = &[Extent]> {
    let mut rest = extents;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut count = 1;
        while let Some(next) = rest.get(count)
            && together(first, &rest[count - 1], next)
        {
            count += 1;
        }
        let (span, left) = rest.split_at(count);
        rest = left;
        Some(span)
    })
}

fn together(first: &Extent, last: &Extent, next: &Extent) -> bool {
    let same_file = next.place.file == last.place.file;
    let last_end = last.place.end(last.length);
    let forward = u64::from(next.place.offset) >= last_end;
    let near = same_file && forward && u64::from(next.place.offset) - last_end <= GAP_BYTES_MAX;
    near && next.place.end(next.length) - u64::from(first.place.offset) <= SPAN_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::{super::place::FileId, *};

    fn extent(file: FileId, offset: u32, length: u32) -> Extent {
        Extent { start: Offset::START, place: Place { file, offset }, length }
    }

    #[test]
    fn neighbours_are_read_together() {
        let (a, b) = (FileId::Segment(1), FileId::Segment(2));
        let extents = [
            extent(a, 64, 100),
            extent(a, 200, 100),
            extent(a, 100_000, 100),
            extent(b, 100_100, 100),
            extent(b, 64, 100),
        ];
        let lengths: Vec<usize> = spans(&extents).map(<[Extent]>::len).collect();
        assert_eq!(lengths, [2, 1, 1, 1]);
    }
}
