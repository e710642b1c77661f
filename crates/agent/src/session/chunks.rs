//! How many chunks a stream holds, and since when they may be left out.

use std::collections::VecDeque;

use live::Row;
use log::Head;
use serde::{Deserialize, Serialize};
use state::{Entry, Start, Tick, Write};
use sys::UnixMs;
use wire::Timestamp;

use crate::{
    caps::{COMPACTION_GAIN_BYTES_MIN, COMPACTION_GAIN_SHARE, SESSION_AGENTS_MAX},
    rows::{Chunk, ChunkType, Generation, KeepChunks},
};

/// Texts as they grew, which no reader needs once their message is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChunkCount {
    bytes: u64,
    /// Generations under way that have some; the last few.
    generations: VecDeque<String>,
    /// When the first generation ended that has some, and when the last one did.
    ended_ms: Option<(u64, u64)>,
    /// Bytes that the stream holds twice: snapshots of compactions that ended before they trimmed
    /// it.
    #[serde(default)]
    doubled: u64,
}

impl ChunkCount {
    /// Takes a transaction.
    pub(super) fn take(&mut self, tick: &Tick) {
        if tick.start == Start::Snapshot {
            *self = Self::default();
        }
        for (_, entry) in tick.entries() {
            if let Entry::Write(write) = entry {
                self.write(write);
            }
        }
    }

    /// So many bytes of the stream were there before.
    pub(super) const fn doubled(&mut self, bytes: u64) {
        self.doubled += bytes;
    }

    fn write(&mut self, write: &Write) {
        match write.type_name.as_str() {
            name if name == Chunk::NAME => {
                let bytes = write.value.as_ref().map_or(0, |value| value.as_str().len() as u64);
                self.bytes += bytes + CHUNK_HEADERS_BYTES;
                if let Some(chunk) = write.value.as_ref().and_then(|value| value.read().ok()) {
                    self.began(chunk);
                }
            }
            name if name == Generation::NAME => {
                let Some(value) = &write.value else { return };
                let row = value.read::<Generation>().ok().filter(|row| row.status.is_terminal());
                if let Some(row) = row {
                    self.ended(write.key.as_str(), row.completed_at.as_deref());
                }
            }
            _ => {}
        }
    }

    fn began(&mut self, chunk: Chunk) {
        // The last chunk of a generation stands behind its end.
        if chunk.kind == ChunkType::End || self.generations.contains(&chunk.generation_id) {
            return;
        }
        self.generations.push_back(chunk.generation_id);
        let excess = self.generations.len().saturating_sub(SESSION_AGENTS_MAX);
        self.generations.drain(..excess);
    }

    fn ended(&mut self, generation: &str, at: Option<&str>) {
        let Some(index) = self.generations.iter().position(|own| own == generation) else { return };
        self.generations.remove(index);
        let at = at.and_then(|at| at.parse::<Timestamp>().ok()).map_or(0, |at| at.unix_ms());
        let (first, last) = self.ended_ms.unwrap_or((at, at));
        self.ended_ms = Some((first.min(at), last.max(at)));
    }

    /// Whether there are so many that it may be worth it to look how large the stream is.
    pub(super) const fn are_many(&self) -> bool {
        self.bytes >= COMPACTION_GAIN_BYTES_MIN
    }

    /// Whether they are a third of the stream or more, so that a compaction without them costs no
    /// more than what was written since the last one. What a compaction wrote that was killed
    /// before its trim does not count: that would be there for ever.
    pub(super) fn are_worth_compacting(&self, head: &Head) -> bool {
        let bytes = head.tail.byte.get() - head.earliest.byte.get();
        let bytes = bytes.saturating_sub(self.doubled);
        self.are_many() && self.bytes * COMPACTION_GAIN_SHARE >= bytes
    }

    /// When a compaction can leave them out, by the wall clock.
    pub(super) fn due(&self, keep: KeepChunks) -> Option<UnixMs> {
        match keep {
            KeepChunks::UntilMessage => Some(UnixMs::new(0)),
            // All of them once the session has been quiet for that long; in a busy one those of
            // the first half of twice that time, so that each compaction is worth its cost.
            KeepChunks::For(time) => {
                let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                let (first, last) = self.ended_ms?;
                let busy = first.saturating_add(time.saturating_mul(2));
                Some(UnixMs::new(last.saturating_add(time).min(busy)))
            }
            KeepChunks::Forever => None,
        }
    }
}

/// What a message of a chunk has beside its row, more or less.
const CHUNK_HEADERS_BYTES: u64 = 120;
