//! Packs: messages regrouped by stream, in large records, written once and never changed.

use std::{io, sync::Arc};

use bytes::BytesMut;
use sys::File;
use wire::{Messages, Offset};

use super::{
    codec::Put,
    files::Files,
    place::{Extent, FileId, Place},
    record::{self, Salt},
};
use crate::Incarnation;

const PACK_MAGIC: u32 = u32::from_le_bytes(*b"HWpk");
const VERSION: u32 = 1;
/// Where the first record stands.
pub(super) const PACK_HEADER_BYTES: usize = 64;
/// Messages are joined into records of about this size: one index entry each.
const RECORD_BYTES: usize = 64 * 1024;
/// Written to the file at a time.
const BUFFER_BYTES: usize = 1024 * 1024;
/// A pack that is this large is full.
const PACK_BYTES_MAX: u64 = 1 << 30;

/// Writes one pack.
#[derive(Debug)]
pub(super) struct PackWriter {
    pub(super) number: u32,
    file: Arc<dyn File>,
    salt: Salt,
    /// Bytes that are in the file.
    written: u64,
    buffer: Vec<u8>,
    pending: Option<Pending>,
}

/// Adjacent messages of one stream that are not a record yet.
#[derive(Debug)]
struct Pending {
    id: Incarnation,
    start: Offset,
    data: BytesMut,
    ends: Vec<u32>,
}

impl PackWriter {
    pub(super) fn create(files: &Files, number: u32, salt: Salt) -> io::Result<Self> {
        let file = files.disk.create(&files.layout.pack(number))?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + RECORD_BYTES);
        buffer.put_u32(PACK_MAGIC);
        buffer.put_u32(VERSION);
        buffer.put_u32(number);
        buffer.put_u32(salt.checksum(&buffer));
        buffer.resize(PACK_HEADER_BYTES, 0);
        Ok(Self { number, file, salt, written: 0, buffer, pending: None })
    }

    /// Adds messages of a stream; the extent of a record that became whole by it, if one did.
    pub(super) fn add(
        &mut self,
        id: Incarnation,
        start: Offset,
        messages: &Messages,
    ) -> io::Result<Option<Extent>> {
        let adjacent = self.pending.as_ref().is_some_and(|pending| {
            pending.id == id
                && pending.end() == start
                && pending.data.len() + messages.data().len() <= RECORD_BYTES
        });
        let whole = if adjacent { None } else { self.finish_record()? };
        let pending = self.pending.get_or_insert_with(|| Pending {
            id,
            start,
            data: BytesMut::new(),
            ends: Vec::new(),
        });
        let base = pending.data.len() as u32;
        pending.data.extend_from_slice(messages.data());
        pending.ends.extend(messages.ends().iter().map(|end| base + end));
        Ok(whole)
    }

    /// Makes a record of what is pending.
    pub(super) fn finish_record(&mut self) -> io::Result<Option<Extent>> {
        let Some(pending) = self.pending.take() else { return Ok(None) };
        let messages = Messages::from_parts(pending.data.freeze(), pending.ends)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let at = self.length();
        let before = self.buffer.len();
        record::write_data(&mut self.buffer, self.salt, pending.id, pending.start, &messages);
        let length = (self.buffer.len() - before) as u32;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        let offset = u32::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let place = Place { file: FileId::Pack(self.number), offset };
        Ok(Some(Extent { start: pending.start, place, length }))
    }

    pub(super) fn length(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.length() >= PACK_BYTES_MAX
    }

    /// Makes the pack durable, though not yet its name.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        debug_assert!(self.pending.is_none(), "the last record was finished");
        self.flush()?;
        self.file.sync()?;
        Ok(self.written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Pending {
    fn end(&self) -> Offset {
        self.start.after(self.ends.len() as u64, self.data.len() as u64)
    }
}
