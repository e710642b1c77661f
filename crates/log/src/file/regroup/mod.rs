//! The background owner that keeps the log small and its streams together.
//!
//! A pass copies the messages of full segments, and of packs that are mostly dead, into new packs,
//! stream by stream; writes a checkpoint; then lets go of what it copied. Streams that were deleted
//! meanwhile are just not copied. Until the checkpoint is durable nothing has happened: a crash or
//! an error at any point leaves the old files in force.

mod full;

pub(super) use full::is_full;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use sys::{Clock, disk::is_unreadable};
use tokio::sync::{mpsc, oneshot};

use super::{
    checkpoint::{CheckpointWriter, Owes, WholeCheckpoint},
    committer::{Command, Detail, Inspection, Roll, Snapshot, SnapshotStream},
    files::Files,
    pack::{PackUse, PackWriter},
    place::{Extent, FileId},
    reader::Reader,
    settings::Settings,
    stream::Stream,
    wal::{self, Fill, Slot},
    wishes::{Job, WishBox},
};
use crate::Incarnation;

/// Slots kept for the next segments.
pub(super) const SPARES_MAX: usize = 3;
/// Spares that a log has when it is opened, and when it is written to: one of them is a reserve.
const SPARES_AT_REST: usize = 1;
const SPARES_AT_WORK: usize = 2;
/// So many small packs are joined into one.
const SMALL_PACKS: usize = 8;
/// After a pass that failed.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// So many passes fail before a record of a segment that the disk does not read is given up.
const UNREAD_PASSES_MAX: u32 = 3;
/// Every pass writes a checkpoint of all streams. Those that only give bytes back wait this many
/// times as long as the last pass took, so that they take at most such a part of the time.
const RECLAIM_SHARE: u32 = 10;

/// The owner.
#[derive(Debug)]
pub(super) struct Regrouper {
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    pub(super) files: Arc<Files>,
    pub(super) reader: Reader,
    pub(super) committer: mpsc::WeakSender<Command>,
    pub(super) packs: BTreeMap<u32, PackUse>,
    pub(super) next_pack: u32,
    pub(super) next_checkpoint: u32,
    pub(super) wishes: WishBox,
    /// Something must leave the disk, and has not yet: every pass goes deep until it has.
    pub(super) erase_owed: bool,
    /// Passes that failed, one after the other, because a segment could not be read.
    pub(super) unread_passes: u32,
    /// How long the last pass took.
    pub(super) last_pass: Duration,
    /// There was no room when it was last looked at.
    pub(super) is_full: bool,
    /// The reserve is in use, or there was no room to make it again.
    pub(super) reserve_is_lent: bool,
    /// Bytes in segments that are needed, when it was last counted.
    pub(super) live_in_segments: u64,
}

/// When to do something, and how thoroughly; none if there is nothing.
type Plan = Option<(Duration, Depth)>;

/// How far a pass goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Rewrite packs that are mostly dead.
    Economy,
    /// Rewrite every pack with dead bytes, and overwrite the segments.
    Erase,
}

enum Stopped {
    /// The log is closed or poisoned.
    Gone,
    Io(io::Error),
}

/// What a pass has written so far.
struct Pass {
    through: u32,
    victims: BTreeSet<u32>,
    /// None when the last pack is finished.
    writer: Option<PackWriter>,
    finished: Vec<(u32, u64)>,
    moves: Vec<(Arc<Stream>, Vec<Extent>)>,
    live: BTreeMap<u32, u64>,
}

impl Regrouper {
    /// Serves until the committer ends.
    pub(super) async fn run(mut self) {
        let mut deadline: Option<(Duration, Depth)> = None;
        self.prepare_spares(SPARES_AT_REST).await;
        self.keep_reserve();
        loop {
            let jobs = match deadline {
                None => self.wishes.next().await,
                Some((at, depth)) => {
                    let left = at.saturating_sub(self.clock.elapsed());
                    match self.clock.timeout(left, self.wishes.next()).await {
                        Ok(jobs) => jobs,
                        Err(sys::Elapsed) => {
                            deadline = self.reclaim(depth).await;
                            continue;
                        }
                    }
                }
            };
            let Some(jobs) = jobs else { return };
            self.erase_owed |= jobs.contains(&Job::Erase);
            for job in jobs {
                deadline = self.serve(job, deadline).await;
            }
        }
    }

