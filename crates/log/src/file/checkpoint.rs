//! Checkpoints: every stream and where its packed messages are, so that recovery reads only the
//! end of the write-ahead log.
//!
//! A checkpoint is written while the log goes on. Each stream in it is as it was durable at some
//! moment after the last segment the checkpoint covers, and says which change was its newest;
//! recovery skips the changes that are in it already. It is written into two files, byte for byte
//! the same: either is enough.
//!
//! ```text
//! 0   magic u32 │ version u32 │ covered segment u32 │ owes u32 │ crc u32
//! 20  entries: length u32 │ crc u32 │ stream, extents
//!     trailer: length 0 u32 │ crc u32 │ entries u64 │ last id u64
//! ```

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use bytes::Bytes;
use sys::{File, UnixMs};

use super::{
    codec::{Put, Take},
    files::{Files, checkpoint_number, copy_file, remove_if_there},
    open_error::OpenError,
    place::{Extent, FileId, Place},
    record::{self, Salt},
    recovery::at,
    scan::Scan,
};
use crate::{
    Incarnation,
    table::{Meta, ProducerEntry, Touched},
};

const CHECKPOINT_MAGIC: u32 = u32::from_le_bytes(*b"HWck");
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 20;
const BUFFER_BYTES: usize = 1024 * 1024;
/// No entry is larger: thousands of producers, and an extent for each 64 KiB of a terabyte.
const ENTRY_BYTES_MAX: usize = 1 << 29;

/// A stream of a checkpoint.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: Incarnation,
    pub(super) meta: Meta,
    pub(super) extents: Vec<Extent>,
}

/// What the log had still to do when a checkpoint was written. The numbers are on disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owes {
    Nothing = 0,
    /// To overwrite the files that the checkpoint makes superfluous.
    Erase = 1,
}

/// Writes the copies of a checkpoint under names that no recovery looks at.
#[derive(Debug)]
pub(super) struct CheckpointWriter {
    copies: [Arc<dyn File>; 2],
    salt: Salt,
    written: u64,
    buffer: Vec<u8>,
    entries: u64,
}

/// A checkpoint that is durable, but not yet under its name.
#[derive(Debug)]
#[must_use = "recovery does not know it yet"]
pub(super) struct WholeCheckpoint;

/// A checkpoint as it was read.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// The last segment whose records stand in packs.
    pub(super) through: u32,
    pub(super) owes: Owes,
    pub(super) last_id: Incarnation,
    pub(super) entries: Vec<Entry>,
}

