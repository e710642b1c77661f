//! Opening a data directory: making a new one, or bringing back exactly what was acknowledged.
//!
//! Recovery loads the newest checkpoint and applies the frames after it. The frames must follow
//! each other without a gap: the first that is not whole is the torn end of the log if nothing
//! valid was written after it, and damage if something was. A torn end was never acknowledged and
//! is overwritten; damage is refused, and left for `headwater doctor` to explain. A pack that is
//! damaged or gone refuses only the reads of its messages. Nothing is removed unless what stays is
//! known to hold all of it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use sys::{
    Disk, Sys,
    disk::{Lock, is_unreadable},
};

use super::{
    checkpoint::{self, Checkpoint, Newest, Owes},
    files::{Files, Layout, checkpoint_number},
    format,
    frames::{self, Segments, Survey, each_frame},
    open_error::OpenError,
    pack::{PackUse, Packs},
    place::{Extent, FileId, Place},
    record::{Record, Salt},
    records::Records,
    regroup::SPARES_MAX,
    segment::{
        self, FRAME_ALIGNMENT, FRAME_HEADER_BYTES, FrameHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
    },
    settings::Settings,
    state::{Registry, State},
    wal::{self, Fill, Segment, Slot, Wal},
    wishes::Job,
};
use crate::{Incarnation, table::Change};

/// Read at a time when looking for frames; a multiple of their alignment.
const SEARCH_BYTES: usize = 1024 * 1024;

/// Missing segments that files without a head are searched for.
const HEADLESS_MAX: usize = 64;

/// What is wrong with a file whose segment another file holds, too.
pub(super) const DOUBLE: &str = "another file holds the same segment";
/// And with one that holds frames of a segment, and does not say of which.
pub(super) const HEADLESS: &str = "a segment has lost its head";

/// A log that was brought back.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) lock: Lock,
    pub(super) files: Arc<Files>,
    pub(super) salt: Salt,
    pub(super) state: State,
    pub(super) registry: Registry,
    pub(super) wal: Wal,
    pub(super) packs: BTreeMap<u32, PackUse>,
    pub(super) next_pack: u32,
    pub(super) next_checkpoint: u32,
    /// What the log had still to do.
    pub(super) unfinished: Option<Job>,
}

pub(super) fn open(sys: &Sys, dir: &Path, settings: &Settings) -> Result<Recovered, OpenError> {
    let layout = Layout::new(dir);
    let disk = sys.disk.clone();
    make_directories(disk.as_ref(), &layout).map_err(at(dir))?;
    let lock = lock(disk.as_ref(), &layout)?;
    let salt = read_or_write_format(sys, &layout)?;
    let files = Arc::new(Files::new(disk, layout));
    let mut recovery = Recovery::new(files.clone(), salt);
    let newest = recovery.load_checkpoint()?;
    let (segments, spare) = recovery.find_segments()?;
    let segments = recovery.replay(segments)?;
    recovery.check()?;
    let packs = recovery.survey_packs()?;
    recovery.settle(&segments)?;
    recovery.forget_other_checkpoints(newest.as_ref())?;
    packs.remove_superfluous(&files)?;
    let unfinished = recovery.unfinished;
    let spare = recovery.usable(settings, spare)?;
    let wal = recovery.into_wal(settings, segments, spare)?;
    Ok(Recovered {
        lock,
        files,
        salt,
        state: wal.1,
        registry: wal.2,
        wal: wal.0,
        next_pack: packs.next(),
        packs: packs.in_use,
        next_checkpoint: newest.map_or(0, |newest| newest.number + 1),
        unfinished,
    })
}

/// Keeps other processes out.
pub(super) fn lock(disk: &dyn Disk, layout: &Layout) -> Result<Lock, OpenError> {
    disk.lock(&layout.lock()).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked(layout.root().to_owned()),
        _ => at(&layout.lock())(error),
    })
}