    /// Does a job; when something must be done again or later, and how thoroughly.
    async fn serve(&mut self, job: Job, planned: Option<(Duration, Depth)>) -> Plan {
        match job {
            Job::Rolled => {
                self.prepare_spares(SPARES_AT_WORK).await;
                self.regroup_if_many().await.or(planned)
            }
            Job::Reclaim => {
                let wait = self.settings.reclaim_after.max(self.last_pass * RECLAIM_SHARE);
                let at = self.clock.elapsed() + wait;
                planned.or(Some((at, Depth::Economy)))
            }
            Job::Erase => self.reclaim(Depth::Erase).await,
        }
    }

    /// When to try again, if it failed.
    async fn regroup_if_many(&mut self) -> Plan {
        let inspection = self.ask(Command::Inspect).await?;
        if self.must_go_deep() {
            return self.reclaim(Depth::Erase).await;
        }
        if inspection.sealed < self.settings.regroup_segments {
            return None;
        }
        let outcome = self.pass(inspection, Depth::Economy).await;
        self.retry(outcome, Depth::Economy).await
    }

    async fn reclaim(&mut self, depth: Depth) -> Plan {
        // There may be room by now, and an erase needs another segment.
        self.restore_reserve().await;
        if depth == Depth::Economy {
            let inspection = self.roll(Roll::IfUsed).await.ok()?;
            if !self.must_go_deep() {
                let outcome = self.count_and_pass(inspection, depth).await;
                return self.retry(outcome, depth).await;
            }
        }
        let outcome = self.erase().await;
        self.retry(outcome, Depth::Erase).await
    }

    /// An erase that was decided before a pass looked at the log must not be covered by a pass
    /// that leaves its bytes: nothing would remember it.
    fn must_go_deep(&mut self) -> bool {
        self.erase_owed |= self.wishes.erase_is_wished();
        self.erase_owed
    }

    /// Takes everything that nobody can read off the disk: spares, segments and packs.
    async fn erase(&mut self) -> Result<(), Stopped> {
        self.clean_spares().await?;
        let before = self.ask(Command::Inspect).await.ok_or(Stopped::Gone)?;
        let after = self.roll(Roll::Always).await?;
        self.count_and_pass(after, Depth::Erase).await?;
        if after.active == before.active {
            // There was no room for another segment, so this one keeps its bytes for now.
            return Err(io::Error::from(io::ErrorKind::StorageFull).into());
        }
        self.erase_owed = false;
        Ok(())
    }

    async fn clean_spares(&self) -> Result<(), Stopped> {
        let mut outcome = Ok(());
        for slot in self.ask(Command::TakeSpares).await.ok_or(Stopped::Gone)? {
            // One that could not be cleaned stays a spare, and is cleaned when this is tried again.
            outcome = outcome.and(clean(&slot));
            self.tell(Command::Spare(slot)).await;
        }
        Ok(outcome?)
    }

    async fn count_and_pass(&mut self, now: Inspection, depth: Depth) -> Result<(), Stopped> {
        self.count_live().await?;
        self.pass(now, depth).await
    }

    async fn retry(&mut self, outcome: Result<(), Stopped>, depth: Depth) -> Plan {
        let again = Some((self.clock.elapsed() + RETRY_AFTER, depth));
        match outcome {
            Err(Stopped::Gone) => None,
            Ok(()) if self.restore_reserve().await => None,
            Ok(()) => again,
            Err(Stopped::Io(error)) => {
                tracing::warn!(%error, "regrouping failed and will be tried again");
                again
            }
        }
    }

