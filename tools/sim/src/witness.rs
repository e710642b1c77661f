//! A disk that passes everything on to the simulated one, and remembers what the power cut hit.

use std::{
    fmt, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use sys::{
    Disk, File,
    disk::{Lock, SimDisk, SimFaults},
};

use crate::history::{Detail, History};

/// Bytes that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;
/// Where the first frame of a segment stands; what comes before is its head.
const FIRST_FRAME_AT: u64 = 64;
/// Where the records of a frame begin.
const FRAME_HEADER_BYTES: u64 = 32;

/// The disk the log works on.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    sim: SimDisk,
    history: History,
    // Each is held for one note or look.
    notes: Arc<Mutex<Notes>>,
    weather: Arc<Mutex<Weather>>,
}

/// What goes wrong, and where.
#[derive(Clone, Debug, Default)]
struct Weather {
    faults: SimFaults,
    reach: Reach,
    /// Frames at the edge of a sector that are still spared.
    edges_spared: Option<u64>,
}

/// Which files errors can hit. A power cut and a full disk hit all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    #[default]
    Everything,
    /// Only what is written in the background: packs and checkpoints.
    Background,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// What the power cut interrupted.
    pub(crate) cut: Option<Area>,
    /// Checkpoints that were put in force.
    pub(crate) checkpoints: u64,
    /// Operations that failed although the power was on.
    pub(crate) failures: Vec<Failure>,
    /// The newest frame of the write-ahead log.
    frame: Option<Frame>,
}

/// An operation that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) area: Area,
    pub(crate) is_sync: bool,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// A frame of the write-ahead log, or its sync.
    Commit,
    /// A file of the write-ahead log beside its frames.
    Slot,
    Pack,
    Checkpoint,
    /// Anything else, such as the format file.
    Other,
}

#[derive(Clone, Debug)]
struct Frame {
    path: PathBuf,
    at: u64,
    bytes: Vec<u8>,
}

/// What a power cut left of the newest frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    All,
    Some,
    None,
}

#[derive(Debug)]
struct WitnessFile {
    witness: Witness,
    path: PathBuf,
    file: Arc<dyn File>,
}

impl Witness {
    pub(crate) fn new(sim: SimDisk, history: History) -> Self {
        Self { sim, history, notes: Arc::default(), weather: Arc::default() }
    }

    pub(crate) fn sim(&self) -> &SimDisk {
        &self.sim
    }

    pub(crate) fn notes(&self) -> Notes {
        self.notes.lock().clone()
    }

    /// Replaces what goes wrong from here on.
    pub(crate) fn set_faults(&self, faults: SimFaults, reach: Reach) {
        self.sim.set_faults(faults.clone());
        *self.weather.lock() = Weather { faults, reach, edges_spared: None };
    }

    /// The power goes while the `number`-th frame from now is made durable whose records begin at
    /// the edge of a sector.
    pub(crate) fn cut_at_edge(&self, number: u64) {
        self.weather.lock().edges_spared = Some(number);
    }

    /// A frame is about to be written; if its time has come, its sync will be the last.
    fn spare_edge(&self, at: u64) {
        let mut weather = self.weather.lock();
        let is_edge = (at + FRAME_HEADER_BYTES).is_multiple_of(SECTOR_BYTES as u64);
        let Some(spared) = weather.edges_spared.filter(|_| is_edge) else { return };
        weather.edges_spared = spared.checked_sub(1);
        if spared == 0 {
            weather.faults.power_cut_at_op = Some(self.sim.op_count() + 2);
        }
    }

    pub(crate) fn clear_faults(&self) {
        self.set_faults(SimFaults::default(), Reach::Everything);
    }

    /// The power goes during the `count`-th durable operation from now.
    pub(crate) fn cut_after(&self, count: u64) {
        let power_cut_at_op = Some(self.sim.op_count() + count);
        let faults = SimFaults { power_cut_at_op, ..SimFaults::default() };
        self.set_faults(faults, Reach::Everything);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.sim.is_off()
    }

    /// The disk after a power cut, with nothing going wrong any more. Asked again, it tells
    /// another way in which the same cut could have ended.
    pub(crate) fn restart(&self) -> Self {
        let witness = Self::new(self.sim.restart(), self.history.clone());
        witness.clear_faults();
        witness
    }

    /// The same disk for a new process.
    pub(crate) fn reopen(&self) -> Self {
        let witness = Self::new(self.sim.clone(), self.history.clone());
        witness.clear_faults();
        witness
    }

    /// What is left on this disk of the newest frame that `before` wrote.
    pub(crate) fn remains_of_newest_frame(&self, before: &Notes) -> Option<Remains> {
        let frame = before.frame.as_ref()?;
        let mut found = vec![0; frame.bytes.len()];
        self.sim
            .open(&frame.path)
            .and_then(|file| file.read_exact_at(&mut found, frame.at))
            .ok()?;
        let to_boundary = SECTOR_BYTES - frame.at as usize % SECTOR_BYTES;
        let cut = to_boundary.min(found.len());
        let kept = sectors(&found, cut).zip(sectors(&frame.bytes, cut)).map(|(a, b)| a == b);
        let (kept, lost): (Vec<bool>, Vec<bool>) = kept.partition(|kept| *kept);
        Some(match (kept.len(), lost.len()) {
            (_, 0) => Remains::All,
            (0, _) => Remains::None,
            _ => Remains::Some,
        })
    }

