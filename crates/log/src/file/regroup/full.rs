//! Regrouping on a full disk.
//!
//! Bytes of deleted streams are given back by writing others: packs and a checkpoint. A file that
//! holds nothing, `RESERVE`, keeps room for that. While it is in use, and until it is there again,
//! no segment is begun to store more: what is freed goes to the reserve first, then to writers.

use std::{collections::BTreeSet, io};

use super::{
    super::{
        committer::{Command, Inspection, Roll},
        files::remove_if_there,
        wal::Purpose,
    },
    Depth, Regrouper, SPARES_AT_REST, Stopped,
};

/// What is reserved: this part of a segment, and at least so many bytes.
const RESERVE_SHARE: u32 = 4;
const RESERVE_BYTES_MIN: u32 = 64 * 1024;

/// True if there is no room on the disk, or in what its owner may use of it. Whatever else a disk
/// refuses is no lack of room, and freeing some would not help.
pub(in super::super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Regrouper {
    /// Begins another segment. On a full disk the last spare is used for that only if there is
    /// nothing else to regroup, and most of the present segment can go.
    pub(super) async fn roll(&mut self, when: Roll) -> Result<Inspection, Stopped> {
        let roll = |purpose| move |reply| Command::Roll { when, purpose, reply };
        let now = self.ask(roll(Purpose::Store)).await.ok_or(Stopped::Gone)?;
        self.is_full = now.is_full;
        if !now.is_full || now.sealed > 0 {
            return Ok(now);
        }
        self.count_live().await?;
        let is_dead = self.live_in_segments * 2 < u64::from(now.active_bytes);
        match is_dead && self.victims(Depth::Economy).is_empty() {
            true => self.ask(roll(Purpose::Free)).await.ok_or(Stopped::Gone),
            false => Ok(now),
        }
    }

    /// Regroups in the room of the reserve, and if that is too little, in that of the spares.
    pub(super) async fn pass_in_reserve(&mut self, depth: Depth) -> Result<(), Stopped> {
        self.reserve_is_lent = true;
        self.tell(Command::ReserveIsLent(true)).await;
        remove_if_there(self.files.disk.as_ref(), &self.files.layout.reserve())?;
        let mut outcome = self.pass_in_steps(depth).await;
        if matches!(&outcome, Err(Stopped::Io(error)) if is_full(error)) {
            for slot in self.ask(Command::TakeSpares).await.ok_or(Stopped::Gone)? {
                self.files.disk.remove(&self.files.layout.slot(slot.number))?;
            }
            outcome = self.pass_in_steps(depth).await;
        }
        self.restore_reserve().await;
        outcome
    }

    /// Regroups the oldest segment, then the next; then the packs, those first of which the least
    /// must be copied.
    async fn pass_in_steps(&mut self, depth: Depth) -> Result<(), Stopped> {
        let first = self.ask(Command::Inspect).await.ok_or(Stopped::Gone)?;
        for step in 0..first.sealed {
            let now = self.ask(Command::Inspect).await.ok_or(Stopped::Gone)?;
            let through = first.active - (first.sealed - step) as u32;
            self.pass_through(through, BTreeSet::new(), now, depth).await?;
        }
        self.is_full = true;
        let mut victims: Vec<u32> = self.victims(depth).into_iter().collect();
        victims.sort_by_key(|pack| self.packs.get(pack).map_or(0, |usage| usage.live));
        for victim in victims {
            if !self.packs.contains_key(&victim) {
                continue;
            }
            let now = self.ask(Command::Inspect).await.ok_or(Stopped::Gone)?;
            self.pass_through(first.active - 1, BTreeSet::from([victim]), now, depth).await?;
        }
        Ok(())
    }

    /// Takes the reserve again; false if there is no room for it yet.
    pub(super) async fn restore_reserve(&mut self) -> bool {
        if self.reserve_is_lent {
            self.prepare_spares(SPARES_AT_REST).await;
            let spares = self.ask(Command::Inspect).await.map_or(0, |now| now.spares);
            if !self.keep_reserve() || spares < SPARES_AT_REST {
                return false;
            }
            self.reserve_is_lent = false;
            self.tell(Command::ReserveIsLent(false)).await;
        }
        true
    }

    /// Sees to it that the reserve is there; false if there is no room for it.
    pub(super) fn keep_reserve(&self) -> bool {
        let path = self.files.layout.reserve();
        let bytes = (self.settings.segment_bytes / RESERVE_SHARE).max(RESERVE_BYTES_MIN);
        let disk = &self.files.disk;
        let file = disk.open(&path).or_else(|_| disk.create(&path));
        let kept = file.and_then(|file| file.allocate(u64::from(bytes)));
        if let Err(error) = &kept {
            tracing::warn!(%error, "no room could be reserved");
            let _ = disk.remove(&path);
        }
        kept.is_ok()
    }
}