    /// Finds out how much of each pack is needed now.
    async fn count_live(&mut self) -> Result<(), Stopped> {
        let mut live: BTreeMap<u32, u64> = BTreeMap::new();
        let mut after = None;
        self.live_in_segments = 0;
        loop {
            let snapshot = self.snapshot(after, Detail::Needs).await.ok_or(Stopped::Gone)?;
            for item in &snapshot.streams {
                let extents = item.stream.needed_extents(&item.needed);
                count(&mut live, &extents);
                let in_segments = extents.iter().filter(|extent| extent.place.is_in_segment());
                self.live_in_segments += in_segments.map(|one| u64::from(one.length)).sum::<u64>();
            }
            match snapshot.streams.last() {
                Some(last) => after = Some(last.stream.id),
                None => break,
            }
        }
        for (pack, usage) in &mut self.packs {
            usage.live = live.get(pack).copied().unwrap_or(0);
        }
        Ok(())
    }

    /// Sees to it that the next segment finds a file that is cheap to write, and that there is one
    /// for those who make room.
    async fn prepare_spares(&mut self, wanted: usize) {
        while let Some(now) = self.ask(Command::Inspect).await
            && now.spares < wanted
        {
            let Some(number) = self.ask(Command::ReserveSlot).await else { return };
            let bytes = self.settings.segment_bytes;
            match wal::make_slot(&self.files, number, bytes, Fill::Zeros) {
                Ok(slot) => self.tell(Command::Spare(slot)).await,
                Err(error) => {
                    tracing::warn!(%error, "no spare segment could be made");
                    let _ = self.files.disk.remove(&self.files.layout.slot(number));
                    return;
                }
            }
        }
    }

    /// Regroups all there is to regroup; on a full disk, as much of it as there is room for.
    async fn pass(&mut self, inspection: Inspection, depth: Depth) -> Result<(), Stopped> {
        let begun = self.clock.elapsed();
        self.is_full = inspection.is_full;
        let victims = self.victims(depth);
        let through = inspection.active - 1;
        let outcome = self.pass_through(through, victims, inspection, depth).await;
        match &outcome {
            Ok(()) => self.unread_passes = 0,
            Err(Stopped::Io(error)) if is_unreadable(error) => self.unread_passes += 1,
            Err(_) => {}
        }
        self.last_pass = self.clock.elapsed().saturating_sub(begun);
        match outcome {
            Err(Stopped::Io(error)) if is_full(&error) => {
                self.pass_in_reserve(depth).await?;
                // There was too little room for all of it: it is tried again.
                Err(error.into())
            }
            outcome => outcome,
        }
    }

    async fn pass_through(
        &mut self,
        through: u32,
        victims: BTreeSet<u32>,
        inspection: Inspection,
        depth: Depth,
    ) -> Result<(), Stopped> {
        if inspection.sealed == 0 && victims.is_empty() {
            return Ok(());
        }
        let writer = self.new_pack()?;
        let mut pass = Pass {
            through,
            victims,
            writer: Some(writer),
            finished: Vec::new(),
            moves: Vec::new(),
            live: BTreeMap::new(),
        };
        let checkpoint = match self.write(&mut pass, depth).await {
            Ok(checkpoint) => checkpoint,
            Err(stopped) => {
                self.abandon(&pass);
                return Err(stopped);
            }
        };
        let finished = pass.finished.drain(..);
        self.packs.extend(finished.map(|(pack, bytes)| (pack, PackUse { bytes, live: 0 })));
        // From here on a crash may find the new checkpoint, so its packs stay until the next one.
        self.next_checkpoint += 1;
        checkpoint.publish(&self.files, self.next_checkpoint - 1)?;
        self.forget_checkpoints_before(self.next_checkpoint - 1);
        self.install(pass, depth).await
    }

    fn victims(&self, depth: Depth) -> BTreeSet<u32> {
        let small = |usage: &PackUse| usage.bytes < u64::from(self.settings.segment_bytes / 2);
        let join_small = self.packs.values().filter(|usage| small(usage)).count() >= SMALL_PACKS;
        let worth_it = |usage: &PackUse| match depth {
            // Every byte counts now, and none is to spare for tidiness.
            _ if self.is_full => usage.live < usage.bytes,
            Depth::Economy => usage.is_mostly_dead() || (join_small && small(usage)),
            Depth::Erase => usage.live < usage.bytes,
        };
        self.packs.iter().filter(|(_, usage)| worth_it(usage)).map(|(pack, _)| *pack).collect()
    }