impl CheckpointWriter {
    pub(super) fn create(files: &Files, through: u32, owes: Owes, salt: Salt) -> io::Result<Self> {
        let [first, second] = files.layout.unfinished_checkpoint();
        remove_if_there(files.disk.as_ref(), &first)?;
        remove_if_there(files.disk.as_ref(), &second)?;
        let copies = [files.disk.create(&first)?, files.disk.create(&second)?];
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + 4096);
        buffer.put_u32(CHECKPOINT_MAGIC);
        buffer.put_u32(VERSION);
        buffer.put_u32(through);
        buffer.put_u32(owes as u32);
        buffer.put_u32(salt.checksum(&buffer));
        Ok(Self { copies, salt, written: 0, buffer, entries: 0 })
    }

    /// Adds a stream as [`encode_meta`] wrote it.
    pub(super) fn add(&mut self, meta: &[u8], extents: &[Extent]) -> io::Result<()> {
        let mut entry = Vec::with_capacity(meta.len() + 16 * extents.len() + 8);
        entry.put(meta);
        entry.put_varint(extents.len() as u64);
        extents.iter().for_each(|extent| put_extent(&mut entry, extent));
        self.buffer.put_u32(u32::try_from(entry.len()).expect("an entry is bounded"));
        self.buffer.put_u32(self.salt.checksum(&entry));
        self.buffer.put(&entry);
        self.entries += 1;
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Makes what was written durable.
    pub(super) fn finish(mut self, last_id: Incarnation) -> io::Result<WholeCheckpoint> {
        let mut trailer = Vec::new();
        trailer.put_u64(self.entries);
        trailer.put_u64(last_id.0);
        self.buffer.put_u32(0);
        self.buffer.put_u32(self.salt.checksum(&trailer));
        self.buffer.put(&trailer);
        self.flush()?;
        self.copies.iter().try_for_each(|copy| copy.sync())?;
        Ok(WholeCheckpoint)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.copies.iter().try_for_each(|copy| copy.write_all_at(&self.buffer, self.written))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl WholeCheckpoint {
    /// Gives it the names that recovery looks for.
    ///
    /// # Errors
    /// The names may or may not be durable then.
    pub(super) fn publish(self, files: &Files, number: u32) -> io::Result<()> {
        let layout = &files.layout;
        for (from, to) in layout.unfinished_checkpoint().iter().zip(layout.checkpoint(number)) {
            files.disk.rename(from, &to)?;
        }
        files.disk.sync_dir(&layout.checkpoints())
    }
}

/// Writes a checkpoint that was read, both copies, under its number; how many bytes.
pub(super) fn write(files: &Files, salt: Salt, number: u32, from: &Checkpoint) -> io::Result<u64> {
    let mut writer = CheckpointWriter::create(files, from.through, from.owes, salt)?;
    for entry in &from.entries {
        writer.add(&encode_meta(entry.id, &entry.meta), &entry.extents)?;
    }
    let copies = writer.copies.clone();
    writer.finish(from.last_id)?.publish(files, number)?;
    copies.iter().map(|copy| copy.len()).sum()
}

/// The newest checkpoint of a log.
#[derive(Debug)]
pub(super) struct Newest {
    pub(super) number: u32,
    /// None if no copy is whole.
    pub(super) checkpoint: Option<Checkpoint>,
    /// The copies that are missing or damaged.
    pub(super) broken: Vec<PathBuf>,
}

/// Reads the newest checkpoint; none if there is none.
///
/// An older one never stands in for it: segments that the newest covers may be gone.
///
/// # Errors
/// Also if no copy is whole, and the disk failed to read one: it may be whole, and what is made
/// again without it knows less.
pub(super) fn newest(files: &Files, salt: Salt) -> Result<Option<Newest>, OpenError> {
    let dir = files.layout.checkpoints();
    let names = files.disk.list(&dir).map_err(at(&dir))?;
    let Some(number) = names.iter().filter_map(|name| checkpoint_number(name)).max() else {
        return Ok(None);
    };
    let mut newest = Newest { number, checkpoint: None, broken: Vec::new() };
    let mut failed = None;
    for path in files.layout.checkpoint(number) {
        let file = files.disk.open(&path);
        let is_whole = match newest.checkpoint {
            None => file.and_then(|file| read(file, salt)).map(|whole| {
                newest.checkpoint = whole;
                newest.checkpoint.is_some()
            }),
            // It is taken in already: of the second copy only the checksums count.
            Some(_) => {
                file.and_then(|file| scan(file, salt, |_| true)).map(|whole| whole.is_some())
            }
        };
        match is_whole {
            Ok(true) => continue,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                failed.get_or_insert(at(&path)(error));
            }
            _ => {}
        }
        newest.broken.push(path);
    }
    match failed {
        Some(error) if newest.checkpoint.is_none() => Err(error),
        _ => Ok(Some(newest)),
    }
}

/// The entries of a checkpoint up to the damage of each copy, and the newest id they speak of.
pub(super) fn readable(
    files: &Files,
    salt: Salt,
    number: u32,
) -> Result<(Vec<Entry>, Incarnation), OpenError> {
    let mut entries = BTreeMap::new();
    let mut last_id = Incarnation(0);
    for path in files.layout.checkpoint(number) {
        let take = |body| entry(body).map(|entry| entries.insert(entry.id, entry)).is_some();
        match files.disk.open(&path).and_then(|file| scan(file, salt, take)) {
            Ok(frame) => last_id = frame.map_or(last_id, |frame| last_id.max(frame.last_id)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&path)(error)),
        }
    }
    Ok((entries.into_values().collect(), last_id))
}

/// True if a file begins as a checkpoint does.
pub(super) fn is_one(file: &dyn File) -> io::Result<bool> {
    let mut magic = [0; 4];
    match file.read_exact_at(&mut magic, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| magic == CHECKPOINT_MAGIC.to_le_bytes()),
    }
}