/// How much of a pack that no checkpoint speaks of the log holds elsewhere.
enum Held {
    All,
    Part,
    /// All that can be read. What the disk fails to read it may read another time.
    Unknown,
}

/// A log on its way back.
pub(super) struct Recovery {
    pub(super) files: Arc<Files>,
    pub(super) salt: Salt,
    pub(super) state: State,
    registry: Registry,
    /// Segments up to this one are in packs.
    through: u32,
    /// Where the log ends, as [`Place::sequence`] counts.
    pub(super) end: u64,
    /// What the head of the first segment says of the one before.
    first_previous_end: u32,
    /// Ids up to this one are in the checkpoint, or gone.
    last_id: Option<Incarnation>,
    live: BTreeMap<u32, u64>,
    /// The last frame of the last segment: the only bytes that may not be durable.
    last_frame: Option<(u32, Bytes)>,
    /// What the log had still to do.
    pub(super) unfinished: Option<Job>,
}

impl Recovery {
    pub(super) fn new(files: Arc<Files>, salt: Salt) -> Self {
        Self {
            files,
            salt,
            state: State::default(),
            registry: Registry::default(),
            through: 0,
            end: 0,
            first_previous_end: 0,
            last_id: None,
            live: BTreeMap::new(),
            last_frame: None,
            unfinished: None,
        }
    }

    /// Loads the newest checkpoint; which it is, and how its copies are.
    pub(super) fn load_checkpoint(&mut self) -> Result<Option<Newest>, OpenError> {
        let Some(mut newest) = checkpoint::newest(&self.files, self.salt)? else {
            return Ok(None);
        };
        let checkpoint = newest.checkpoint.take().ok_or_else(|| OpenError::Damaged {
            path: self.files.layout.checkpoint(newest.number)[0].clone(),
            offset: 0,
            what: "no copy of the checkpoint is whole",
        })?;
        self.take_in(checkpoint);
        Ok(Some(newest))
    }

    /// Removes what a newer checkpoint has replaced, and what was never finished; makes the copies
    /// of the newest whole.
    fn forget_other_checkpoints(&self, newest: Option<&Newest>) -> Result<(), OpenError> {
        let dir = self.files.layout.checkpoints();
        // After a failed sync its name may be in memory only, and what it replaced is about to go.
        self.files.disk.sync_dir(&dir).map_err(at(&dir))?;
        for name in self.files.disk.list(&dir).map_err(at(&dir))? {
            let number = checkpoint_number(&name);
            if number.is_none() || number != newest.map(|newest| newest.number) {
                self.files.disk.remove(&dir.join(&name)).map_err(at(&dir))?;
            }
        }
        if let Some(newest) = newest
            && let Err(error) = checkpoint::complete(&self.files, newest)
        {
            // One copy is enough to go on, and the next checkpoint has two again.
            tracing::warn!(%error, "the second copy of the checkpoint could not be written");
        }
        Ok(())
    }

    fn take_in(&mut self, checkpoint: Checkpoint) {
        self.through = checkpoint.through;
        if checkpoint.owes == Owes::Erase {
            self.unfinished = Some(Job::Erase);
        }
        self.last_id = Some(checkpoint.last_id);
        for entry in checkpoint.entries {
            for extent in &entry.extents {
                if let FileId::Pack(pack) = extent.place.file {
                    *self.live.entry(pack).or_default() += u64::from(extent.length);
                }
            }
            self.state.table.insert(entry.id, entry.meta.clone());
            self.state.show(&self.registry, entry.id, &entry.meta, entry.extents);
        }
        self.state.table.skip_to(checkpoint.last_id);
    }

    /// The segments after the checkpoint.
    pub(super) fn survey(&self) -> Result<Survey, OpenError> {
        frames::survey(&self.files, self.salt, self.through)
    }

