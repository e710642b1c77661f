//! Making a checkpoint again, from packs and segments alone.
//!
//! Packs hold each stream, as the checkpoint of their time did, beside its messages; segments hold
//! every change since. What no record names any more, because an earlier version wrote its pack,
//! becomes a closed stream `lost+found/ID`. A stream without messages in any pack is known only if
//! a segment still speaks of it, and one that was deleted since its pack was written is back.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use sys::{File, UnixMs, disk::is_unreadable};
use wire::{Address, ContentType, Expiry, Offset, StreamPath};

use super::{
    at,
    lost_and_found::{CHECKPOINT_ENDING, free_path, keep_copy, set_aside},
};
use crate::{
    Incarnation,
    file::{
        checkpoint::{self, CheckpointWriter, Owes},
        files::{Files, number_in},
        frames::{Survey, each_frame},
        open_error::OpenError,
        pack::PackWriter,
        place::{Extent, FileId, Place},
        record::{self, Record, Salt},
        records::Records,
        recovery::Recovery,
        segment::SegmentHeader,
        wal::Slot,
    },
    table::{Change, Meta, NewStream, Origin, Table},
};

/// Where streams without a name are put.
const NAMELESS: &str = "lost+found";

/// A log that is being put together again.
struct Rebuild<'a> {
    files: &'a Arc<Files>,
    salt: Salt,
    table: Table,
    ids: BTreeSet<Incarnation>,
    dropped: BTreeSet<Incarnation>,
    /// Streams whose name belongs to a newer one.
    older: BTreeSet<Incarnation>,
    /// Streams that only their forks speak of.
    lost_parents: BTreeSet<Incarnation>,
    pieces: BTreeMap<Incarnation, Vec<Piece>>,
    /// The newest segment that any record speaks of.
    through: u32,
    /// Packs that the disk does not read to their end.
    spoiled: BTreeSet<u32>,
    /// The number of the newest checkpoint, of which no copy may be whole.
    newest: Option<u32>,
}

/// Some messages of a stream, and where they stand.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: Offset,
    end: Offset,
    extent: Extent,
}

/// Writes a checkpoint of all that packs and segments hold, and tells what was done.
pub(super) fn rebuild(files: &Arc<Files>, salt: Salt) -> Result<Vec<String>, OpenError> {
    let mut rebuild = Rebuild {
        files,
        salt,
        table: Table::default(),
        ids: BTreeSet::new(),
        dropped: BTreeSet::new(),
        older: BTreeSet::new(),
        lost_parents: BTreeSet::new(),
        pieces: BTreeMap::new(),
        through: 0,
        spoiled: BTreeSet::new(),
        newest: checkpoint::newest(files, salt)?.map(|newest| newest.number),
    };
    let packs = rebuild.take_packs()?;
    let (doubtful, others) = rebuild.take_segments()?;
    rebuild.drop_older_namesakes();
    let nameless = rebuild.name_the_nameless();
    rebuild.chain_pieces();
    // The start after this uses their files again, so copies of them come first.
    let mut copies = Vec::new();
    for slot in &doubtful {
        let path = files.layout.slot(slot.number);
        let name = format!("slot-{}", slot.number);
        copies.push(keep_copy(files, &path, &name).map_err(at(&path))?);
    }
    for slot in others {
        copies.extend(rebuild.keep_if_not_covered(&slot)?);
    }
    copies.extend(rebuild.keep_unneeded()?);
    copies.extend(rebuild.keep_damaged_checkpoint()?);
    let used = rebuild.write(packs.last().map_or(0, |last| last + 1))?;
    let mut done = vec![format!(
        "the checkpoint was made again: {} streams from {} packs and the write-ahead log; streams \
         that were deleted lately may be among them",
        rebuild.ids.len(),
        packs.len()
    )];
    if nameless > 0 {
        done.push(format!("{nameless} streams had no name left and are {NAMELESS}/ID now"));
    }
    done.extend(copies);
    for slot in doubtful {
        let path = files.layout.slot(slot.number);
        files.disk.remove(&path).map_err(at(&path))?;
    }
    let wal = files.layout.wal();
    files.disk.sync_dir(&wal).map_err(at(&wal))?;
    for number in packs.into_iter().filter(|number| !used.contains(number)) {
        let path = files.layout.pack(number);
        done.push(set_aside(files, &path, &format!("{number}.pack")).map_err(at(&path))?);
    }
    Ok(done)
}