/// Writes the copies of a checkpoint that are missing or damaged from the one that is whole.
pub(super) fn complete(files: &Files, newest: &Newest) -> io::Result<()> {
    let all = files.layout.checkpoint(newest.number);
    let Some(whole) = all.iter().find(|path| !newest.broken.contains(path)) else { return Ok(()) };
    let whole = files.disk.open(whole)?;
    let [unfinished, _] = files.layout.unfinished_checkpoint();
    for path in &newest.broken {
        remove_if_there(files.disk.as_ref(), &unfinished)?;
        copy_file(files.disk.as_ref(), whole.as_ref(), &unfinished)?;
        files.disk.rename(&unfinished, path)?;
    }
    files.disk.sync_dir(&files.layout.checkpoints())
}

/// Reads a checkpoint; none if it is not whole.
pub(super) fn read(file: Arc<dyn File>, salt: Salt) -> io::Result<Option<Checkpoint>> {
    let mut entries = Vec::new();
    let frame = scan(file, salt, |body| entry(body).map(|entry| entries.push(entry)).is_some())?;
    Ok(frame.map(|Frame { through, owes, last_id }| Checkpoint { through, owes, last_id, entries }))
}

/// What a checkpoint says beside its entries.
#[derive(Debug)]
struct Frame {
    through: u32,
    owes: Owes,
    last_id: Incarnation,
}

/// Hands each entry to `take`; none if the checkpoint is not whole, or an entry is refused.
fn scan(
    file: Arc<dyn File>,
    salt: Salt,
    mut take: impl FnMut(Bytes) -> bool,
) -> io::Result<Option<Frame>> {
    let mut scan = Scan::new(file, 0)?;
    let header = scan.take(HEADER_BYTES)?.and_then(|bytes| header(&bytes, salt));
    let Some((through, owes)) = header else {
        return Ok(None);
    };
    let mut entries = 0;
    loop {
        let Some((length, crc)) = scan.take(8)?.and_then(|bytes| length_and_crc(&bytes)) else {
            return Ok(None);
        };
        if length > ENTRY_BYTES_MAX {
            return Ok(None);
        }
        let body = scan.take(if length == 0 { 16 } else { length })?;
        let Some(body) = body.filter(|body| salt.checksum(body) == crc) else { return Ok(None) };
        if length == 0 {
            let last_id = trailer(body).filter(|(count, _)| *count == entries);
            return Ok(last_id.map(|(_, last_id)| Frame { through, owes, last_id }));
        }
        if !take(body) {
            return Ok(None);
        }
        entries += 1;
    }
}

fn header(bytes: &Bytes, salt: Salt) -> Option<(u32, Owes)> {
    let mut take = Take::new(bytes.clone());
    let (magic, version, through) = (take.u32()?, take.u32()?, take.u32()?);
    let owes = match take.u32()? {
        0 => Owes::Nothing,
        1 => Owes::Erase,
        _ => return None,
    };
    let whole = take.u32()? == salt.checksum(&bytes[..16]);
    (whole && magic == CHECKPOINT_MAGIC && version == VERSION).then_some((through, owes))
}

fn length_and_crc(bytes: &Bytes) -> Option<(usize, u32)> {
    let mut take = Take::new(bytes.clone());
    Some((take.u32()? as usize, take.u32()?))
}

fn trailer(bytes: Bytes) -> Option<(u64, Incarnation)> {
    let mut take = Take::new(bytes);
    Some((take.u64()?, Incarnation(take.u64()?)))
}

pub(super) fn entry(body: Bytes) -> Option<Entry> {
    let mut take = Take::new(body);
    let (id, meta) = take_meta(&mut take)?;
    let count = take.varint()?;
    let extents = (0..count).map(|_| take_extent(&mut take)).collect::<Option<_>>()?;
    take.is_empty().then_some(Entry { id, meta, extents })
}

mod flag {
    //! Flags are on disks: never reuse one.
    pub(super) const CLOSED: u8 = 1;
    pub(super) const RETIRED: u8 = 2;
    pub(super) const CLOSER: u8 = 4;
    pub(super) const SEQ: u8 = 8;
}