    /// The segments after the checkpoint, in order, and the files that hold none.
    pub(super) fn find_segments(&self) -> Result<(Segments, Vec<Slot>), OpenError> {
        let Survey { segments, mut spare, mut headless } = self.survey()?;
        if let Some((_, slot)) = self.find_headless(&segments, &headless)? {
            return Err(self.damaged(slot, 0, HEADLESS));
        }
        let has_first = segments.first().is_none_or(|(first, _)| first.number == 1);
        let mut pairs = segments.windows(2);
        let has_gap = |pair: &[(SegmentHeader, Slot)]| pair[0].0.number + 1 < pair[1].0.number;
        if self.last_id.is_none() && (!has_first || pairs.any(has_gap)) {
            return Err(self.no_checkpoint());
        }
        let mut pairs = segments.windows(2);
        if let Some(pair) = pairs.find(|pair| pair[0].0.number == pair[1].0.number) {
            return Err(self.damaged(self.lesser(&pair[0], &pair[1])?, 0, DOUBLE));
        }
        for (expected, (header, slot)) in (self.through + 1..).zip(&segments) {
            if header.number != expected {
                let what = "a segment before this one is missing";
                return Err(self.damaged(slot, 0, what));
            }
        }
        spare.append(&mut headless);
        Ok((segments, spare))
    }