    /// Makes a call in the weather of its area, and notes how it went.
    fn call<T>(&self, deed: &Deed<'_>, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Weather { faults, reach, .. } = self.weather.lock().clone();
        let is_reached = reach == Reach::Everything || deed.area.is_background();
        self.sim.set_faults(match is_reached {
            true => faults,
            false => SimFaults { sync_error_ppm: 0, write_error_ppm: 0, ..faults },
        });
        let result = call();
        if self.history.detail == Detail::Disk {
            let outcome = result.as_ref().err().map(io::Error::to_string).unwrap_or_default();
            self.history.note(&format!("    {deed} {outcome}"));
        }
        let mut notes = self.notes.lock();
        if let Err(error) = &result {
            if self.sim.is_off() {
                notes.cut.get_or_insert(deed.area);
            } else if error.kind() != io::ErrorKind::NotFound {
                notes
                    .failures
                    .push(Failure { area: deed.area, is_sync: deed.verb.starts_with("sync") });
            }
        }
        result
    }
}

impl Area {
    fn is_background(self) -> bool {
        matches!(self, Self::Pack | Self::Checkpoint)
    }
}

fn sectors(bytes: &[u8], first: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::once(&bytes[..first]).chain(bytes[first..].chunks(SECTOR_BYTES))
}

fn area_of(path: &Path) -> Area {
    match path.parent().and_then(Path::file_name).and_then(|name| name.to_str()) {
        Some("wal") => Area::Slot,
        Some("packs") => Area::Pack,
        Some("checkpoints") => Area::Checkpoint,
        _ => Area::Other,
    }
}

/// A directory counts as what it holds.
fn area_of_dir(path: &Path) -> Area {
    area_of(&path.join("entry"))
}

/// What is asked of the disk.
#[derive(Debug)]
struct Deed<'a> {
    verb: &'static str,
    path: &'a Path,
    area: Area,
    bytes: Option<Range<u64>>,
}

impl<'a> Deed<'a> {
    fn on(verb: &'static str, path: &'a Path) -> Self {
        Self { verb, path, area: area_of(path), bytes: None }
    }

    fn on_dir(verb: &'static str, path: &'a Path) -> Self {
        Self { area: area_of_dir(path), ..Self::on(verb, path) }
    }
}

impl fmt::Display for Deed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.path.display())?;
        match &self.bytes {
            Some(bytes) => write!(f, " {bytes:?}"),
            None => Ok(()),
        }
    }
}

impl Disk for Witness {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.call(&Deed::on_dir("make", path), || self.sim.create_dir_all(path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = self.call(&Deed::on("open", path), || self.sim.open(path))?;
        Ok(Arc::new(WitnessFile { witness: self.clone(), path: path.to_owned(), file }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = self.call(&Deed::on("create", path), || self.sim.create(path))?;
        Ok(Arc::new(WitnessFile { witness: self.clone(), path: path.to_owned(), file }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.call(&Deed::on_dir("list", dir), || self.sim.list(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(&Deed::on("rename to", to), || self.sim.rename(from, to))?;
        if area_of(to) == Area::Checkpoint {
            self.notes.lock().checkpoints += 1;
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(&Deed::on("remove", path), || self.sim.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call(&Deed::on_dir("sync", dir), || self.sim.sync_dir(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.call(&Deed::on("lock", path), || self.sim.lock(path))
    }
}

impl WitnessFile {
    /// Frames and their syncs are commits; the rest of a slot's life is not.
    fn deed(&self, verb: &'static str) -> Deed<'_> {
        let deed = Deed::on(verb, &self.path);
        let notes = self.witness.notes.lock();
        match &notes.frame {
            Some(frame) if deed.area == Area::Slot && frame.path == self.path => {
                Deed { area: Area::Commit, ..deed }
            }
            _ => deed,
        }
    }
}

impl File for WitnessFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if area_of(&self.path) == Area::Slot && offset >= FIRST_FRAME_AT {
            let frame = Frame { path: self.path.clone(), at: offset, bytes: buf.to_vec() };
            self.witness.notes.lock().frame = Some(frame);
            self.witness.spare_edge(offset);
        }
        let bytes = Some(offset..offset + buf.len() as u64);
        let deed = Deed { bytes, ..self.deed("write") };
        self.witness.call(&deed, || self.file.write_all_at(buf, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.witness.call(&self.deed("sync"), || self.file.sync())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let deed = Deed { bytes: Some(0..len), ..self.deed("cut") };
        self.witness.call(&deed, || self.file.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let deed = Deed { bytes: Some(0..len), ..self.deed("allocate") };
        self.witness.call(&deed, || self.file.allocate(len))
    }
}
