//! The write-ahead log: frames go to the end of the active segment, and are durable when
//! [`Wal::commit`] returns.

use std::{collections::VecDeque, io, sync::Arc};

use sys::File;

use super::{
    files::Files,
    place::{FileId, Place},
    record::Salt,
    segment::{SEGMENT_HEADER_BYTES, SegmentHeader},
};

/// A file that holds one segment after another.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) number: u32,
    pub(super) file: Arc<dyn File>,
}

/// A segment that is being written or read.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) slot: Slot,
    /// Where the next frame goes.
    pub(super) end: u32,
    /// Writes below this place cannot meet a full disk.
    pub(super) reserved: u64,
}

/// Why another segment could not be begun.
#[derive(Debug)]
pub(super) enum NoSegment {
    /// No file could be made: nothing has changed.
    NoFile(io::Error),
    /// The head may be half written: nothing may be written after it.
    BadFile(io::Error),
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To store something: it leaves the reserve alone.
    Store,
    /// To let something go, or to make room: it may use the reserve.
    Free,
}

/// Spares that only those may take who make room.
const RESERVED_SLOTS: usize = 1;
/// The end of each segment is kept for records that let something go: at most so many bytes, and at
/// most this part of the segment.
const RESERVED_BYTES_MAX: u32 = 64 * 1024;
const RESERVED_SHARE: u32 = 16;

/// The segments, oldest first, and the files that wait for their next.
#[derive(Debug)]
pub(super) struct Wal {
    files: Arc<Files>,
    salt: Salt,
    segment_bytes: u32,
    active: Segment,
    sealed: VecDeque<Segment>,
    spare: Vec<Slot>,
    next_slot: u32,
    /// What room there is is for regrouping: nothing more is stored in another segment.
    pub(super) reserve_is_lent: bool,
}

impl Wal {
    pub(super) fn new(
        files: Arc<Files>,
        salt: Salt,
        segment_bytes: u32,
        mut segments: VecDeque<Segment>,
        spare: Vec<Slot>,
    ) -> Option<Self> {
        let active = segments.pop_back()?;
        let slots = segments.iter().map(|segment| segment.slot.number);
        let all = slots.chain(spare.iter().map(|slot| slot.number)).chain([active.slot.number]);
        let next_slot = all.max().map_or(0, |last| last + 1);
        let sealed = segments;
        let reserve_is_lent = false;
        Some(Self { files, salt, segment_bytes, active, sealed, spare, next_slot, reserve_is_lent })
    }

    /// Where the next frame of this many bytes goes; another segment is begun if it must be.
    ///
    /// # Errors
    /// If there is no other segment to be had.
    pub(super) fn make_room(&mut self, bytes: usize, purpose: Purpose) -> Result<Place, NoSegment> {
        let kept = match purpose {
            Purpose::Store => (self.segment_bytes / RESERVED_SHARE).min(RESERVED_BYTES_MAX),
            Purpose::Free => 0,
        };
        let fresh = self.active.end as usize == SEGMENT_HEADER_BYTES;
        let fits = self.active.end as usize + bytes <= (self.segment_bytes - kept) as usize;
        if !fits && !fresh {
            self.roll(purpose)?;
        }
        self.reserve(bytes).map_err(NoSegment::NoFile)?;
        Ok(self.place())
    }