    /// Copies what is needed, and writes the checkpoint that says where it is.
    async fn write(&mut self, pass: &mut Pass, depth: Depth) -> Result<WholeCheckpoint, Stopped> {
        let salt = self.reader.salt;
        let owes = if depth == Depth::Erase { Owes::Erase } else { Owes::Nothing };
        let mut checkpoint = CheckpointWriter::create(&self.files, pass.through, owes, salt)?;
        let mut after = None;
        let last_id = loop {
            let snapshot = self.snapshot(after, Detail::Whole).await.ok_or(Stopped::Gone)?;
            for item in &snapshot.streams {
                let extents = self.copy(pass, item)?;
                count(&mut pass.live, &extents);
                checkpoint.add(&item.meta, &extents)?;
                pass.moves.push((item.stream.clone(), extents));
            }
            match snapshot.streams.last() {
                Some(last) => after = Some(last.stream.id),
                None => break snapshot.last_id,
            }
        };
        self.finish_packs(pass)?;
        Ok(checkpoint.finish(last_id)?)
    }

    /// The extents of a stream after the pass: in packs, and only what somebody can read.
    fn copy(&mut self, pass: &mut Pass, item: &SnapshotStream) -> io::Result<Vec<Extent>> {
        let writer = pass.writer.as_mut().expect("packs are finished after the last stream");
        let before = writer.length();
        let mut kept = Vec::new();
        for extent in &item.stream.needed_extents(&item.needed) {
            match extent.place.file {
                FileId::Segment(number) if number > pass.through => break,
                FileId::Pack(number) if !pass.victims.contains(&number) => {
                    kept.extend(writer.finish_record()?);
                    kept.push(*extent);
                }
                _ => match self.reader.messages(&item.stream, extent) {
                    Ok(messages) => {
                        kept.extend(writer.add(item.stream.id, extent.start, &messages)?);
                    }
                    Err(error) => {
                        kept.extend(writer.finish_record()?);
                        kept.push(self.keep_damaged(writer, extent, error)?);
                    }
                },
            }
        }
        kept.extend(writer.finish_record()?);
        if writer.length() > before {
            writer.add_stream(item.stream.id, &item.meta)?;
        }
        if writer.is_full() {
            let next = PackWriter::create(&self.files, self.next_pack, self.reader.salt)?;
            self.next_pack += 1;
            let full = std::mem::replace(writer, next);
            pass.finished.push((full.number, full.finish()?));
        }
        Ok(kept)
    }

