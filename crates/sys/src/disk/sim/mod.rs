//! A disk in memory that forgets what was not synced, as chance has it.

mod content;
mod names;
mod spoiled;
mod survival;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, Hash},
    io,
    ops::Range,
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;
use rustix::io::Errno;

use self::{
    content::{Content, PAGE_BYTES},
    names::{FileId, Names, from_root},
    spoiled::Spoiled,
    survival::Survival,
};
use super::{Disk, File, Lock};
use crate::Chance;

/// A simulated disk. One seed and one sequence of calls give one outcome. Clones share the disk.
///
/// Reads see every write at once. A power cut keeps what was synced, and of the rest what chance
/// spares:
///
/// - A write is kept, lost, or torn at 512-byte sectors, whatever happens to other writes.
/// - A new length is kept or lost; bytes that were lost inside a kept length read as zeros.
/// - A create, rename or remove is kept or lost, whatever happens to other names, until its
///   directory is synced; a rename leaves the file at one of its two names. Syncing a file does
///   not make its name durable.
///
/// What was spoiled ([`SimDisk::spoil`]) stays so until it is written, also over a power cut.
///
/// Paths are taken from the root, which always exists. Directories cannot be renamed.
#[derive(Clone, Debug)]
pub struct SimDisk {
    /// Held for one call, which never waits.
    state: Arc<Mutex<State>>,
}

/// What goes wrong on a [`SimDisk`]. Nothing, by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimFaults {
    /// How many of a million syncs fail with `EIO`. Some of the bytes that such a sync of a file
    /// was to write are then lost to any later sync too, though reads still see them until the
    /// power is cut. Names that such a sync of a directory was to write stay as they were.
    pub sync_error_ppm: u32,
    /// How many of a million writes fail with `EIO`, after a part of them was done.
    pub write_error_ppm: u32,
    /// How much the disk holds, in whole pages of 4096 bytes. A write that needs a new page beyond
    /// that fails with `ENOSPC`, perhaps after a part of it was done.
    pub capacity_bytes: Option<u64>,
    /// The durable operation during which the power is cut, counted as [`SimDisk::op_count`] does;
    /// the first is 1. Chance decides whether that operation was still done.
    pub power_cut_at_op: Option<u64>,
}

#[derive(Debug)]
struct State {
    power: Power,
    names: Names,
    contents: BTreeMap<FileId, Content>,
    spoiled: BTreeMap<FileId, Spoiled>,
    files_made: u64,
    locked: BTreeSet<FileId>,
    faults: SimFaults,
    chance: Chance,
    op_count: u64,
    trace_hash: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    Off,
}