    /// Sees to it that so many bytes can be written at the end of the active segment: its file may
    /// be shorter than a segment, and a frame larger.
    pub(super) fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        let needed = u64::from(self.active.end) + bytes as u64;
        if needed > self.active.reserved {
            self.active.slot.file.allocate(needed)?;
            self.active.reserved = needed;
        }
        Ok(())
    }

    fn place(&self) -> Place {
        Place { file: FileId::Segment(self.active.number), offset: self.active.end }
    }

    /// Writes a frame at its place and makes it durable.
    ///
    /// # Errors
    /// The frame may or may not be durable then: nothing may be written after it.
    pub(super) fn commit(&mut self, frame: &[u8]) -> io::Result<()> {
        let file = &self.active.slot.file;
        file.write_all_at(frame, u64::from(self.active.end))?;
        file.sync()?;
        self.active.end += u32::try_from(frame.len()).expect("a frame is bounded");
        Ok(())
    }

    /// Begins another segment. Its head becomes durable with its first frame.
    pub(super) fn roll(&mut self, purpose: Purpose) -> Result<(), NoSegment> {
        let slot = self.take_slot(purpose).map_err(NoSegment::NoFile)?;
        if !self.active_has_frames() {
            // No frame has made its head durable yet, and the next segment relies on it.
            self.active.slot.file.sync().map_err(NoSegment::BadFile)?;
        }
        let number = self.active.number + 1;
        let header = SegmentHeader { number, previous_end: self.active.end };
        slot.file.write_all_at(&header.encode(self.salt), 0).map_err(NoSegment::BadFile)?;
        self.files.set_segment(number, slot.file.clone());
        let reserved = slot.file.len().map_err(NoSegment::BadFile)?;
        let next = Segment { number, slot, end: SEGMENT_HEADER_BYTES as u32, reserved };
        let full = std::mem::replace(&mut self.active, next);
        self.sealed.push_back(full);
        Ok(())
    }

    /// A file for the next segment. Who stores something leaves a spare behind: without one, a full
    /// disk could not even be told what to delete.
    fn take_slot(&mut self, purpose: Purpose) -> io::Result<Slot> {
        let kept = match purpose {
            Purpose::Store if self.reserve_is_lent => {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Purpose::Store => RESERVED_SLOTS,
            Purpose::Free => 0,
        };
        while self.spare.len() < kept {
            let slot = self.make_slot()?;
            self.spare.push(slot);
        }
        match self.spare.len() > kept {
            true => Ok(self.spare.pop().expect("there are more than none")),
            false => self.make_slot(),
        }
    }

    /// True if the active segment holds frames.
    pub(super) fn active_has_frames(&self) -> bool {
        self.active.end as usize > SEGMENT_HEADER_BYTES
    }

    pub(super) fn active_number(&self) -> u32 {
        self.active.number
    }

    pub(super) fn active_bytes(&self) -> u32 {
        self.active.end
    }

    pub(super) fn sealed(&self) -> usize {
        self.sealed.len()
    }

    pub(super) fn spares(&self) -> usize {
        self.spare.len()
    }

    /// Lets go of segments up to `through`, whose records stand elsewhere by now.
    pub(super) fn release(&mut self, through: u32) -> Vec<Slot> {
        let mut freed = Vec::new();
        while let Some(oldest) = self.sealed.front()
            && oldest.number <= through
        {
            self.files.forget_segment(oldest.number);
            freed.extend(self.sealed.pop_front().map(|segment| segment.slot));
        }
        freed
    }

    pub(super) fn take_spares(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.spare)
    }

    pub(super) fn add_spare(&mut self, slot: Slot) {
        self.spare.push(slot);
    }

    /// A number for a slot that is made elsewhere.
    pub(super) fn reserve_slot(&mut self) -> u32 {
        self.next_slot += 1;
        self.next_slot - 1
    }

    fn make_slot(&mut self) -> io::Result<Slot> {
        let number = self.reserve_slot();
        make_slot(&self.files, number, self.segment_bytes, Fill::Reserve)
    }
}

/// How the space of a new slot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Reserved only: quick, but each first write of a page costs the file system a change.
    Reserve,
    /// Written with zeros: later commits change no metadata and are cheaper.
    Zeros,
}

/// Makes a file for segments, its name durable.
pub(super) fn make_slot(
    files: &Files,
    number: u32,
    segment_bytes: u32,
    fill: Fill,
) -> io::Result<Slot> {
    let path = files.layout.slot(number);
    let file = files.disk.create(&path)?;
    let made = reserve(file.as_ref(), segment_bytes, fill)
        .and_then(|()| files.disk.sync_dir(&files.layout.wal()));
    match made {
        Ok(()) => Ok(Slot { number, file }),
        Err(error) => {
            // What stays behind is too short to be used, and recovery removes it.
            let _ = files.disk.remove(&path);
            Err(error)
        }
    }
}

fn reserve(file: &dyn File, segment_bytes: u32, fill: Fill) -> io::Result<()> {
    file.allocate(u64::from(segment_bytes))?;
    if fill == Fill::Zeros {
        write_zeros(file, 0..u64::from(segment_bytes))?;
    }
    file.sync()
}

/// Overwrites part of a file.
pub(super) fn write_zeros(file: &dyn File, range: std::ops::Range<u64>) -> io::Result<()> {
    let zeros = vec![0; 1024 * 1024];
    let mut at = range.start;
    while at < range.end {
        let step = (range.end - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..step as usize], at)?;
        at += step;
    }
    Ok(())
}
