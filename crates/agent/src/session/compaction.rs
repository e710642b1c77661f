//! When a session is worth compacting, and what is known of it afterwards.

use ::state::Ticks;
use live::Compacted;
use log::{Freshness, Head, HeadError};
use sys::UnixMs;
use wire::{Offset, Position, ReadFrom};

use super::{Session, chunks::ChunkCount};
use crate::{
    caps::{COMPACTION_GAIN_BYTES_MIN, COMPACTION_GAIN_SHARE, SESSION_READ_BYTES},
    rows::KeepChunks,
};

impl Session {
    /// When a compaction would give back so much that it is worth it, by the wall clock; none if
    /// it would not, or something is open. If a compaction has left out some chunks since they were
    /// counted, which ones only the stream tells: it is read once.
    ///
    /// # Errors
    /// If the stream is not there.
    pub async fn compaction_due(&mut self, keep: KeepChunks) -> Result<Option<UnixMs>, HeadError> {
        if !self.state.chunks.are_many() || self.state.chunks.due(keep).is_none() {
            return Ok(None);
        }
        let head = self.log.head(&self.address).await?;
        let is_open = head.closed || self.state.oldest_open().is_some();
        let is_too_soon = head.tail.byte.get() < self.compact_at;
        if is_open || is_too_soon || !self.state.chunks.are_worth_compacting(&head) {
            return Ok(None);
        }
        if self.counted_from != Some(head.earliest) && !self.count_anew(&head).await {
            return Ok(None);
        }
        let chunks = &self.state.chunks;
        Ok(chunks.due(keep).filter(|_| chunks.are_worth_compacting(&head)))
    }

    /// A compaction that was to keep chunks for so long has come to its end. What was read up to
    /// its snapshot stays true, and reading goes on behind it.
    pub async fn compacted(&mut self, compacted: &Compacted, keep: KeepChunks) {
        let Some(snapshot) = &compacted.snapshot else {
            let read = self.next.map_or(Offset::START, |(next, _)| next);
            return self.wait_for_growth(read, compacted.before.bytes);
        };
        // What an effect holds is kept for as long as it does.
        if compacted.held_by.is_some() {
            self.wait_for_growth(snapshot.end, compacted.after.bytes);
        }
        let Some((next, _)) = &mut self.next else { return };
        if *next != snapshot.start {
            return;
        }
        *next = snapshot.end;
        // If chunks are left, they are counted on demand.
        if keep == KeepChunks::UntilMessage && compacted.reach == snapshot.start.position {
            self.state.chunks = ChunkCount::default();
            self.counted_from = Some(snapshot.start);
        }
        // The snapshot that is kept is from before what the stream holds now.
        if self.kept != Offset::START {
            self.keep().await;
        }
    }

    /// A compaction was refused, and would be again.
    pub fn not_compacted(&mut self) {
        let read = self.next.map_or(Offset::START, |(next, _)| next);
        let from = self.counted_from.map_or(0, |from| from.byte.get());
        self.wait_for_growth(read, read.byte.get().saturating_sub(from));
    }

    /// Has no compaction tried before a stream of this size that ends there has grown by a part of
    /// it, so that what is read in vain is no more than a few times what is written.
    fn wait_for_growth(&mut self, end: Offset, size: u64) {
        let growth = (size / COMPACTION_GAIN_SHARE).max(COMPACTION_GAIN_BYTES_MIN);
        self.compact_at = end.byte.get() + growth;
    }

    /// Counts the chunks that the stream holds; false if it could not be read.
    async fn count_anew(&mut self, head: &Head) -> bool {
        // The rest of a transaction that is not complete would be counted twice.
        let Some((end, life)) = self.next.filter(|_| !self.ticks.is_open()) else { return false };
        let (mut chunks, mut ticks, mut next) = (ChunkCount::default(), Ticks::new(), None);
        loop {
            let from = next.map_or(ReadFrom::Start, ReadFrom::At);
            let read = self.log.read(&self.address, from, SESSION_READ_BYTES).await;
            let Ok(chunk) = read else { return false };
            let is_first = next.is_some() || chunk.start == head.earliest;
            if chunk.incarnation != life || !is_first {
                return false;
            }
            let places = (chunk.start.position.get()..).map(Position::new);
            for (lies, message) in places.zip(chunk.messages()) {
                if lies < end.position
                    && let Some(tick) = ticks.push(lies, message)
                {
                    chunks.take(&tick);
                }
            }
            if chunk.next >= end || chunk.freshness != Freshness::Behind {
                break;
            }
            next = Some(chunk.next);
        }
        chunks.doubled(ticks.known_bytes());
        ticks.up_to_date().into_iter().for_each(|tick| chunks.take(&tick));
        (self.state.chunks, self.counted_from) = (chunks, Some(head.earliest));
        true
    }
}