impl Rebuild<'_> {
    /// Copies what is left of the checkpoint: once there is a newer one it is removed as old.
    fn keep_damaged_checkpoint(&self) -> Result<Vec<String>, OpenError> {
        let Some(number) = self.newest else { return Ok(Vec::new()) };
        let paths = self.files.layout.checkpoint(number);
        let paths = paths.into_iter().filter(|path| self.files.disk.open(path).is_ok());
        let name = format!("{number}{CHECKPOINT_ENDING}");
        paths.map(|path| keep_copy(self.files, &path, &name).map_err(at(&path))).collect()
    }

    /// Takes in every record of every pack; the numbers of the packs.
    fn take_packs(&mut self) -> Result<Vec<u32>, OpenError> {
        let dir = self.files.layout.packs();
        let names = self.files.disk.list(&dir).map_err(at(&dir))?;
        let numbers: Vec<u32> =
            names.iter().filter_map(|name| number_in(name, "", ".pack")).collect();
        let mut metas = self.metas_of_checkpoint()?;
        for number in &numbers {
            let path = self.files.layout.pack(*number);
            let mut records = match self.files.disk.open(&path) {
                Err(error) if is_unreadable(&error) => {
                    self.spoiled.insert(*number);
                    continue;
                }
                file => Records::new(file.map_err(at(&path))?, self.salt).map_err(at(&path))?,
            };
            while let Some(found) = records.next().map_err(at(&path))? {
                let Ok(offset) = u32::try_from(found.offset) else { break };
                let place = Place { file: FileId::Pack(*number), offset };
                self.add_piece(&found.record, place, found.length);
                let Record::Stream { id, meta } = found.record else { continue };
                let Some(meta) = checkpoint::decode_meta(meta) else { continue };
                if metas.get(&id).is_none_or(|known| known.applied <= meta.applied) {
                    metas.insert(id, meta);
                }
            }
            if !records.is_whole() {
                self.spoiled.insert(*number);
            }
        }
        for (id, meta) in metas {
            self.through = self.through.max((meta.applied >> 32) as u32);
            self.insert(id, meta);
        }
        Ok(numbers)
    }

    /// The streams of a checkpoint as far as its copies can be read.
    fn metas_of_checkpoint(&mut self) -> Result<BTreeMap<Incarnation, Meta>, OpenError> {
        let Some(newest) = self.newest else { return Ok(BTreeMap::new()) };
        let (entries, last_id) = checkpoint::readable(self.files, self.salt, newest)?;
        self.table.skip_to(last_id);
        Ok(entries.into_iter().map(|entry| (entry.id, entry.meta)).collect())
    }

    /// Keeps a copy of a file if it holds messages that are in no stream: those of a frame that was
    /// torn, or what an earlier life of the file has left behind of messages that a pack has lost.
    fn keep_if_not_covered(&self, slot: &Slot) -> Result<Option<String>, OpenError> {
        let path = self.files.layout.slot(slot.number);
        let mut records = Records::new(slot.file.clone(), self.salt).map_err(at(&path))?;
        while let Some(found) = records.next().map_err(at(&path))? {
            let id = found.record.id();
            let Some((start, messages)) = found.record.messages() else { continue };
            let end = start.after(messages.len() as u64, messages.data().len() as u64);
            let is_known = self.pieces.get(&id).is_some_and(|pieces| covers(pieces, start, end));
            if start < end && !is_known && !self.dropped.contains(&id) {
                let name = format!("slot-{}", slot.number);
                return keep_copy(self.files, &path, &name).map(Some).map_err(at(&path));
            }
        }
        Ok(None)
    }

    /// Applies what the segments say; the files of those that hold more than could be applied, and
    /// the others.
    fn take_segments(&mut self) -> Result<(Vec<Slot>, Vec<Slot>), OpenError> {
        let recovery = Recovery::new(self.files.clone(), self.salt);
        let Survey { segments, headless, .. } = recovery.survey()?;
        let (mut doubtful, mut others) = (Vec::new(), Vec::new());
        for (header, slot) in segments {
            self.through = self.through.max(header.number);
            self.files.set_segment(header.number, slot.file.clone());
            match self.take_segment(&recovery, header, &slot)? {
                true => others.push(slot),
                false => doubtful.push(slot),
            }
        }
        for slot in headless {
            let path = self.files.layout.slot(slot.number);
            let mut records = Records::new(slot.file.clone(), self.salt).map_err(at(&path))?;
            if records.next().map_err(at(&path))?.is_some() {
                doubtful.push(slot);
            }
        }
        Ok((doubtful, others))
    }

    /// Applies the frames of a segment up to the first that is torn; false if more follow.
    fn take_segment(
        &mut self,
        recovery: &Recovery,
        header: SegmentHeader,
        slot: &Slot,
    ) -> Result<bool, OpenError> {
        let (path, number) = (self.files.layout.slot(slot.number), header.number);
        let end = each_frame(slot, &path, number, self.salt, |offset, _, records| {
            for (record_at, length, record) in records {
                let place = Place { file: FileId::Segment(number), offset: offset + record_at };
                self.add_piece(&record, place, length);
                if let Record::Change(change) = record {
                    self.apply(&change, place);
                }
            }
            Ok(())
        })?;
        Ok(recovery.check_nothing_follows(header.number, slot, end).is_ok())
    }

    fn add_piece(&mut self, record: &Record, place: Place, length: u32) {
        let Some((start, messages)) = record.messages() else { return };
        let end = start.after(messages.len() as u64, messages.data().len() as u64);
        let extent = Extent { start, place, length };
        self.pieces.entry(record.id()).or_default().push(Piece { start, end, extent });
    }

    /// Takes in a change, whether or not it follows on what is known.
    fn apply(&mut self, change: &Change, place: Place) {
        let id = change.id();
        let known = self.table.get(id).map(|meta| (meta.applied, meta.forks, meta.tail));
        match (change, known) {
            (Change::Drop { .. }, Some((_, 0, _))) => self.forget(id),
            (Change::Drop { .. }, Some(_)) => self.table.apply(&Change::Retire { id }),
            (Change::Drop { .. }, None) => drop(self.dropped.insert(id)),
            (Change::Create(new), None) if !self.dropped.contains(&id) => {
                let mut meta = Meta::new(new);
                meta.applied = place.sequence();
                self.insert(id, meta);
            }
            (Change::Create(_), _) | (_, None) => {}
            (_, Some((applied, _, _))) if place.sequence() <= applied => {}
            (Change::Append(new), Some((_, _, tail))) if new.start < tail => {}
            (change, Some(_)) => {
                let meta = self.table.meta_mut(id);
                meta.applied = place.sequence();
                if let Change::Append(new) = change
                    && new.start > meta.tail
                {
                    // What is missing before it is refused to readers, and not closed up.
                    forget_producers(meta);
                    meta.tail = new.start;
                }
                self.table.apply(change);
            }
        }
    }

    fn insert(&mut self, id: Incarnation, mut meta: Meta) {
        if let Some(origin) = &meta.origin
            && self.table.get(origin.parent).is_none()
        {
            let parent = origin.parent;
            let mut lost = nameless(parent, Offset::START, origin.end);
            lost.retired = true;
            self.table.insert(parent, lost);
            self.ids.insert(parent);
            self.lost_parents.insert(parent);
        }
        // A name is used again only after the stream that had it was deleted.
        let namesake = self.table.addresses().get(&meta.address).copied();
        match namesake {
            Some(newer) if newer > id => self.step_back(id, &mut meta),
            Some(older) if older < id => {
                let mut other = self.table.meta(older).clone();
                self.step_back(older, &mut other);
                *self.table.meta_mut(older) = other;
            }
            _ => {}
        }
        self.table.insert(id, meta);
        self.ids.insert(id);
    }

    /// Takes the name from a stream that was deleted; its forks may still need it.
    fn step_back(&mut self, id: Incarnation, meta: &mut Meta) {
        meta.address = nameless_address(id);
        meta.retired = true;
        self.older.insert(id);
    }

    fn forget(&mut self, id: Incarnation) {
        if self.ids.remove(&id) {
            self.table.apply(&Change::Drop { id, erase: false });
        }
        self.pieces.remove(&id);
        self.dropped.insert(id);
    }

    /// Forgets streams that were deleted and that no fork needs.
    fn drop_older_namesakes(&mut self) {
        for id in std::mem::take(&mut self.older).into_iter().rev() {
            if self.table.get(id).is_some_and(|meta| meta.forks == 0) {
                self.forget(id);
            }
        }
    }

    /// Makes streams of messages whose stream nothing speaks of; how many.
    fn name_the_nameless(&mut self) -> usize {
        for id in &self.dropped {
            self.pieces.remove(id);
        }
        let is_nameless =
            |id: &&Incarnation| self.lost_parents.contains(id) || !self.ids.contains(id);
        let unknown: Vec<Incarnation> = self.pieces.keys().filter(is_nameless).copied().collect();
        for id in &unknown {
            let pieces = &self.pieces[id];
            let start = pieces.iter().map(|piece| piece.start).min().unwrap_or_default();
            let end = pieces.iter().map(|piece| piece.end).max().unwrap_or_default();
            if self.ids.insert(*id) {
                self.table.insert(*id, nameless(*id, start, end));
            } else {
                let meta = self.table.meta_mut(*id);
                meta.retired = false;
                (meta.earliest, meta.tail) = (start, end.max(meta.tail));
            }
        }
        unknown.len() + self.show_the_retired()
    }

    /// Makes streams of those that were deleted and kept for their forks, where no fork is known
    /// any more: one without messages of its own may be forgotten, and these were read through it.
    fn show_the_retired(&mut self) -> usize {
        let is_hidden = |id: &&Incarnation| {
            self.table.get(**id).is_some_and(|meta| meta.retired && meta.forks == 0)
                && self.pieces.contains_key(id)
        };
        let hidden: Vec<Incarnation> = self.ids.iter().filter(is_hidden).copied().collect();
        for id in &hidden {
            let meta = self.table.meta_mut(*id);
            (meta.address, meta.retired, meta.closed) = (nameless_address(*id), false, true);
        }
        hidden.len()
    }

    /// The extents of a stream in packs; what must move is copied into `pack`.
    fn copy(
        &self,
        pack: &mut PackWriter,
        id: Incarnation,
        meta: &[u8],
        pieces: &[Piece],
    ) -> io::Result<Vec<Extent>> {
        let before = pack.length();
        let mut extents = Vec::new();
        for Piece { start, extent, .. } in pieces {
            if let FileId::Pack(number) = extent.place.file
                && !self.spoiled.contains(&number)
            {
                extents.extend(pack.finish_record()?);
                extents.push(*extent);
                continue;
            }
            let record = record::read(&self.bytes_of(extent)?, self.salt);
            if let Some((_, messages)) = record.as_ref().and_then(Record::messages) {
                extents.extend(pack.add(id, *start, messages)?);
            }
        }
        extents.extend(pack.finish_record()?);
        if pack.length() > before {
            pack.add_stream(id, meta)?;
        }
        Ok(extents)
    }

    /// Copies the records of which no stream needs all: what was trimmed is read through forks, and
    /// a fork without messages of its own may be forgotten.
    fn keep_unneeded(&self) -> Result<Option<String>, OpenError> {
        let dir = self.files.layout.lost_and_found();
        let mut aside: Option<(PathBuf, Arc<dyn File>)> = None;
        let mut written = 0;
        for (id, pieces) in self.pieces.iter().filter(|(id, _)| self.table.get(**id).is_some()) {
            let needed = self.table.needed(*id);
            let is_needed = |piece: &&Piece| piece.start >= needed.start && piece.end <= needed.end;
            for Piece { extent, .. } in pieces.iter().filter(|piece| !is_needed(piece)) {
                let record = self.bytes_of(extent).map_err(at(&dir))?;
                if aside.is_none() {
                    let path = free_path(self.files, "trimmed").map_err(at(&dir))?;
                    let file = self.files.disk.create(&path).map_err(at(&path))?;
                    aside = Some((path, file));
                }
                if let Some((path, file)) = &aside {
                    file.write_all_at(&record, written).map_err(at(path))?;
                    written += record.len() as u64;
                }
            }
        }
        let Some((path, file)) = aside else { return Ok(None) };
        file.sync().map_err(at(&path))?;
        self.files.disk.sync_dir(&dir).map_err(at(&dir))?;
        let path = path.display();
        Ok(Some(format!("trimmed messages, which forks may have shared, were kept as {path}")))
    }

    fn bytes_of(&self, extent: &Extent) -> io::Result<Bytes> {
        let mut bytes = vec![0; extent.length as usize];
        let file = self.files.get(extent.place.file)?;
        file.read_exact_at(&mut bytes, u64::from(extent.place.offset))?;
        Ok(bytes.into())
    }

    fn chain_pieces(&mut self) {
        let pieces = std::mem::take(&mut self.pieces).into_iter();
        self.pieces = pieces.map(|(id, pieces)| (id, chain(pieces))).collect();
    }

    /// Copies what stands in segments, or in packs that the disk does not read to their end, into a
    /// new pack, so that those can be set aside as they are; and writes the checkpoint; the packs
    /// in use.
    fn write(&mut self, next_pack: u32) -> Result<BTreeSet<u32>, OpenError> {
        let dir = self.files.layout.checkpoints();
        let mut pack = PackWriter::create(self.files, next_pack, self.salt).map_err(at(&dir))?;
        let mut checkpoint =
            CheckpointWriter::create(self.files, self.through, Owes::Nothing, self.salt)
                .map_err(at(&dir))?;
        let mut used = BTreeSet::from([next_pack]);
        for id in &self.ids.clone() {
            let pieces = self.pieces.remove(id).unwrap_or_default();
            let meta = self.table.meta_mut(*id);
            // Messages that were trimmed may be in no pack.
            let end = pieces.last().map_or(meta.earliest, |last| last.end.max(meta.earliest));
            if end > meta.tail {
                // Messages after what is known of the stream: so its producers are not known.
                forget_producers(meta);
                meta.tail = end;
            }
            let bytes = checkpoint::encode_meta(*id, meta);
            let extents = self.copy(&mut pack, *id, &bytes, &pieces).map_err(at(&dir))?;
            used.extend(extents.iter().filter_map(|extent| match extent.place.file {
                FileId::Pack(number) => Some(number),
                FileId::Segment(_) => None,
            }));
            checkpoint.add(&bytes, &extents).map_err(at(&dir))?;
        }
        pack.finish().map_err(at(&dir))?;
        let packs = self.files.layout.packs();
        self.files.disk.sync_dir(&packs).map_err(at(&packs))?;
        let whole = checkpoint.finish(self.table.last_id()).map_err(at(&dir))?;
        whole.publish(self.files, self.newest.map_or(0, |number| number + 1)).map_err(at(&dir))?;
        Ok(used)
    }
}

