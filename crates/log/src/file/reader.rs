//! Reading messages back: from the newest frames in memory, or from the disk in few large reads.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use sys::disk::is_unreadable;
use wire::{Messages, Offset};

use super::{
    files::Files,
    hot::Hot,
    place::{Extent, Place},
    record::{self, Record, Salt},
    scan::read_lossy,
    stream::{Parent, Stream},
};
use crate::{
    MessagesDamaged, OffsetUnknown, ReadError, Unavailable,
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

/// What a read came to.
enum Outcome {
    Done(Result<(Vec<Messages>, Offset), ReadError>),
    /// The first message cannot be read.
    Missed(Missed),
}

/// Why a record could not be read.
enum Missed {
    /// It stands elsewhere by now, or its bytes are damaged, or the disk fails to read them.
    Moved(MessagesDamaged),
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
        match collector.has_taken() || collector.next().position >= tail.position {
            true => Warm::Whole(finish(collector, tail)),
            // There are messages, but no extent that says where.
            false => Warm::NeedsDisk,
        }
    }

    /// Reads from memory and disk.
    pub(super) fn read_cold(
        &self,
        stream: &Arc<Stream>,
        start: Offset,
        tail: Offset,
        bytes_max: usize,
    ) -> Result<(Vec<Messages>, Offset), ReadError> {
        let mut attempts = ATTEMPTS_MAX;
        loop {
            stream.check_kept(start)?;
            attempts -= 1;
            match self.try_read(stream, start, tail, bytes_max) {
                Outcome::Done(found) => return found,
                Outcome::Missed(_) if attempts > 0 => {}
                Outcome::Missed(Missed::Io(error)) => {
                    return Err(Unavailable::Read(error.to_string()).into());
                }
                Outcome::Missed(Missed::Moved(lost)) => {
                    return Err(Unavailable::Damaged(lost).into());
                }
            }
        }
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

    /// What is left of the bytes of a record, with zeros for those past the end of its file, and
    /// for those that the disk fails to read.
    pub(super) fn bytes_left(&self, extent: &Extent) -> io::Result<Bytes> {
        let file = self.files.get(extent.place.file)?;
        let mut bytes = BytesMut::zeroed(extent.length as usize);
        let offset = u64::from(extent.place.offset);
        let left = file.len()?.saturating_sub(offset).min(bytes.len() as u64);
        let left = usize::try_from(left).expect("a record is bounded");
        read_lossy(file.as_ref(), &mut bytes[..left], offset)?;
        Ok(bytes.freeze())
    }

    /// Reads up to the first record that cannot be read.
    fn try_read(
        &self,
        stream: &Arc<Stream>,
        start: Offset,
        tail: Offset,
        bytes_max: usize,
    ) -> Outcome {
        let mut collector = Collector::new(start, bytes_max);
        for part in parts(stream, start, tail, bytes_max) {
            for span in spans(&part.extents) {
                let whole = self.span_bytes(span);
                for extent in span {
                    let record = match &whole {
                        Ok(bytes) => Ok(within(bytes, span[0].place, extent)),
                        // Of a file that was cut, the records before the cut can be read.
                        Err(_) => self.read_span(extent.place, u64::from(extent.length)),
                    };
                    let taken = match record {
                        Ok(bytes) => {
                            take(&mut collector, &part, extent, record::read(&bytes, self.salt))
                        }
                        Err(_) if collector.has_taken() => return done(collector, tail),
                        Err(error) => return Outcome::Missed(missed(error, &part, &collector)),
                    };
                    match taken {
                        Ok(Appetite::More) => {}
                        Ok(Appetite::Full) => return done(collector, tail),
                        Err(Failed::Moved) if collector.has_taken() => {
                            return done(collector, tail);
                        }
                        Err(Failed::Moved) => {
                            return Outcome::Missed(Missed::Moved(lost(&part, &collector)));
                        }
                        Err(Failed::Unknown(fact)) => return Outcome::Done(Err(fact.into())),
                    }
                }
            }
            if collector.next() < part.end {
                if !collector.has_taken() && collector.next().position < part.end.position {
                    return self.explain(&part, collector);
                }
                break;
            }
        }
        done(collector, tail)
    }

    /// Why a read found no extent to begin with: its offset is none of the stream's, or there are
    /// no messages where there should be some.
    fn explain(&self, part: &Part, mut collector: Collector) -> Outcome {
        let from = collector.next();
        let extents = part.stream.extents_between(from, part.end, u64::MAX);
        let record = extents.first().map(|extent| {
            let bytes = self.read_span(extent.place, u64::from(extent.length))?;
            Ok(take(&mut collector, part, extent, record::read(&bytes, self.salt)))
        });
        let record = match record.transpose() {
            Ok(record) => record,
            Err(error) => return Outcome::Missed(missed(error, part, &collector)),
        };
        match record {
            Some(Ok(_)) => Outcome::Done(Err(OffsetUnknown(from).into())),
            Some(Err(Failed::Unknown(fact))) => Outcome::Done(Err(fact.into())),
            Some(Err(Failed::Moved)) | None => {
                Outcome::Missed(Missed::Moved(lost(part, &collector)))
            }
        }
    }

    fn span_bytes(&self, span: &[Extent]) -> io::Result<Bytes> {
        let (first, last) = (span[0], span[span.len() - 1]);
        if let ([only], Some(bytes)) = (span, self.hot.get(first.place, first.length)) {
            debug_assert_eq!(only.length as usize, bytes.len());
            return Ok(bytes);
        }
        let length = last.place.end(last.length) - u64::from(first.place.offset);
        self.read_span(first.place, length)
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
    let Some((start, messages)) = record.messages().filter(|found| found.0 == extent.start) else {
        return Err(Failed::Moved);
    };
    let next = collector.next();
    let end = start.after(messages.len() as u64, messages.data().len() as u64);
    // Extents before the reader's place may be gone by now, and those that follow may be missing.
    if start.position > next.position || end.position < next.position || end == next {
        return Err(Failed::Moved);
    }
    if start > next {
        return Err(Failed::Unknown(OffsetUnknown(next)));
    }
    collector.take(start, messages, part.end).map_err(Failed::Unknown)
}

/// The bytes of a record within those of its span.
fn within(span: &Bytes, start: Place, extent: &Extent) -> Bytes {
    let at = (extent.place.offset - start.offset) as usize;
    span.slice(at..at + extent.length as usize)
}

fn done(collector: Collector, tail: Offset) -> Outcome {
    Outcome::Done(finish(collector, tail))
}

/// What a failed read means. A bad sector is damage: the disk has tried again and again by itself,
/// and so have we, so that a reader is better told where it can go on than to come back for ever.
/// Whatever else fails, such as a process with too many open files, says nothing about the bytes.
fn missed(error: io::Error, part: &Part, collector: &Collector) -> Missed {
    match error.kind() {
        _ if is_unreadable(&error) => Missed::Moved(lost(part, collector)),
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => {
            Missed::Moved(lost(part, collector))
        }
        _ => Missed::Io(error),
    }
}

/// The messages from where a reader stands up to the next record.
fn lost(part: &Part, collector: &Collector) -> MessagesDamaged {
    let from = collector.next();
    let until = part.stream.extent_after(from).unwrap_or(part.end).min(part.end);
    MessagesDamaged { stream: part.stream.address.to_string(), from, until }
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

/// Where a record begins from which there are `bytes_max` bytes or more to `end`; a later one where
/// so many small records lie between that one read could not take them all.
pub(super) fn back_from(stream: &Arc<Stream>, end: Offset, bytes_max: usize) -> Offset {
    let byte = end.byte.get().saturating_sub(bytes_max.max(1) as u64);
    let (mut stream, mut end) = (stream.clone(), end);
    loop {
        let parent = stream.origin.clone();
        let own_start = parent.as_ref().map_or(Offset::START, |parent| parent.end).min(end);
        let found = stream.extent_back_from(byte, end);
        match (parent, found) {
            // What was found holds the byte, or comes as close to it as one read may.
            (_, Some(found)) if found.start.byte.get() <= byte || found.is_limit => {
                return found.start.max(own_start);
            }
            (Some(Parent { stream: parent, .. }), _) => (stream, end) = (parent, own_start),
            (None, found) => return found.map_or(own_start, |found| found.start),
        }
    }
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
