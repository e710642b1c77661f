//! Judging trims and deletes.

use log::{Delete, DeleteError, Head, Incarnation, TrimError};
use sys::UnixMs;
use wire::{Address, Offset};

use super::{Absence, Known, Oracle, Verdict, Violation, demand};

/// A delete that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deleting {
    id: Incarnation,
    delete: Delete,
    before: Known,
}

impl Oracle {
    pub(crate) fn begin_trim(&mut self, address: &Address, trim: Offset, now: UnixMs) -> Known {
        self.name(address).trims.push(trim);
        // To find out whether the place is a boundary, the log may read the stream.
        self.begin_read(address, now)
    }

    pub(crate) fn end_trim(
        &mut self,
        address: &Address,
        trim: Offset,
        before: &Known,
        answer: &Result<Head, TrimError>,
        now: UnixMs,
    ) -> Verdict {
        if answer.as_ref().is_err_and(|error| !error.has_no_side_effects()) {
            return Ok(());
        }
        let verdict = match answer {
            Ok(head) => self.trimmed(address, trim, before, head, now),
            Err(error) => self.trim_refused(address, trim, before, error, now),
        };
        let trims = &mut self.name(address).trims;
        let done = trims.iter().position(|other| *other == trim).expect("noted when it began");
        trims.remove(done);
        verdict
    }

    fn trimmed(
        &mut self,
        address: &Address,
        trim: Offset,
        before: &Known,
        head: &Head,
        now: UnixMs,
    ) -> Verdict {
        self.was_headed(address, before, head)?;
        demand(head.earliest >= trim, || {
            format!("{address} was trimmed to {trim}, but begins at {}", head.earliest)
        })?;
        if self.streams.contains_key(&head.incarnation) {
            self.stream_mut(head.incarnation).may_be_touched(now);
            demand(self.is_boundary(head.incarnation, head.earliest) != Some(false), || {
                format!("{address} was trimmed to {}, inside a message", head.earliest)
            })?;
        }
        Ok(())
    }

    fn trim_refused(
        &mut self,
        address: &Address,
        trim: Offset,
        before: &Known,
        error: &TrimError,
        now: UnixMs,
    ) -> Verdict {
        let wrong = || Err(Violation(format!("trimming {address} to {trim}: {error}")));
        match error {
            TrimError::NotFound(_) => self.absent(address, Absence::NotFound, before, now),
            TrimError::Gone(_) => self.absent(address, Absence::Gone, before, now),
            TrimError::Unavailable(_) => Ok(()),
            TrimError::BeyondTail(_) if trim > before.tail => Ok(()),
            TrimError::OffsetUnknown(_) => {
                let is_alone = self.name(address).trims.len() == 1;
                let known = before.incarnation.and_then(|id| self.is_boundary(id, trim));
                let same = self.known(address, now).incarnation == before.incarnation;
                if known == Some(true) && is_alone && same { wrong() } else { Ok(()) }
            }
            _ => wrong(),
        }
    }

    /// Begins to delete the newest life of a name.
    pub(crate) fn begin_delete(
        &mut self,
        address: &Address,
        delete: Delete,
        now: UnixMs,
    ) -> Option<Deleting> {
        let before = self.known(address, now);
        let id = before.incarnation?;
        self.name(address).users += 1;
        let stream = self.stream_mut(id);
        stream.deleting += 1;
        stream.erasing += usize::from(delete == Delete::Erase);
        Some(Deleting { id, delete, before })
    }

    /// The caller did not wait, or the log could not say what happened.
    pub(crate) fn delete_unanswered(&mut self, address: &Address) {
        self.name(address).users -= 1;
    }

    pub(crate) fn end_delete(
        &mut self,
        address: &Address,
        deleting: &Deleting,
        answer: &Result<(), DeleteError>,
        now: UnixMs,
    ) -> Verdict {
        self.name(address).users -= 1;
        let Deleting { id, delete, before } = deleting;
        if answer.as_ref().is_err_and(|error| !error.has_no_side_effects()) {
            return Ok(());
        }
        let tick = self.next_tick();
        let stream = self.stream_mut(*id);
        stream.deleting -= 1;
        stream.erasing -= usize::from(*delete == Delete::Erase);
        match answer {
            Ok(()) => {
                stream.died.get_or_insert(tick);
                if *delete == Delete::Erase {
                    stream.erased.get_or_insert(tick);
                }
                let was_there = match delete {
                    Delete::Stream => !self.was_gone(*id, before),
                    Delete::Erase => true,
                };
                demand(was_there, || format!("{address} is gone, but was deleted again"))
            }
            Err(DeleteError::NotFound(_)) => self.absent(address, Absence::NotFound, before, now),
            Err(DeleteError::Gone(_)) => self.absent(address, Absence::Gone, before, now),
            Err(DeleteError::Unavailable(_)) => Ok(()),
            Err(other) => Err(Violation(format!("deleting {address}: {other}"))),
        }
    }
}