    /// A record that cannot be read must not keep the others from being regrouped. Its bytes are
    /// copied as they are, and stay where they are if even that cannot be done.
    ///
    /// What the disk fails to read it may read another time. So in a pack it stays where it is. A
    /// segment must go at last: after some passes what can be read of the record is copied.
    fn keep_damaged(
        &self,
        writer: &mut PackWriter,
        extent: &Extent,
        error: io::Error,
    ) -> io::Result<Extent> {
        let is_bad_sector = is_unreadable(&error);
        let is_damage = matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound
        );
        let is_in_pack = !extent.place.is_in_segment();
        if is_in_pack && is_bad_sector {
            tracing::error!(?extent, %error, "messages of a pack cannot be read, and stay there");
            return Ok(*extent);
        }
        let is_given_up = is_bad_sector && self.unread_passes >= UNREAD_PASSES_MAX;
        if !(is_damage || is_given_up) {
            return Err(error);
        }
        match self.reader.bytes_left(extent) {
            Ok(bytes) => {
                tracing::error!(?extent, %error, "a damaged record was copied as it is");
                writer.add_damaged(extent.start, &bytes)
            }
            Err(_) if is_in_pack => Ok(*extent),
            Err(_) => Err(error),
        }
    }

    fn finish_packs(&self, pass: &mut Pass) -> io::Result<()> {
        if let Some(last) = pass.writer.take() {
            pass.finished.push((last.number, 0));
            let bytes = last.finish()?;
            pass.finished.last_mut().expect("just pushed").1 = bytes;
        }
        self.files.disk.sync_dir(&self.files.layout.packs())
    }

    /// The checkpoint is durable: readers follow, and the old files go.
    async fn install(&mut self, pass: Pass, depth: Depth) -> Result<(), Stopped> {
        for (stream, extents) in pass.moves {
            stream.regrouped(extents, pass.through);
        }
        for (pack, usage) in &mut self.packs {
            usage.live = pass.live.get(pack).copied().unwrap_or(0);
        }
        self.forget_dead_packs()?;
        let through = pass.through;
        let release = |reply| Command::Release { through, reply };
        let freed = self.ask(release).await.ok_or(Stopped::Gone)?;
        Ok(self.recycle(freed, depth).await?)
    }

    fn forget_dead_packs(&mut self) -> io::Result<()> {
        let dead: Vec<u32> =
            self.packs.iter().filter(|(_, usage)| usage.live == 0).map(|(pack, _)| *pack).collect();
        for pack in dead {
            self.packs.remove(&pack);
            self.files.forget_pack(pack);
            self.files.disk.remove(&self.files.layout.pack(pack))?;
        }
        self.files.disk.sync_dir(&self.files.layout.packs())
    }

    /// Freed slots become spares, or go.
    async fn recycle(&mut self, freed: Vec<Slot>, depth: Depth) -> io::Result<()> {
        let spares = self.ask(Command::Inspect).await.map_or(SPARES_MAX, |now| now.spares);
        let wanted = SPARES_MAX.saturating_sub(spares);
        let mut outcome = Ok(());
        for (index, slot) in freed.into_iter().enumerate() {
            let cleaned = if depth == Depth::Erase { clean(&slot) } else { Ok(()) };
            // One that could not be cleaned must not be lost from sight before it is.
            if index < wanted || cleaned.is_err() {
                self.tell(Command::Spare(slot)).await;
            } else {
                outcome = outcome.and(self.files.disk.remove(&self.files.layout.slot(slot.number)));
            }
            outcome = outcome.and(cleaned);
        }
        outcome.and_then(|()| self.files.disk.sync_dir(&self.files.layout.wal()))
    }

    /// Takes back what a failed pass has written. What cannot be removed now, recovery removes.
    fn abandon(&self, pass: &Pass) {
        let written = pass
            .finished
            .iter()
            .map(|(pack, _)| *pack)
            .chain(pass.writer.as_ref().map(|writer| writer.number));
        for pack in written.filter(|pack| !self.packs.contains_key(pack)) {
            let _ = self.files.disk.remove(&self.files.layout.pack(pack));
        }
        for copy in self.files.layout.unfinished_checkpoint() {
            let _ = self.files.disk.remove(&copy);
        }
    }

    fn forget_checkpoints_before(&self, number: u32) {
        // One that stays behind is older than the newest, and recovery removes it.
        if let Some(before) = number.checked_sub(1) {
            for copy in self.files.layout.checkpoint(before) {
                let _ = self.files.disk.remove(&copy);
            }
        }
    }

    fn new_pack(&mut self) -> io::Result<PackWriter> {
        self.next_pack += 1;
        PackWriter::create(&self.files, self.next_pack - 1, self.reader.salt)
    }

    async fn snapshot(&self, after: Option<Incarnation>, detail: Detail) -> Option<Snapshot> {
        self.ask(|reply| Command::Snapshot { after, detail, reply }).await
    }

    /// None if the log is closed or poisoned.
    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.committer.upgrade()?.send(command(reply)).await.ok()?;
        answer.await.ok()
    }

    async fn tell(&self, command: Command) {
        if let Some(committer) = self.committer.upgrade() {
            let _ = committer.send(command).await;
        }
    }
}

/// Overwrites what a slot holds.
fn clean(slot: &Slot) -> io::Result<()> {
    wal::write_zeros(slot.file.as_ref(), 0..slot.file.len()?)?;
    slot.file.sync()
}

fn count(live: &mut BTreeMap<u32, u64>, extents: &[Extent]) {
    for extent in extents {
        if let FileId::Pack(pack) = extent.place.file {
            *live.entry(pack).or_default() += u64::from(extent.length);
        }
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
