//! Judging reads, heads and waits.

use log::{Chunk, Freshness, Head, HeadError, ReadError};
use sys::UnixMs;
use wire::{Address, ReadFrom};

use super::{Absence, Known, Oracle, Verdict, Violation, demand};

impl Oracle {
    /// A read begins; it prolongs the stream's life.
    pub(crate) fn begin_read(&mut self, address: &Address, now: UnixMs) -> Known {
        let before = self.known(address, now);
        if let Some(id) = before.incarnation {
            self.stream_mut(id).may_be_touched(now);
        }
        before
    }

    pub(crate) fn end_read(
        &mut self,
        address: &Address,
        from: ReadFrom,
        before: &Known,
        answer: &Result<Chunk, ReadError>,
        now: UnixMs,
    ) -> Verdict {
        match answer {
            Ok(chunk) => self.was_shown(address, from, before, chunk),
            Err(error) => self.read_refused(address, from, before, error, now),
        }
    }

    fn was_shown(
        &mut self,
        address: &Address,
        from: ReadFrom,
        before: &Known,
        chunk: &Chunk,
    ) -> Verdict {
        let id = chunk.incarnation;
        if !self.streams.contains_key(&id) {
            return self.is_being_made(address);
        }
        demand(!self.was_gone(id, before), || format!("{address} is gone, but can be read"))?;
        let is_same = before.incarnation == Some(id);
        demand(!is_same || chunk.start >= before.earliest, || {
            format!("{address} was trimmed to {}, but shows {}", before.earliest, chunk.start)
        })?;
        if let ReadFrom::At(offset) = from {
            demand(chunk.start == offset || chunk.start <= offset, || {
                format!("{address} was read from {offset}, but shows {}", chunk.start)
            })?;
        }
        let mut at = chunk.start;
        for message in chunk.messages() {
            self.learn(id, at, message)?;
            at = at.after(1, message.len() as u64);
        }
        demand(at == chunk.next, || {
            format!("{address}: a chunk of {} ends at {at}, and says {}", chunk.start, chunk.next)
        })?;
        let stream = self.stream_mut(id);
        stream.reach(at)?;
        let is_last = chunk.freshness != Freshness::Behind;
        demand(!is_same || !is_last || at >= before.tail, || {
            format!("{address} is up to date at {at}, but ended at {} before", before.tail)
        })?;
        let says_closed = chunk.freshness == Freshness::Closed;
        let is_wrong = match says_closed {
            true => !stream.closed && stream.closing == 0,
            false => is_same && is_last && before.closed,
        };
        demand(!is_wrong, || format!("{stream} is shown as {:?}", chunk.freshness))?;
        stream.closed |= says_closed;
        Ok(())
    }

    /// A read was answered by a log that takes writes, so it has prolonged the stream's life.
    pub(crate) fn read_counts(&mut self, chunk: &Chunk, before: &Known, now: UnixMs) {
        if let Some(stream) = self.streams.get_mut(&chunk.incarnation) {
            stream.touched(before.at, now);
        }
    }

    fn read_refused(
        &mut self,
        address: &Address,
        from: ReadFrom,
        before: &Known,
        error: &ReadError,
        now: UnixMs,
    ) -> Verdict {
        let wrong = || Err(Violation(format!("reading {address} from {from:?}: {error}")));
        match (error, from) {
            (ReadError::NotFound(_), _) => self.absent(address, Absence::NotFound, before, now),
            (ReadError::Gone(_), _) => self.absent(address, Absence::Gone, before, now),
            (ReadError::Unavailable(_), _) => Ok(()),
            (ReadError::Trimmed(fact), ReadFrom::At(offset)) if offset < fact.earliest => {
                self.was_trimmed(address, before, fact.earliest)
            }
            (ReadError::OffsetUnknown(_), ReadFrom::At(offset)) => {
                let known = before.incarnation.and_then(|id| self.is_boundary(id, offset));
                if known == Some(true) && offset >= before.earliest { wrong() } else { Ok(()) }
            }
            _ => wrong(),
        }
    }

    /// A refusal named the place where the stream begins.
    fn was_trimmed(
        &mut self,
        address: &Address,
        before: &Known,
        earliest: wire::Offset,
    ) -> Verdict {
        let after = self.known(address, before.at);
        let name = self.name(address);
        let trims = name.trims.clone();
        match name.current {
            Some(id) if before.incarnation == after.incarnation => {
                self.stream_mut(id).trimmed_to(earliest, &trims)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn end_head(
        &mut self,
        address: &Address,
        before: &Known,
        answer: &Result<Head, HeadError>,
        now: UnixMs,
    ) -> Verdict {
        match answer {
            Ok(head) => self.was_headed(address, before, head),
            Err(HeadError::NotFound(_)) => self.absent(address, Absence::NotFound, before, now),
            Err(HeadError::Gone(_)) => self.absent(address, Absence::Gone, before, now),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn was_headed(&mut self, address: &Address, before: &Known, head: &Head) -> Verdict {
        if !self.streams.contains_key(&head.incarnation) {
            return self.is_being_made(address);
        }
        demand(!self.was_gone(head.incarnation, before), || {
            format!("{address} is gone, but has a head")
        })?;
        self.observe(head, before)
    }

    /// A stream may be seen before the one who makes it has its answer.
    pub(super) fn is_being_made(&self, address: &Address) -> Verdict {
        let making = self.names.get(address).is_some_and(|name| name.making.is_some());
        demand(making, || format!("{address} is there, but nobody made it"))
    }
}