    /// A file that holds frames of a segment that no head speaks of, and the segment's number.
    pub(super) fn find_headless<'a>(
        &self,
        segments: &Segments,
        headless: &'a [Slot],
    ) -> Result<Option<(u32, &'a Slot)>, OpenError> {
        let first = SEGMENT_HEADER_BYTES as u64;
        // A head becomes durable with the first frame, and a second one comes only after that.
        let second = first + FRAME_ALIGNMENT as u64;
        let newest = segments.last().map_or(self.through, |(header, _)| header.number);
        let known: BTreeSet<u32> = segments.iter().map(|(header, _)| header.number).collect();
        let before = (self.through + 1..newest).filter(|number| !known.contains(number));
        let before = before.rev().take(HEADLESS_MAX).map(|number| (number, first));
        for (number, from) in before.chain([(newest + 1, second)]) {
            for slot in headless {
                if self.find_frame(number, slot, from)? {
                    return Ok(Some((number, slot)));
                }
            }
        }
        Ok(None)
    }

    /// Of two files that hold the same segment, the one with fewer frames.
    fn lesser<'a>(
        &self,
        one: &'a (SegmentHeader, Slot),
        other: &'a (SegmentHeader, Slot),
    ) -> Result<&'a Slot, OpenError> {
        let end = |(header, slot): &(SegmentHeader, Slot)| {
            let path = self.files.layout.slot(slot.number);
            each_frame(slot, &path, header.number, self.salt, |_, _, _| Ok(()))
        };
        Ok(if end(one)? < end(other)? { &one.1 } else { &other.1 })
    }

    pub(super) fn replay(&mut self, segments: Segments) -> Result<VecDeque<Segment>, OpenError> {
        let mut replayed = VecDeque::new();
        self.end = Place { file: FileId::Segment(self.through + 1), offset: 0 }.sequence();
        self.first_previous_end = segments.first().map_or(0, |(header, _)| header.previous_end);
        let ends: Vec<Option<u32>> = segments
            .iter()
            .skip(1)
            .map(|(next, _)| Some(next.previous_end))
            .chain([None])
            .collect();
        for ((header, slot), known_end) in segments.into_iter().zip(ends) {
            let end = self.replay_segment(header.number, &slot)?;
            match known_end {
                Some(known) if known != end => {
                    return Err(self.damaged(
                        &slot,
                        end,
                        "a frame before the segment's end is torn",
                    ));
                }
                Some(_) => {}
                None => self.check_nothing_follows(header.number, &slot, end)?,
            }
            self.files.set_segment(header.number, slot.file.clone());
            let reserved = slot.file.len().map_err(at(&self.files.layout.wal()))?;
            self.end = Place { file: FileId::Segment(header.number), offset: end }.sequence();
            replayed.push_back(Segment { number: header.number, slot, end, reserved });
        }
        Ok(replayed)
    }

    /// Writes again what may be in memory only, after a kill or a failed sync, and makes it
    /// durable: what is shown must be on the disk. A failed sync can leave pages that pass for
    /// clean and are not there.
    fn settle(&self, segments: &VecDeque<Segment>) -> Result<(), OpenError> {
        let Some(last) = segments.back() else { return Ok(()) };
        let previous_end = segments.iter().rev().nth(1).map_or(self.first_previous_end, |s| s.end);
        let header = SegmentHeader { number: last.number, previous_end };
        let path = self.files.layout.slot(last.slot.number);
        let file = &last.slot.file;
        file.write_all_at(&header.encode(self.salt), 0).map_err(at(&path))?;
        if let Some((offset, frame)) = &self.last_frame {
            file.write_all_at(frame, u64::from(*offset)).map_err(at(&path))?;
        }
        file.sync().map_err(at(&path))
    }

    /// Applies the frames of a segment up to the first that is not whole; where that is.
    fn replay_segment(&mut self, number: u32, slot: &Slot) -> Result<u32, OpenError> {
        self.last_frame = None;
        let path = self.files.layout.slot(slot.number);
        each_frame(slot, &path, number, self.salt, |offset, frame, records| {
            self.last_frame = Some((offset, frame));
            for (record_at, length, record) in records {
                let place = Place { file: FileId::Segment(number), offset: offset + record_at };
                let Record::Change(change) = record else {
                    return Err(self.damaged(slot, place.offset, "a record is of a wrong kind"));
                };
                if !self.apply(&change, place, length) {
                    let what = "a record does not follow from those before it";
                    return Err(self.damaged(slot, place.offset, what));
                }
            }
            Ok(())
        })
    }

    /// Takes a change in; false if it cannot follow on what is known.
    fn apply(&mut self, change: &Change, place: Place, length: u32) -> bool {
        let id = change.id();
        match self.state.table.get(id) {
            Some(meta) if place.sequence() <= meta.applied => {
                // The checkpoint was taken after this change: only its messages are news.
                if let (Some((start, _)), Some(stream)) =
                    (change.messages(), self.state.streams.get(&id))
                {
                    stream.recovered(Extent { start, place, length });
                }
            }
            None if self.last_id.is_some_and(|last| id <= last) => {}
            known => {
                let fits = match (change, known) {
                    (Change::Create(new), None) => new
                        .origin
                        .as_ref()
                        .is_none_or(|origin| self.state.table.get(origin.parent).is_some()),
                    (Change::Append(new), Some(meta)) => meta.tail == new.start,
                    (Change::Drop { .. }, Some(meta)) => meta.forks == 0,
                    (Change::Create(_), Some(_)) | (_, None) => false,
                    (_, Some(_)) => true,
                };
                if !fits {
                    return false;
                }
                self.remember_unfinished(change);
                self.state.stage(change, place);
                self.state.publish(&self.registry, change, place, length);
            }
        }
        true
    }

    /// Deletions after the checkpoint have their bytes still to be given back.
    fn remember_unfinished(&mut self, change: &Change) {
        match change {
            Change::Drop { erase: true, .. } => self.unfinished = Some(Job::Erase),
            Change::Drop { .. } | Change::Retire { .. } | Change::Trim { .. } => {
                self.unfinished.get_or_insert(Job::Reclaim);
            }
            _ => {}
        }
    }

    /// A whole frame after the end means that the end is a hole.
    pub(super) fn check_nothing_follows(
        &self,
        number: u32,
        slot: &Slot,
        end: u32,
    ) -> Result<(), OpenError> {
        if self.find_frame(number, slot, u64::from(end) + FRAME_ALIGNMENT as u64)? {
            return Err(self.damaged(slot, end, "a frame is torn, and another follows it"));
        }
        Ok(())
    }

    /// True if a frame of the segment begins somewhere at or after `from`.
    fn find_frame(&self, number: u32, slot: &Slot, mut from: u64) -> Result<bool, OpenError> {
        let path = self.files.layout.slot(slot.number);
        let length = slot.file.len().map_err(at(&path))?;
        let mut window = vec![0; SEARCH_BYTES + FRAME_HEADER_BYTES];
        while from < length {
            let size = window.len().min(usize::try_from(length - from).unwrap_or(usize::MAX));
            slot.file.read_exact_at(&mut window[..size], from).map_err(at(&path))?;
            if self.holds_frame(&window[..size], number, from) {
                return Ok(true);
            }
            from += SEARCH_BYTES as u64;
        }
        Ok(false)
    }

    /// True if a frame of the segment begins in these bytes of its file.
    fn holds_frame(&self, bytes: &[u8], segment: u32, from: u64) -> bool {
        (0..bytes.len()).step_by(FRAME_ALIGNMENT).any(|at| {
            let bytes = &bytes[at..];
            let Ok(offset) = u32::try_from(from + at as u64) else { return false };
            segment::may_be_frame(bytes)
                && FrameHeader::decode(bytes, self.salt, segment, offset).is_some()
        })
    }

    /// Every stream's messages must reach from its beginning to its tail, and the log to the
    /// newest change that a checkpoint speaks of.
    pub(super) fn check(&mut self) -> Result<(), OpenError> {
        for (id, stream) in &self.state.streams {
            let meta = self.state.table.meta_mut(*id);
            if meta.applied >= self.end {
                return Err(OpenError::Damaged {
                    path: self.files.layout.wal(),
                    offset: 0,
                    what: "the end of the log is missing",
                });
            }
            meta.touched.allow_for_lost_reads(meta.expiry);
            if !stream.check_recovered(meta) {
                return Err(OpenError::Damaged {
                    path: self.files.layout.checkpoints(),
                    offset: 0,
                    what: "the messages of a stream do not follow each other",
                });
            }
        }
        Ok(())
    }

    /// Looks at the packs there are, and at those that the checkpoint speaks of.
    ///
    /// # Errors
    /// If a pack holds messages that are nowhere else, and no checkpoint speaks of it.
    pub(super) fn survey_packs(&self) -> Result<Packs, OpenError> {
        let mut packs = Packs::survey(&self.files, self.salt, &self.live)?;
        for number in &packs.missing {
            let path = self.files.layout.pack(*number);
            tracing::error!(path = %path.display(), "a pack is missing: its messages are refused");
        }
        for number in std::mem::take(&mut packs.superfluous) {
            match self.held_of(number)? {
                Held::All => packs.superfluous.push(number),
                Held::Unknown => packs.unread.push(number),
                Held::Part => return Err(self.no_checkpoint()),
            }
        }
        Ok(packs)
    }

    /// How much of a pack is in the log without it, or gone for good.
    fn held_of(&self, number: u32) -> Result<Held, OpenError> {
        let path = self.files.layout.pack(number);
        let mut records = match self.files.disk.open(&path) {
            Err(error) if is_unreadable(&error) => return Ok(Held::Unknown),
            file => Records::new(file.map_err(at(&path))?, self.salt).map_err(at(&path))?,
        };
        while let Some(found) = records.next().map_err(at(&path))? {
            let id = found.record.id();
            let Some((start, messages)) = found.record.messages() else { continue };
            let end = start.position.get() + messages.len() as u64;
            let is_held = match self.state.table.get(id) {
                Some(meta) => end <= meta.tail.position.get(),
                None => id <= self.state.table.last_id(),
            };
            if !is_held {
                return Ok(Held::Part);
            }
        }
        Ok(if records.is_whole() { Held::All } else { Held::Unknown })
    }

    fn no_checkpoint(&self) -> OpenError {
        OpenError::Damaged {
            path: self.files.layout.checkpoints(),
            offset: 0,
            what: "the checkpoint that packs and segments belong to is missing, or a segment is",
        }
    }

    /// Files that were never finished, or made for smaller segments, go; so do those too many.
    fn usable(&self, settings: &Settings, spare: Vec<Slot>) -> Result<Vec<Slot>, OpenError> {
        let mut usable = Vec::new();
        for slot in spare {
            let path = self.files.layout.slot(slot.number);
            let whole = slot.file.len().map_err(at(&path))? >= u64::from(settings.segment_bytes);
            if whole && usable.len() < SPARES_MAX {
                usable.push(slot);
            } else {
                self.files.disk.remove(&path).map_err(at(&path))?;
            }
        }
        Ok(usable)
    }

    fn into_wal(
        self,
        settings: &Settings,
        mut segments: VecDeque<Segment>,
        mut spare: Vec<Slot>,
    ) -> Result<(Wal, State, Registry), OpenError> {
        let dir = self.files.layout.wal();
        if segments.is_empty() {
            let slot = match spare.pop() {
                Some(slot) => slot,
                None => wal::make_slot(&self.files, 0, settings.segment_bytes, Fill::Zeros)
                    .map_err(at(&dir))?,
            };
            let number = self.through + 1;
            let header = SegmentHeader { number, previous_end: 0 }.encode(self.salt);
            slot.file.write_all_at(&header, 0).map_err(at(&dir))?;
            self.files.set_segment(number, slot.file.clone());
            let reserved = slot.file.len().map_err(at(&dir))?;
            let end = SEGMENT_HEADER_BYTES as u32;
            segments.push_back(Segment { number, slot, end, reserved });
        }
        let wal = Wal::new(self.files, self.salt, settings.segment_bytes, segments, spare);
        Ok((wal.expect("there is a segment"), self.state, self.registry))
    }

    fn damaged(&self, slot: &Slot, offset: u32, what: &'static str) -> OpenError {
        let path = self.files.layout.slot(slot.number);
        OpenError::Damaged { path, offset: u64::from(offset), what }
    }
}