/// A stream as a checkpoint holds it.
pub(super) fn encode_meta(id: Incarnation, meta: &Meta) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    let set = |set: bool, flag: u8| if set { flag } else { 0 };
    bytes.put_u64(id.0);
    bytes.put_u64(meta.applied);
    record::put_address(&mut bytes, &meta.address);
    bytes.put_text(meta.content_type.as_str());
    record::put_expiry(&mut bytes, meta.expiry);
    bytes.put_u64(meta.created_at.get());
    bytes.put_u64(meta.touched.durable().get());
    record::put_origin(&mut bytes, meta.origin.as_deref());
    record::put_offset(&mut bytes, meta.earliest);
    record::put_offset(&mut bytes, meta.tail);
    bytes.put_u8(
        set(meta.closed, flag::CLOSED)
            | set(meta.retired, flag::RETIRED)
            | set(meta.closer.is_some(), flag::CLOSER)
            | set(meta.seq.is_some(), flag::SEQ),
    );
    if let Some(closer) = &meta.closer {
        record::put_producer(&mut bytes, closer);
    }
    if let Some(seq) = &meta.seq {
        bytes.put_text(seq.as_str());
    }
    bytes.put_varint(meta.producers.len() as u64);
    for (id, entry) in &meta.producers {
        let ProducerEntry { epoch, seq, at } = *entry;
        record::put_producer(&mut bytes, &wire::Producer { id: id.clone(), epoch, seq });
        bytes.put_u64(at.get());
    }
    bytes
}

/// A stream as [`encode_meta`] wrote it.
pub(super) fn decode_meta(bytes: Bytes) -> Option<Meta> {
    let mut take = Take::new(bytes);
    let (_, meta) = take_meta(&mut take)?;
    take.is_empty().then_some(meta)
}

fn take_meta(take: &mut Take) -> Option<(Incarnation, Meta)> {
    let (id, applied) = (Incarnation(take.u64()?), take.u64()?);
    let address = record::take_address(take)?;
    let content_type = record::take_content_type(take)?;
    let expiry = record::take_expiry(take)?;
    let (created_at, touched) = (UnixMs::new(take.u64()?), UnixMs::new(take.u64()?));
    let origin = record::take_origin(take)?.map(Box::new);
    let (earliest, tail) = (record::take_offset(take)?, record::take_offset(take)?);
    let flags = take.u8()?;
    let closer = match flags & flag::CLOSER {
        0 => None,
        _ => Some(Box::new(record::take_producer(take)?)),
    };
    let seq = match flags & flag::SEQ {
        0 => None,
        _ => Some(take.text()?.parse().ok()?),
    };
    let count = take.varint()?;
    let producers = (0..count).map(|_| take_producer(take)).collect::<Option<_>>()?;
    let meta = Meta {
        address,
        content_type,
        expiry,
        created_at,
        touched: Touched::new(expiry, touched),
        origin,
        earliest,
        tail,
        closed: flags & flag::CLOSED != 0,
        closer,
        producers,
        seq,
        retired: flags & flag::RETIRED != 0,
        applied,
        forks: 0,
        depth: 0,
    };
    Some((id, meta))
}

fn take_producer(take: &mut Take) -> Option<(wire::ProducerId, ProducerEntry)> {
    let wire::Producer { id, epoch, seq } = record::take_producer(take)?;
    Some((id, ProducerEntry { epoch, seq, at: UnixMs::new(take.u64()?) }))
}

/// Only packs outlast a checkpoint, so only they are in it.
fn put_extent(bytes: &mut Vec<u8>, extent: &Extent) {
    let FileId::Pack(pack) = extent.place.file else { unreachable!("checkpoints know only packs") };
    record::put_offset(bytes, extent.start);
    bytes.put_varint(u64::from(pack));
    bytes.put_u32(extent.place.offset);
    bytes.put_varint(u64::from(extent.length));
}

fn take_extent(take: &mut Take) -> Option<Extent> {
    let start = record::take_offset(take)?;
    let file = FileId::Pack(u32::try_from(take.varint()?).ok()?);
    let place = Place { file, offset: take.u32()? };
    Some(Extent { start, place, length: u32::try_from(take.varint()?).ok()? })
}
