//! Looking at a log at rest, after it was opened or when all clients are done: what was unsure is
//! settled for good.

use std::collections::BTreeMap;

use bytes::Bytes;
use log::{Head, Incarnation};
use sys::UnixMs;
use wire::{Address, Expiry, Offset};

use super::{Absence, Fate, Oracle, Standing, Verdict, Violation, demand};
use crate::coverage::Event;

/// What a look at every name found.
pub(crate) type Sighting = BTreeMap<Address, Result<Head, Absence>>;

impl Oracle {
    /// Settles which streams there are, and how they stand.
    pub(crate) fn settle(&mut self, sighting: &Sighting, now: UnixMs) -> Verdict {
        self.settle_erasures(sighting, now);
        for (address, found) in sighting {
            match found {
                Ok(head) => self.settle_found(address, head, now)?,
                Err(absence) => self.settle_missing(address, *absence, now)?,
            }
        }
        for name in self.names.values_mut() {
            name.trims.clear();
            name.making = None;
        }
        for stream in self.streams.values_mut() {
            (stream.closing, stream.deleting, stream.erasing) = (0, 0, 0);
        }
        Ok(())
    }

    /// An erasure without an answer took the stream and all its forks, or none of them.
    fn settle_erasures(&mut self, sighting: &Sighting, now: UnixMs) {
        let tick = self.next_tick();
        for stream in self.streams.values_mut().filter(|stream| stream.erasing > 0) {
            // Of a stream that may be gone for another reason, only the forks can tell.
            let was_deleted = stream.died.is_some() || stream.deleting > stream.erasing;
            if was_deleted || stream.may_be_expired(now) {
                continue;
            }
            let is_there = |head: &Head| head.incarnation == stream.incarnation;
            let found = sighting.get(&stream.address).and_then(|found| found.as_ref().ok());
            (stream.erasing, stream.deleting) = (0, 0);
            if !found.is_some_and(is_there) {
                (stream.died, stream.erased) = (Some(tick), Some(tick));
            }
        }
    }

    fn settle_found(&mut self, address: &Address, head: &Head, now: UnixMs) -> Verdict {
        let before = self.known(address, now);
        let name = self.name(address);
        if name.current == Some(head.incarnation) {
            demand(!self.was_gone(head.incarnation, &before), || {
                format!("{address} was deleted or has expired, and is back")
            })?;
            return self.observe(head, &before);
        }
        let make = name.making.clone().ok_or_else(|| {
            Violation(format!("{address} is there as {head:?}, but nobody made it"))
        })?;
        let previous = before.incarnation;
        let replaced = previous.is_some_and(|id| self.standing(id, now) == Standing::Live);
        demand(!replaced, || format!("{address} was replaced by another stream"))?;
        // A trim may have followed before anybody was told of the stream.
        let trims = self.name(address).trims.clone();
        let mut made = head.clone();
        if make.fork.is_none() && trims.contains(&head.earliest) {
            made.earliest = Offset::START;
        }
        self.adopt(&make, &made, now)?;
        self.stream_mut(head.incarnation).earliest = head.earliest;
        Ok(())
    }

    fn settle_missing(&mut self, address: &Address, absence: Absence, now: UnixMs) -> Verdict {
        let before = self.known(address, now);
        let tick = self.next_tick();
        if let Some(make) = self.name(address).making.take() {
            if let Some(fork) = make.fork.filter(|_| make.expiry != Expiry::Never) {
                self.stream_mut(fork.parent).may_have_unseen_forks = true;
            }
            let submitted = &mut self.submitted[make.number];
            (submitted.fate, submitted.unsettled) = (Fate::Never, 0);
        }
        self.absent(address, absence, &before, now)?;
        if let Some(id) = before.incarnation {
            demand(self.standing(id, now) != Standing::Live, || format!("{address} is lost"))?;
            let stream = self.stream_mut(id);
            // One past its time may come back for a moment when reads were forgotten by a crash.
            match stream.may_be_expired(now) && stream.died.is_none() {
                true => self.events.push(Event::Expired),
                false => _ = stream.died.get_or_insert(tick),
            }
        }
        Ok(())
    }

    /// Settles what a stream holds: these messages and no others.
    pub(crate) fn settle_content(
        &mut self,
        id: Incarnation,
        content: &[(Offset, Bytes)],
        head: &Head,
    ) -> Verdict {
        for (at, bytes) in content {
            self.learn(id, *at, bytes)?;
        }
        let end = content.last().map(|(at, bytes)| at.after(1, bytes.len() as u64));
        let stream = &self.streams[&id];
        demand(end.unwrap_or(head.earliest) == head.tail && stream.tail == head.tail, || {
            format!("{stream} reads up to {end:?}, ends at {}, was at {}", head.tail, stream.tail)
        })?;
        let mut open = std::mem::take(&mut self.stream_mut(id).open);
        open.retain(|number| self.is_hidden(*number, head.earliest));
        let stream = &self.streams[&id];
        let closers = stream.placed.values().filter(|number| self.submitted[**number].closes);
        demand(closers.count() == 0 || head.closed, || {
            format!("{stream} holds an append that closes it, but is open")
        })?;
        if self.inherits_from_the_dead(id, head) {
            self.events.push(Event::ForkOutlivedSource);
        }
        self.stream_mut(id).open = open;
        self.check_promises(id, head.earliest)
    }

    fn inherits_from_the_dead(&self, id: Incarnation, head: &Head) -> bool {
        let origin = self.streams[&id].origin;
        origin.is_some_and(|origin| {
            origin.end > head.earliest && self.streams[&origin.parent].died.is_some()
        })
    }

    /// Settles an append, unless it may stand where nobody can look any more.
    fn is_hidden(&mut self, number: usize, earliest: Offset) -> bool {
        let submitted = &mut self.submitted[number];
        match submitted.fate {
            Fate::Maybe if submitted.not_before < earliest => return true,
            Fate::Maybe => {
                submitted.fate = Fate::Never;
                self.events.push(Event::UnansweredDropped);
            }
            Fate::Stored if submitted.unsettled > 0 => self.events.push(Event::UnansweredStored),
            Fate::Stored | Fate::Never => {}
        }
        submitted.unsettled = 0;
        submitted.fate == Fate::Stored && submitted.place.is_none()
    }

    /// A duplicate promised that its append is stored, without saying where.
    fn check_promises(&self, id: Incarnation, earliest: Offset) -> Verdict {
        let stream = &self.streams[&id];
        for number in &stream.open {
            let append = &self.submitted[*number];
            let is_missing = append.fate == Fate::Stored
                && append.place.is_none()
                && !append.messages.is_empty()
                && append.not_before >= earliest;
            demand(!is_missing, || format!("{stream} lacks append {number}, a duplicate"))?;
        }
        Ok(())
    }
}