/// Makes what is missing, and every name on the way to it durable.
fn make_directories(disk: &dyn Disk, layout: &Layout) -> io::Result<()> {
    for dir in [layout.wal(), layout.packs(), layout.checkpoints()] {
        disk.create_dir_all(&dir)?;
    }
    for dir in layout.root().ancestors() {
        let here = dir.as_os_str().is_empty();
        match disk.sync_dir(if here { Path::new(".") } else { dir }) {
            // A directory that we may not read is not one that we made.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            synced => synced?,
        }
    }
    Ok(())
}

/// The format file comes first: whatever else is there was written after it was durable.
fn read_or_write_format(sys: &Sys, layout: &Layout) -> Result<Salt, OpenError> {
    let [path, _] = layout.formats();
    let Some(format) = format::read(sys.disk.as_ref(), layout)? else {
        check_unused(sys.disk.as_ref(), layout)?;
        return format::make(sys, layout).map_err(at(&path));
    };
    if let Err(error) = format::complete(sys.disk.as_ref(), layout, format) {
        // One copy is enough to go on.
        tracing::warn!(%error, "the second copy of the format file could not be written");
    }
    Ok(format.salt)
}

/// A directory without a format file must hold nothing.
pub(super) fn check_unused(disk: &dyn Disk, layout: &Layout) -> Result<(), OpenError> {
    for dir in [layout.wal(), layout.packs(), layout.checkpoints()] {
        let names = match disk.list(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            names => names.map_err(at(&dir))?,
        };
        if !names.is_empty() {
            let [path, _] = layout.formats();
            return Err(OpenError::Damaged { path, offset: 0, what: format::MISSING });
        }
    }
    Ok(())
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    |source| OpenError::Io { path, source }
}