/// A producer of which newer appends may be missing is refused as one that lost some, rather than
/// believed to be where it was.
fn forget_producers(meta: &mut Meta) {
    (meta.closer, meta.seq) = (None, None);
    meta.producers.clear();
}

/// Pieces that begin and end one after the other; those that others cover are left out.
fn chain(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| (piece.start, Reverse(piece.end)));
    let mut end = Offset::START;
    pieces.retain(|piece| {
        let is_news = piece.end > end;
        end = end.max(piece.end);
        is_news
    });
    pieces
}

/// True if pieces that were chained hold these messages.
fn covers(pieces: &[Piece], start: Offset, end: Offset) -> bool {
    // Each ends after the one before it.
    let after = pieces.partition_point(|piece| piece.start <= start);
    after.checked_sub(1).is_some_and(|last| pieces[last].end >= end)
}

/// A closed stream of which only messages are left.
fn nameless(id: Incarnation, start: Offset, end: Offset) -> Meta {
    let mut meta = Meta::new(&NewStream {
        id,
        address: nameless_address(id),
        content_type: ContentType::octet_stream(),
        expiry: Expiry::Never,
        at: UnixMs::new(0),
        origin: None::<Origin>,
        messages: wire::Messages::none(),
        closed: true,
    });
    (meta.earliest, meta.tail) = (start, end);
    meta
}

fn nameless_address(id: Incarnation) -> Address {
    let path: StreamPath = format!("{NAMELESS}/{}", id.0).parse().expect("a plain name");
    path.into()
}
