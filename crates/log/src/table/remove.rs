//! Judging a trim, a delete and an expiry.

use sys::UnixMs;
use wire::{Address, Glob, Offset};

use super::{Absent, Change, Changes, Decided, Table};
use crate::{
    Delete, DeleteError, ForkedElsewhere, Head, Incarnation, OffsetBeyondTail, StreamNotFound,
    TrimError,
};

impl Table {
    /// The engine has made sure that `before` stands between two messages of stream `looked_at`,
    /// or past its tail.
    pub(crate) fn decide_trim(
        &self,
        address: &Address,
        looked_at: Incarnation,
        before: Offset,
        now: UnixMs,
    ) -> Result<Decided<Head>, TrimError> {
        let (id, meta) = self.find(address, now).map_err(TrimError::from)?;
        if id != looked_at {
            return Err(StreamNotFound.into());
        }
        if before > meta.tail {
            return Err(OffsetBeyondTail { tail: meta.tail }.into());
        }
        let mut head = meta.head(id);
        if before <= meta.earliest {
            return Ok(Decided::nothing_to_do(head));
        }
        head.earliest = before;
        Ok(Decided::one(head, Change::Trim { id, before }))
    }

    pub(crate) fn decide_delete(
        &self,
        address: &Address,
        delete: Delete,
        now: UnixMs,
    ) -> Result<Decided<()>, DeleteError> {
        let found = match (delete, self.find(address, now)) {
            (_, Ok((id, _))) => Ok(id),
            // What was deleted for everybody but its forks can still be erased.
            (Delete::Erase, Err(Absent::Gone)) => Ok(self.addresses[address]),
            (_, Err(absent)) => Err(DeleteError::from(absent)),
        };
        let changes = match (found?, delete) {
            (id, Delete::Erase) => self.erase(id),
            (id, Delete::Stream) => self.retire_or_drop(id),
        };
        Ok(Decided { answer: (), changes })
    }

    /// An erase that takes nothing along but streams whose paths one of `within` matches.
    pub(crate) fn decide_erase_within(
        &self,
        address: &Address,
        within: &[Glob],
        now: UnixMs,
    ) -> Result<Decided<()>, DeleteError> {
        let decided = self.decide_delete(address, Delete::Erase, now)?;
        let reaches = |address: &Address| match address {
            Address::Stream(path) => within.iter().any(|glob| glob.matches(path)),
            Address::System(_) => false,
        };
        let is_allowed = |change: &Change| match change {
            // Ancestors that go with their last fork are not erased, and were deleted before.
            Change::Drop { id, erase: true } => {
                let meta = self.meta(*id);
                meta.retired || reaches(&meta.address)
            }
            _ => true,
        };
        match decided.changes.iter().all(is_allowed) {
            true => Ok(decided),
            false => Err(ForkedElsewhere.into()),
        }
    }

    /// The changes that end a stream whose time is over, if it is.
    pub(crate) fn decide_expire(&self, id: Incarnation, now: UnixMs) -> Changes {
        match self.get(id) {
            Some(meta) if !meta.retired && meta.expired(now) => self.retire_or_drop(id),
            _ => Changes::new(),
        }
    }

    /// Drops a stream without forks, and every ancestor that was only kept for it.
    pub(super) fn drop_with_parents(&self, id: Incarnation) -> Changes {
        let mut changes = Changes::new();
        let mut next = Some(id);
        while let Some(id) = next {
            changes.push(Change::Drop { id, erase: false });
            next = self.meta(id).origin.as_ref().map(|origin| origin.parent).filter(|parent| {
                let parent = self.meta(*parent);
                parent.retired && parent.forks == 1
            });
        }
        changes
    }

    fn retire_or_drop(&self, id: Incarnation) -> Changes {
        match self.meta(id).forks {
            0 => self.drop_with_parents(id),
            _ => Changes::from_iter([Change::Retire { id }]),
        }
    }

    /// Drops a stream and all that descend from it, children first.
    fn erase(&self, id: Incarnation) -> Changes {
        let mut family = vec![id];
        let mut next = 0;
        while let Some(&parent) = family.get(next) {
            family.extend(self.children(parent));
            next += 1;
        }
        let mut changes = self.drop_with_parents(id);
        changes.remove(0);
        let descendants = family.into_iter().rev().map(|id| Change::Drop { id, erase: true });
        descendants.chain(changes).collect()
    }
}