/// One call, for the trace.
#[derive(Hash)]
enum Op<'a> {
    CreateDirAll(&'a Path),
    Open(&'a Path),
    Create(&'a Path),
    List(&'a Path),
    Rename(&'a Path, &'a Path),
    Remove(&'a Path),
    SyncDir(&'a Path),
    Lock(&'a Path),
    Read { file: FileId, offset: u64, len: usize },
    Write { file: FileId, offset: u64, bytes: &'a [u8] },
    Sync(FileId),
    Len(FileId),
    SetLen { file: FileId, len: u64 },
    Allocate { file: FileId, len: u64 },
    Spoil { file: FileId, range: Range<u64> },
    Heal,
    PowerCut,
    Restart,
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    id: FileId,
}

struct HeldLock {
    disk: SimDisk,
    file: FileId,
}

impl SimDisk {
    /// An empty disk whose every accident is decided by `seed`.
    #[must_use]
    pub fn new(seed: u64, faults: SimFaults) -> Self {
        let state = State {
            power: Power::On,
            names: Names::default(),
            contents: BTreeMap::new(),
            spoiled: BTreeMap::new(),
            files_made: 0,
            locked: BTreeSet::new(),
            faults,
            chance: Chance::seeded(seed),
            op_count: 0,
            trace_hash: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Replaces the faults from here on.
    pub fn set_faults(&self, faults: SimFaults) {
        self.state.lock().faults = faults;
    }

    /// Cuts the power: from here on every call on this disk and its files fails.
    pub fn power_cut(&self) {
        let mut state = self.state.lock();
        state.trace(&Op::PowerCut);
        state.power = Power::Off;
    }

    /// Whether the power was cut, by [`SimDisk::power_cut`] or by a fault.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state.lock().power == Power::Off
    }

    /// The disk as it is found when the power is back; it is cut first if it was still on.
    ///
    /// The new disk has the same faults, but no power cut set; it counts its operations from zero
    /// and continues the trace. The old disk stays off. Calling this again draws another state that
    /// the same power cut could have left.
    #[must_use = "the disk that was cut stays off"]
    pub fn restart(&self) -> Self {
        self.power_cut();
        let mut state = self.state.lock();
        state.trace(&Op::Restart);
        Self { state: Arc::new(Mutex::new(state.after_crash())) }
    }

    /// Makes a part of a file unreadable, as a bad sector does: reads that begin there fail with
    /// `EIO`, and those that begin before it end there. Writing it makes it good again.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn spoil(&self, path: &Path, range: Range<u64>) -> io::Result<()> {
        let mut state = self.state.lock();
        let file = state.names.file(&from_root(path))?;
        state.trace(&Op::Spoil { file, range: range.clone() });
        state.spoiled.entry(file).or_default().add(range);
        Ok(())
    }

    /// Makes everything readable again, with the bytes that were there.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.trace(&Op::Heal);
        state.spoiled.clear();
    }

    /// The durable operations begun so far.
    ///
    /// Each `write_all_at`, `sync`, `set_len`, `allocate`, `create`, `rename`, `remove` and
    /// `sync_dir` counts one, over all files together.
    #[must_use]
    pub fn op_count(&self) -> u64 {
        self.state.lock().op_count
    }

    /// A hash of every call so far with all it was given: two runs that agree here did the same.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.state.lock().trace_hash
    }

    /// Makes a call that changes nothing durable.
    fn passing<T>(
        &self,
        op: &Op<'_>,
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state.lock();
        state.begin(op)?;
        act(&mut state)
    }

    /// Makes a call that counts, and at which the power may be cut.
    fn durable<T>(
        &self,
        op: &Op<'_>,
        act: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state.lock();
        state.begin(op)?;
        state.op_count += 1;
        if state.faults.power_cut_at_op != Some(state.op_count) {
            return act(&mut state);
        }
        if state.chance.below(2) == 0 {
            // Nobody hears how it went.
            let _ = act(&mut state);
        }
        state.power = Power::Off;
        Err(power_is_off())
    }

    fn handle(&self, id: FileId) -> Arc<dyn File> {
        Arc::new(SimFile { disk: self.clone(), id })
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = from_root(path);
        self.passing(&Op::CreateDirAll(&path), |state| state.names.create_dir_all(&path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let path = from_root(path);
        let id = self.passing(&Op::Open(&path), |state| state.names.file(&path))?;
        Ok(self.handle(id))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let path = from_root(path);
        let id = self.durable(&Op::Create(&path), |state| state.create(&path))?;
        Ok(self.handle(id))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let dir = from_root(dir);
        self.passing(&Op::List(&dir), |state| state.names.list(&dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (from_root(from), from_root(to));
        self.durable(&Op::Rename(&from, &to), |state| state.names.rename(&from, &to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = from_root(path);
        self.durable(&Op::Remove(&path), |state| state.names.remove(&path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = from_root(dir);
        self.durable(&Op::SyncDir(&dir), |state| state.sync_dir(&dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let path = from_root(path);
        let file = self.passing(&Op::Lock(&path), |state| state.lock(&path))?;
        Ok(Lock { _held: Box::new(HeldLock { disk: self.clone(), file }) })
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let op = Op::Read { file: self.id, offset, len: buf.len() };
        self.disk.passing(&op, |state| state.read(self.id, buf, offset))
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let op = Op::Write { file: self.id, offset, bytes: buf };
        self.disk.durable(&op, |state| state.write(self.id, buf, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.durable(&Op::Sync(self.id), |state| state.sync(self.id))
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.passing(&Op::Len(self.id), |state| Ok(state.content(self.id).len()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let op = Op::SetLen { file: self.id, len };
        self.disk.durable(&op, |state| {
            state.content(self.id).set_len(len);
            state.heal(self.id, len..u64::MAX);
            Ok(())
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let op = Op::Allocate { file: self.id, len };
        self.disk.durable(&op, |state| {
            let pages_free = state.pages_free();
            state.content(self.id).allocate(len, pages_free)
        })
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.disk.state.lock().locked.remove(&self.file);
    }
}

impl State {
    fn begin(&mut self, op: &Op<'_>) -> io::Result<()> {
        if self.power == Power::Off {
            return Err(power_is_off());
        }
        self.trace(op);
        Ok(())
    }

    fn trace(&mut self, op: &Op<'_>) {
        let hasher = foldhash::quality::FixedState::with_seed(self.trace_hash);
        self.trace_hash = hasher.hash_one(op);
    }

    fn content(&mut self, file: FileId) -> &mut Content {
        self.contents.entry(file).or_default()
    }

    fn create(&mut self, path: &Path) -> io::Result<FileId> {
        let id = FileId(self.files_made);
        self.names.create(path, id)?;
        self.files_made += 1;
        Ok(id)
    }

    fn lock(&mut self, path: &Path) -> io::Result<FileId> {
        let file = match self.names.file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path)?,
            found => found?,
        };
        if !self.locked.insert(file) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(file)
    }

    fn read(&mut self, file: FileId, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let good = self.spoiled.get(&file).map_or(u64::MAX, |spoiled| spoiled.readable(offset));
        let good = usize::try_from(good).unwrap_or(usize::MAX).min(buf.len());
        match self.content(file).read_at(&mut buf[..good], offset) {
            // A read of nothing is no failure, nor is one past the end of the file.
            0 if good < buf.len() && offset < self.content(file).len() => Err(Errno::IO.into()),
            count => Ok(count),
        }
    }

    fn heal(&mut self, file: FileId, range: Range<u64>) {
        if let Some(spoiled) = self.spoiled.get_mut(&file) {
            spoiled.heal(&range);
        }
    }

    fn write(&mut self, file: FileId, bytes: &[u8], offset: u64) -> io::Result<()> {
        let pages_free = self.pages_free();
        let fitting = self.content(file).fitting(offset, bytes.len(), pages_free);
        let error = if self.happens(self.faults.write_error_ppm) {
            Errno::IO
        } else if fitting < bytes.len() {
            Errno::NOSPC
        } else {
            self.content(file).write(offset, bytes);
            self.heal(file, offset..offset + bytes.len() as u64);
            return Ok(());
        };
        let done = self.chance.below(fitting as u64 + 1) as usize;
        self.content(file).write(offset, &bytes[..done]);
        self.heal(file, offset..offset + done as u64);
        Err(error.into())
    }

    fn sync(&mut self, file: FileId) -> io::Result<()> {
        if self.happens(self.faults.sync_error_ppm) {
            let survival = Survival::draw(&self.chance);
            self.content(file).fail_sync(&survival);
            return Err(Errno::IO.into());
        }
        self.content(file).sync();
        Ok(())
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        if self.happens(self.faults.sync_error_ppm) {
            return Err(Errno::IO.into());
        }
        self.names.sync_dir(dir)
    }

    fn happens(&self, ppm: u32) -> bool {
        self.chance.below(1_000_000) < u64::from(ppm)
    }

    fn pages_free(&self) -> u64 {
        let Some(capacity_bytes) = self.faults.capacity_bytes else {
            return u64::MAX;
        };
        let named = self.names.files().filter_map(|file| self.contents.get(&file));
        let taken = named.map(Content::pages_taken).sum();
        (capacity_bytes / PAGE_BYTES).saturating_sub(taken)
    }

    /// What the power cut left.
    fn after_crash(&self) -> Self {
        let names = self.names.after_crash(&Survival::draw(&self.chance));
        let named = names.files().filter_map(|file| Some((file, self.contents.get(&file)?)));
        let contents = named
            .map(|(file, content)| (file, content.after_crash(&Survival::draw(&self.chance))))
            .collect();
        Self {
            power: Power::On,
            names,
            contents,
            spoiled: self.spoiled.clone(),
            files_made: self.files_made,
            locked: BTreeSet::new(),
            faults: SimFaults { power_cut_at_op: None, ..self.faults.clone() },
            chance: self.chance.clone(),
            op_count: 0,
            trace_hash: self.trace_hash,
        }
    }
}

fn power_is_off() -> io::Error {
    io::Error::other("power is off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::KillDisk;

    const SEEDS: Range<u64> = 0..200;

    fn path(path: &str) -> &Path {
        Path::new(path)
    }

    fn healthy(seed: u64) -> SimDisk {
        SimDisk::new(seed, SimFaults::default())
    }

    /// A file at `a` whose name is durable.
    fn named_file(disk: &SimDisk) -> io::Result<Arc<dyn File>> {
        let file = disk.create(path("a"))?;
        disk.sync_dir(path("/"))?;
        Ok(file)
    }

    fn read_all(file: &dyn File) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// What `a` holds once the power is back.
    fn after_cut(disk: &SimDisk) -> io::Result<Vec<u8>> {
        read_all(disk.restart().open(path("a"))?.as_ref())
    }

    /// Random writes, cuts, growths and syncs of one file, with all that a crash may leave of it.
    struct Scribble {
        chance: Chance,
        file: Arc<dyn File>,
        /// For each place, its durable value and every value it had since; zero past the end.
        possible: Vec<BTreeSet<u8>>,
        /// The durable length and every length since.
        lens: BTreeSet<u64>,
    }

    impl Scribble {
        fn on(file: Arc<dyn File>, seed: u64) -> Self {
            let possible = vec![BTreeSet::from([0]); 10_000];
            Self { chance: Chance::seeded(seed), file, possible, lens: BTreeSet::from([0]) }
        }

        fn step(&mut self) -> io::Result<()> {
            let place = self.chance.below(5_000);
            match self.chance.below(10) {
                0 => {
                    self.file.sync()?;
                    self.possible.fill(BTreeSet::new());
                    self.lens.clear();
                }
                1 => self.file.set_len(place)?,
                2 => self.file.allocate(place)?,
                _ => {
                    let mut bytes = vec![0; self.chance.below(4_000) as usize];
                    self.chance.fill(&mut bytes);
                    self.file.write_all_at(&bytes, place)?;
                }
            }
            self.note()
        }

        fn note(&mut self) -> io::Result<()> {
            let seen = read_all(self.file.as_ref())?;
            let padded = seen.iter().chain(std::iter::repeat(&0));
            for (possible, byte) in self.possible.iter_mut().zip(padded) {
                possible.insert(*byte);
            }
            self.lens.insert(seen.len() as u64);
            Ok(())
        }
    }

    #[test]
    fn synced_bytes_and_names_survive_every_crash() -> io::Result<()> {
        for seed in SEEDS {
            let disk = healthy(seed);
            let file = named_file(&disk)?;
            file.write_all_at(&[7; 3_000], 0)?;
            file.sync()?;
            file.write_all_at(&[8; 3_000], 3_000)?;
            disk.create(path("b"))?;
            let found = after_cut(&disk)?;
            assert_eq!(found[..3_000], [7; 3_000], "seed {seed}");
        }
        Ok(())
    }

    #[test]
    fn spoiled_bytes_fail_to_be_read_until_they_are_written() -> io::Result<()> {
        let disk = healthy(0);
        let file = named_file(&disk)?;
        file.write_all_at(&[7; 3_000], 0)?;
        file.sync()?;
        disk.spoil(path("a"), 512..1_024)?;
        let mut bytes = [0; 3_000];
        assert_eq!(file.read_at(&mut bytes, 0)?, 512, "up to the bad sector");
        let disk = disk.restart();
        let file = disk.open(path("a"))?;
        let failed = file.read_at(&mut bytes, 512).expect_err("a bad sector");
        assert!(crate::disk::is_unreadable(&failed), "{failed}");
        assert_eq!(file.read_at(&mut bytes, 1_024)?, 3_000 - 1_024);
        file.write_all_at(&[8; 512], 512)?;
        assert_eq!(file.read_at(&mut bytes, 0)?, 3_000);
        disk.spoil(path("a"), 0..100)?;
        disk.heal();
        assert_eq!(read_all(file.as_ref())?[..512], [7; 512]);
        Ok(())
    }

    #[test]
    fn unsynced_overwrites_are_kept_lost_or_torn() -> io::Result<()> {
        let (mut kept, mut lost, mut torn) = (0, 0, 0);
        for seed in SEEDS {
            let disk = healthy(seed);
            let file = named_file(&disk)?;
            file.write_all_at(&[1; 2_048], 0)?;
            file.sync()?;
            file.write_all_at(&[2; 2_048], 0)?;
            let found = after_cut(&disk)?;
            let sectors: Vec<&[u8]> = found.chunks(512).collect();
            assert!(sectors.iter().all(|s| **s == [1; 512] || **s == [2; 512]), "seed {seed}");
            match sectors.iter().filter(|sector| sector[0] == 2).count() {
                0 => lost += 1,
                4 => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(kept > 20 && lost > 20 && torn > 10, "{kept} {lost} {torn}");
        Ok(())
    }

    #[test]
    fn a_later_write_may_survive_an_earlier_one() -> io::Result<()> {
        let mut reordered = 0;
        for seed in SEEDS {
            let disk = healthy(seed);
            let file = named_file(&disk)?;
            file.set_len(2)?;
            file.sync()?;
            file.write_all_at(b"1", 0)?;
            file.write_all_at(b"2", 1)?;
            reordered += u32::from(after_cut(&disk)? == b"\x002");
        }
        assert!(reordered > 5, "{reordered}");
        Ok(())
    }

    #[test]
    fn crashes_invent_nothing() -> io::Result<()> {
        for seed in SEEDS {
            let disk = healthy(seed);
            let mut scribble = Scribble::on(named_file(&disk)?, !seed);
            for _ in 0..20 {
                scribble.step()?;
            }
            let found = after_cut(&disk)?;
            assert!(scribble.lens.contains(&(found.len() as u64)), "seed {seed}");
            for (place, byte) in found.iter().enumerate() {
                assert!(scribble.possible[place].contains(byte), "seed {seed}, byte {place}");
            }
        }
        Ok(())
    }

    #[test]
    fn what_a_restart_found_is_durable() -> io::Result<()> {
        for seed in SEEDS {
            let disk = healthy(seed);
            let mut scribble = Scribble::on(named_file(&disk)?, seed);
            for _ in 0..5 {
                scribble.step()?;
            }
            let once = disk.restart();
            let found = read_all(once.open(path("a"))?.as_ref())?;
            assert_eq!(after_cut(&once)?, found, "seed {seed}");
        }
        Ok(())
    }

    #[test]
    fn replacing_a_file_by_rename_leaves_the_old_bytes_or_the_new() -> io::Result<()> {
        let mut outcomes = BTreeSet::new();
        for seed in SEEDS {
            let disk = healthy(seed);
            let live = named_file(&disk)?;
            live.write_all_at(b"old", 0)?;
            live.sync()?;
            let next = disk.create(path("next"))?;
            next.write_all_at(b"new", 0)?;
            next.sync()?;
            disk.rename(path("next"), path("a"))?;
            outcomes.insert(after_cut(&disk)?);
        }
        assert_eq!(outcomes, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
        Ok(())
    }

    #[test]
    fn syncing_a_new_file_does_not_keep_its_name() -> io::Result<()> {
        let mut outcomes = BTreeSet::new();
        for seed in SEEDS {
            let disk = healthy(seed);
            let file = disk.create(path("a"))?;
            file.write_all_at(b"synced", 0)?;
            file.sync()?;
            outcomes.insert(after_cut(&disk).ok());
        }
        assert_eq!(outcomes, BTreeSet::from([None, Some(b"synced".to_vec())]));
        Ok(())
    }

    #[test]
    fn one_seed_gives_one_image_and_one_trace() -> io::Result<()> {
        let run = |seed| -> io::Result<(Vec<u8>, u64)> {
            let faults = SimFaults { write_error_ppm: 100_000, ..SimFaults::default() };
            let disk = SimDisk::new(seed, faults);
            let file = named_file(&disk)?;
            for n in 0..50 {
                let _ = file.write_all_at(&[n; 700], u64::from(n) * 600);
            }
            let restarted = disk.restart();
            let found = read_all(restarted.open(path("a"))?.as_ref())?;
            Ok((found, restarted.trace_hash()))
        };
        let mut images = BTreeSet::new();
        for seed in SEEDS {
            let first = run(seed)?;
            assert_eq!(first, run(seed)?, "seed {seed}");
            images.insert(first.0);
        }
        assert!(images.len() > 100, "{} images", images.len());
        Ok(())
    }

    #[test]
    fn the_trace_tells_apart_what_was_written() -> io::Result<()> {
        let trace = |bytes: &[u8]| -> io::Result<u64> {
            let disk = healthy(0);
            named_file(&disk)?.write_all_at(bytes, 0)?;
            Ok(disk.trace_hash())
        };
        assert_eq!(trace(b"a")?, trace(b"a")?);
        assert_ne!(trace(b"a")?, trace(b"b")?);
        Ok(())
    }

    #[test]
    fn everything_fails_once_the_power_is_cut() -> io::Result<()> {
        let disk = healthy(0);
        let file = named_file(&disk)?;
        disk.power_cut();
        assert!(disk.is_off());
        let outcomes = [
            file.read_at(&mut [0], 0).map(drop),
            file.write_all_at(b"x", 0),
            file.sync(),
            file.len().map(drop),
            file.set_len(1),
            file.allocate(1),
            disk.create(path("b")).map(drop),
            disk.open(path("a")).map(drop),
            disk.list(path("/")).map(drop),
            disk.rename(path("a"), path("b")),
            disk.remove(path("a")),
            disk.sync_dir(path("/")),
            disk.create_dir_all(path("c")),
            disk.lock(path("l")).map(drop),
        ];
        for outcome in outcomes {
            assert_eq!(outcome.unwrap_err().to_string(), "power is off");
        }
        let restarted = disk.restart();
        restarted.open(path("a"))?.write_all_at(b"x", 0)?;
        assert!(file.sync().is_err(), "old handles stay dead");
        Ok(())
    }

    #[test]
    fn a_power_cut_comes_at_its_operation_which_may_still_be_done() -> io::Result<()> {
        let mut outcomes = BTreeSet::new();
        for seed in SEEDS {
            let faults = SimFaults { power_cut_at_op: Some(4), ..SimFaults::default() };
            let disk = SimDisk::new(seed, faults);
            let file = named_file(&disk)?;
            file.write_all_at(b"x", 0)?;
            assert!(file.sync().is_err() && disk.is_off(), "seed {seed}");
            assert_eq!(disk.op_count(), 4);
            let restarted = disk.restart();
            assert_eq!(restarted.op_count(), 0);
            outcomes.insert(read_all(restarted.open(path("a"))?.as_ref())?);
        }
        assert!(outcomes.contains(b"x".as_slice()) && outcomes.contains(b"".as_slice()));
        Ok(())
    }

    #[test]
    fn a_failed_sync_loses_bytes_that_a_later_sync_does_not_bring_back() -> io::Result<()> {
        let mut lost = 0;
        for seed in SEEDS {
            let disk = healthy(seed);
            let file = named_file(&disk)?;
            disk.set_faults(SimFaults { sync_error_ppm: 1_000_000, ..SimFaults::default() });
            file.write_all_at(b"x", 0)?;
            assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
            assert!(disk.sync_dir(path("/")).is_err());
            disk.set_faults(SimFaults::default());
            file.sync()?;
            assert_eq!(read_all(file.as_ref())?, b"x");
            lost += u32::from(after_cut(&disk)? == b"\0");
        }
        assert!((20..180).contains(&lost), "{lost}");
        Ok(())
    }

    #[test]
    fn a_failed_write_leaves_a_beginning_of_it() -> io::Result<()> {
        let mut lens = BTreeSet::new();
        for seed in SEEDS {
            let faults = SimFaults { write_error_ppm: 1_000_000, ..SimFaults::default() };
            let disk = SimDisk::new(seed, faults);
            let file = named_file(&disk)?;
            assert!(file.write_all_at(b"abc", 0).is_err());
            let found = read_all(file.as_ref())?;
            assert!(b"abc".starts_with(&found), "seed {seed}: {found:?}");
            lens.insert(found.len());
        }
        assert_eq!(lens, BTreeSet::from([0, 1, 2, 3]));
        Ok(())
    }

    #[test]
    fn a_full_disk_refuses_new_space_but_not_what_is_taken() -> io::Result<()> {
        let full = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
        };
        let faults = SimFaults { capacity_bytes: Some(3 * PAGE_BYTES), ..SimFaults::default() };
        let disk = SimDisk::new(0, faults);
        let (written, reserved) = (named_file(&disk)?, disk.create(path("b"))?);
        written.write_all_at(&[1; 4_096], 0)?;
        reserved.allocate(2 * PAGE_BYTES)?;
        full(written.write_all_at(b"x", 4_096));
        full(written.allocate(PAGE_BYTES + 1));
        full(disk.create(path("c"))?.write_all_at(b"x", 0));
        written.write_all_at(&[2; 4_096], 0)?;
        reserved.write_all_at(&[3; 8_192], 0)?;
        reserved.set_len(PAGE_BYTES)?;
        written.write_all_at(b"x", 4_096)?;
        disk.remove(path("b"))?;
        written.write_all_at(b"x", 8_192)
    }

    #[test]
    fn a_write_that_fills_the_disk_leaves_a_beginning_of_it() -> io::Result<()> {
        for seed in SEEDS {
            let faults = SimFaults { capacity_bytes: Some(PAGE_BYTES), ..SimFaults::default() };
            let disk = SimDisk::new(seed, faults);
            let file = named_file(&disk)?;
            assert!(file.write_all_at(&[1; 5_000], 0).is_err());
            let found = read_all(file.as_ref())?;
            assert!(found.len() <= 4_096 && found.iter().all(|&byte| byte == 1), "seed {seed}");
        }
        Ok(())
    }

    #[test]
    fn a_restart_breaks_locks() -> io::Result<()> {
        let disk = healthy(0);
        let held = disk.lock(path("lock"))?;
        let restarted = disk.restart();
        let _held_again = restarted.lock(path("lock"))?;
        drop(held);
        assert!(restarted.lock(path("lock")).is_err(), "the old lock is not the new one");
        Ok(())
    }

    #[test]
    fn operations_are_counted_as_the_kill_disk_counts_them() -> io::Result<()> {
        let disk = healthy(0);
        let counter = KillDisk::counter(Arc::new(disk.clone()));
        counter.create_dir_all(path("sub"))?;
        let file = counter.create(path("sub/a"))?;
        file.write_all_at(b"abc", 0)?;
        file.allocate(10)?;
        file.set_len(5)?;
        file.sync()?;
        file.read_at(&mut [0; 2], 0)?;
        counter.rename(path("sub/a"), path("b"))?;
        counter.sync_dir(path("/"))?;
        counter.remove(path("b"))?;
        let _held = counter.lock(path("lock"))?;
        assert_eq!((counter.count(), disk.op_count()), (8, 8));
        Ok(())
    }
}
