//! Checkpoints: every stream and where its packed messages are, so that recovery reads only the
//! end of the write-ahead log.
//!
//! A checkpoint is written while the log goes on. Each stream in it is as it was durable at some
//! moment after the last segment the checkpoint covers, and says which change was its newest;
//! recovery skips the changes that are in it already.
//!
//! ```text
//! 0   magic u32 │ version u32 │ covered segment u32 │ owes u32 │ crc u32
//! 20  entries: length u32 │ crc u32 │ stream, extents
//!     trailer: length 0 u32 │ crc u32 │ entries u64 │ last id u64
//! ```

use std::{io, sync::Arc};

use bytes::Bytes;
use sys::{File, UnixMs};

use super::{
    codec::{Put, Take},
    files::Files,
    place::{Extent, FileId, Place},
    record::{self, Salt},
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

/// Writes a checkpoint under a name that no recovery looks at.
#[derive(Debug)]
pub(super) struct CheckpointWriter {
    file: Arc<dyn File>,
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
        let path = files.layout.unfinished_checkpoint();
        match files.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = files.disk.create(&path)?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + 4096);
        buffer.put_u32(CHECKPOINT_MAGIC);
        buffer.put_u32(VERSION);
        buffer.put_u32(through);
        buffer.put_u32(owes as u32);
        buffer.put_u32(salt.checksum(&buffer));
        Ok(Self { file, salt, written: 0, buffer, entries: 0 })
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
        self.file.sync()?;
        Ok(WholeCheckpoint)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl WholeCheckpoint {
    /// Gives it the name that recovery looks for.
    ///
    /// # Errors
    /// The name may or may not be durable then.
    pub(super) fn publish(self, files: &Files, number: u32) -> io::Result<()> {
        let layout = &files.layout;
        files.disk.rename(&layout.unfinished_checkpoint(), &layout.checkpoint(number))?;
        files.disk.sync_dir(&layout.checkpoints())
    }
}

/// Reads a checkpoint; none if it is not whole.
pub(super) fn read(file: Arc<dyn File>, salt: Salt) -> io::Result<Option<Checkpoint>> {
    let mut scan = Scan::new(file, 0)?;
    let header = scan.take(HEADER_BYTES)?.and_then(|bytes| header(&bytes, salt));
    let Some((through, owes)) = header else {
        return Ok(None);
    };
    let mut entries = Vec::new();
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
            let last_id = trailer(body).filter(|(count, _)| *count == entries.len() as u64);
            return Ok(last_id.map(|(_, last_id)| Checkpoint { through, owes, last_id, entries }));
        }
        match entry(body) {
            Some(entry) => entries.push(entry),
            None => return Ok(None),
        }
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
