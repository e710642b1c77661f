//! Packs: messages regrouped by stream, in large records, written once and never changed.
//!
//! ```text
//! 0   magic u32 │ version u32 │ number u32 │ crc u32 │ zeros to 64
//! 64  for each stream: its messages, as records; then the stream itself, as a checkpoint holds it
//!     trailer: magic u32 │ version u32 │ bytes of records with messages u64 │ crc u32
//! ```
//!
//! Packs of earlier versions hold messages only, and no trailer.

use std::{collections::BTreeMap, io, sync::Arc};

use bytes::BytesMut;
use sys::File;
use wire::{Messages, Offset};

use super::{
    codec::Put,
    files::{Files, number_in},
    open_error::OpenError,
    place::{Extent, FileId, Place},
    record::{self, Salt},
    recovery::at,
};
use crate::Incarnation;

const PACK_MAGIC: u32 = u32::from_le_bytes(*b"HWpk");
const TRAILER_MAGIC: u32 = u32::from_le_bytes(*b"HWpe");
const TRAILER_BYTES: usize = 20;
const VERSION: u32 = 1;
/// Where the first record stands.
const PACK_HEADER_BYTES: usize = 64;
/// Messages are joined into records of about this size: one index entry each.
const RECORD_BYTES: usize = 64 * 1024;
/// Written to the file at a time.
const BUFFER_BYTES: usize = 1024 * 1024;
/// A pack that is this large is full.
const PACK_BYTES_MAX: u64 = 1 << 30;

/// How much of a pack is still needed, in bytes of records with messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PackUse {
    pub(super) bytes: u64,
    pub(super) live: u64,
}

impl PackUse {
    /// True if it is worth writing again.
    pub(super) fn is_mostly_dead(&self) -> bool {
        self.live * 2 < self.bytes
    }
}

/// The packs of a log.
#[derive(Debug, Default)]
pub(super) struct Packs {
    pub(super) in_use: BTreeMap<u32, PackUse>,
    /// Those that the checkpoint speaks of, and that are not there.
    pub(super) missing: Vec<u32>,
    /// Those that it does not speak of.
    pub(super) superfluous: Vec<u32>,
    /// Such, of which the disk does not read all, so that they stay.
    pub(super) unread: Vec<u32>,
}

impl Packs {
    /// Compares the packs there are with how many bytes of each are needed.
    pub(super) fn survey(
        files: &Files,
        salt: Salt,
        live: &BTreeMap<u32, u64>,
    ) -> Result<Self, OpenError> {
        let dir = files.layout.packs();
        let names = files.disk.list(&dir).map_err(at(&dir))?;
        let mut packs = Self::default();
        for number in names.iter().filter_map(|name| number_in(name, "", ".pack")) {
            let path = files.layout.pack(number);
            match live.get(&number) {
                Some(live) => {
                    let file = files.disk.open(&path);
                    let bytes = file.and_then(|file| data_bytes(file.as_ref(), salt));
                    if let Err(error) = &bytes {
                        // Its messages are needed, whether or not they can be read.
                        let path = path.display();
                        tracing::error!(%path, %error, "a pack cannot be read to its end");
                    }
                    let bytes = bytes.unwrap_or(*live).max(*live);
                    packs.in_use.insert(number, PackUse { bytes, live: *live });
                }
                None => packs.superfluous.push(number),
            }
        }
        let missing = live.keys().filter(|pack| !packs.in_use.contains_key(pack));
        packs.missing = missing.copied().collect();
        Ok(packs)
    }

    /// A number that no pack has or had.
    pub(super) fn next(&self) -> u32 {
        let all = self.in_use.keys().chain(&self.missing).chain(&self.superfluous);
        let all = all.chain(&self.unread);
        all.max().map_or(0, |last| last + 1)
    }

    pub(super) fn remove_superfluous(&self, files: &Files) -> Result<(), OpenError> {
        self.superfluous.iter().try_for_each(|number| {
            let path = files.layout.pack(*number);
            files.disk.remove(&path).map_err(at(&path))
        })
    }
}

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
    /// Bytes of records with messages.
    data_bytes: u64,
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
        Ok(Self { number, file, salt, written: 0, buffer, pending: None, data_bytes: 0 })
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
        record::write_data(&mut self.buffer, self.salt, pending.id, pending.start, &messages);
        self.extent(pending.start, at).map(Some)
    }

    /// Adds the bytes of a record that is damaged as they are: they stay damaged, and are not lost.
    pub(super) fn add_damaged(&mut self, start: Offset, record: &[u8]) -> io::Result<Extent> {
        debug_assert!(self.pending.is_none(), "the record before was finished");
        let at = self.length();
        self.buffer.put(record);
        self.extent(start, at)
    }

    /// Adds a stream whose messages are in this pack, as `checkpoint::encode_meta` wrote it.
    pub(super) fn add_stream(&mut self, id: Incarnation, meta: &[u8]) -> io::Result<()> {
        record::write_stream(&mut self.buffer, self.salt, id, meta);
        self.flush_if_large()
    }

    /// The extent of the record that was written into the buffer, from `at` on.
    fn extent(&mut self, start: Offset, at: u64) -> io::Result<Extent> {
        let length = (self.length() - at) as u32;
        self.data_bytes += u64::from(length);
        self.flush_if_large()?;
        let offset = u32::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let place = Place { file: FileId::Pack(self.number), offset };
        Ok(Extent { start, place, length })
    }

    pub(super) fn length(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.length() >= PACK_BYTES_MAX
    }

    /// Makes the pack durable, though not yet its name; how many bytes its messages take.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        debug_assert!(self.pending.is_none(), "the last record was finished");
        self.buffer.put(&trailer(self.data_bytes, self.salt));
        self.flush()?;
        self.file.sync()?;
        Ok(self.data_bytes)
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// How many bytes the messages of a pack take, dead ones included.
pub(super) fn data_bytes(file: &dyn File, salt: Salt) -> io::Result<u64> {
    let length = file.len()?;
    // An earlier version wrote nothing but messages after the head.
    let all = length.saturating_sub(PACK_HEADER_BYTES as u64);
    let Some(at) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(all) };
    let mut bytes = [0; TRAILER_BYTES];
    file.read_exact_at(&mut bytes, at)?;
    let told = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    Ok(if bytes == trailer(told, salt) { told } else { all })
}

fn trailer(data_bytes: u64, salt: Salt) -> [u8; TRAILER_BYTES] {
    let mut bytes = Vec::with_capacity(TRAILER_BYTES);
    bytes.put_u32(TRAILER_MAGIC);
    bytes.put_u32(VERSION);
    bytes.put_u64(data_bytes);
    bytes.put_u32(salt.checksum(&bytes));
    bytes.try_into().expect("four numbers and a checksum")
}

impl Pending {
    fn end(&self) -> Offset {
        self.start.after(self.ends.len() as u64, self.data.len() as u64)
    }
}
