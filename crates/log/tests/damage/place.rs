//! A log on a simulated disk, and ways to break its files.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use log::{
    Append, Create, Fork, Freshness, Log, ReadError,
    file::{FileLog, OpenError, Settings},
};
use sys::{
    Disk, File, Sys, UnixMs,
    disk::{Lock, SimDisk, SimFaults},
};
use wire::{
    Address, ContentType, Epoch, Messages, Offset, Producer, ProducerSeq, ReadFrom, StreamPath,
};

pub(crate) const DIR: &str = "/data";
/// Messages of each stream that [`Place::filled`] makes.
pub(crate) const MESSAGES: u64 = 120;
/// What a disk fails to read at a time.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// A directory on a disk of its own.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) disk: Meter,
    pub(crate) sys: Sys,
}

/// A disk that counts the bytes written into packs.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub(crate) sim: SimDisk,
    written: Arc<AtomicU64>,
    /// What a full disk says, and whether it gives files.
    pub(crate) manner: Arc<Mutex<Manner>>,
}

/// In which way a disk refuses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// Its owner's quota is full, rather than the disk.
    pub(crate) by_quota: bool,
    /// It gives no new file, and says this.
    pub(crate) no_file: Option<io::ErrorKind>,
}

#[derive(Debug)]
struct MeterFile {
    file: Arc<dyn File>,
    /// None if it is no pack.
    written: Option<Arc<AtomicU64>>,
    manner: Arc<Mutex<Manner>>,
}

pub(crate) fn settings() -> Settings {
    Settings {
        segment_bytes: 16 * 1024,
        commit_bytes_max: 2 * 1024,
        hot_bytes_max: 0,
        regroup_segments: 1,
        ..Settings::default()
    }
}

pub(crate) fn stream(name: &str) -> Address {
    name.parse::<StreamPath>().expect("a plain name").into()
}

pub(crate) fn text(name: &str, number: u64) -> String {
    format!("{{\"{name}\":{number},\"pad\":\"{}\"}}", "x".repeat(200))
}

fn append(name: &str, number: u64) -> Append {
    let producer = Producer {
        id: "writer".parse().expect("a plain id"),
        epoch: Epoch::new(1),
        seq: ProducerSeq::new(number),
    };
    let messages = Messages::one(text(name, number)).expect("one message");
    Append { producer: Some(producer), ..Append::messages(messages) }
}

impl Place {
    pub(crate) fn empty() -> Self {
        Self::on(SimDisk::new(1, SimFaults::default()))
    }

    /// The same directory after a restart of the machine, on a disk of its own: another call gives
    /// another copy.
    pub(crate) fn restarted(&self) -> Self {
        Self::on(self.disk.sim.restart())
    }

    fn on(sim: SimDisk) -> Self {
        let disk = Meter { sim: sim.clone(), written: Arc::default(), manner: Arc::default() };
        let sys = Sys::simulated(1, sim, UnixMs::new(1_800_000_000_000));
        let sys = Sys { disk: Arc::new(disk.clone()), ..sys };
        Self { disk, sys }
    }

    /// A closed log with the streams `a` and `b`, interleaved, and `fork` of the first half of `a`,
    /// regrouped but for the newest messages.
    pub(crate) async fn filled() -> Self {
        let place = Self::empty();
        let log = place.open().await;
        let json = Create { content_type: Some(ContentType::json()), ..Create::default() };
        for name in ["a", "b"] {
            let _ = log.create(&stream(name), json.clone()).await.expect("a new name");
        }
        let mut middle = Offset::START;
        for number in 0..MESSAGES {
            for name in ["a", "b"] {
                let done = log.append(&stream(name), append(name, number)).await;
                if name == "a" && number == MESSAGES / 2 {
                    middle = done.expect("an open stream").tail;
                }
            }
        }
        let fork = Fork { offset: Some(middle), ..Fork::of(stream("a")) };
        let _ = log.fork(&stream("fork"), fork).await.expect("a boundary");
        place.rest().await;
        log.close().await;
        place
    }

    /// Lets the regrouper finish what it has to do.
    pub(crate) async fn rest(&self) {
        self.sys.clock.sleep(Duration::from_secs(120)).await;
    }

    pub(crate) async fn try_open(&self) -> Result<FileLog, OpenError> {
        FileLog::open(&self.sys, Path::new(DIR), settings()).await
    }

    pub(crate) async fn open(&self) -> FileLog {
        self.try_open().await.expect("it can be opened")
    }

    /// Appends the next message of a stream that [`Place::filled`] made.
    pub(crate) async fn append_next(&self, log: &FileLog, name: &str) {
        let _ = log.append(&stream(name), append(name, MESSAGES)).await.expect("it takes appends");
    }

    pub(crate) fn files(&self, folder: &str) -> Vec<PathBuf> {
        let dir = Path::new(DIR).join(folder);
        let names = self.disk.list(&dir).unwrap_or_default();
        names.into_iter().map(|name| dir.join(name)).collect()
    }

    pub(crate) fn remove(&self, path: &Path) {
        self.disk.remove(path).expect("a file to remove");
    }

    pub(crate) fn flip(&self, path: &Path, at: u64) {
        let file = self.disk.open(path).expect("a file");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("a byte there");
        file.write_all_at(&[byte[0] ^ 1], at).expect("a byte there");
        file.sync().expect("a sound disk");
    }

    /// Makes a sector unreadable.
    pub(crate) fn spoil(&self, path: &Path, at: u64) {
        self.disk.sim.spoil(path, at..at + SECTOR_BYTES).expect("a file");
    }

    pub(crate) fn read(&self, path: &Path, at: u64, bytes: &mut [u8]) {
        let file = self.disk.open(path).expect("a file");
        file.read_exact_at(bytes, at).expect("bytes there");
    }

    pub(crate) fn length(&self, path: &Path) -> u64 {
        self.disk.open(path).and_then(|file| file.len()).expect("a file")
    }

    pub(crate) fn pack_bytes_written(&self) -> u64 {
        self.disk.written.load(Ordering::Relaxed)
    }
}

/// All messages of a stream as text; where reading ends, and why.
pub(crate) async fn read_all(
    log: &FileLog,
    name: &str,
    mut from: ReadFrom,
) -> (Vec<String>, Result<Offset, ReadError>) {
    let mut texts = Vec::new();
    loop {
        match log.read(&stream(name), from, 700).await {
            Ok(chunk) => {
                let words = chunk.messages().map(|bytes| String::from_utf8_lossy(bytes).into());
                texts.extend(words);
                from = ReadFrom::At(chunk.next);
                if chunk.freshness != Freshness::Behind {
                    return (texts, Ok(chunk.next));
                }
            }
            Err(error) => return (texts, Err(error)),
        }
    }
}

/// Asserts that the streams are as [`Place::filled`] has written them.
pub(crate) async fn check_filled(log: &FileLog) {
    for (name, writer, count) in
        [("a", "a", MESSAGES), ("b", "b", MESSAGES), ("fork", "a", MESSAGES / 2 + 1)]
    {
        let (texts, end) = read_all(log, name, ReadFrom::Start).await;
        end.expect("it can be read to its end");
        let expected: Vec<String> = (0..count).map(|number| text(writer, number)).collect();
        assert_eq!(texts, expected, "{name}");
    }
}

impl Manner {
    fn refusal(self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::StorageFull if self.by_quota => io::ErrorKind::QuotaExceeded.into(),
            _ => error,
        }
    }
}

impl Meter {
    pub(crate) fn manner(&self) -> MutexGuard<'_, Manner> {
        self.manner.lock().expect("no panic while held")
    }
}

impl MeterFile {
    fn refused<T>(&self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| self.manner.lock().expect("no panic while held").refusal(error))
    }
}

impl Disk for Meter {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.sim.create_dir_all(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        // Packs are written only by those who make them.
        self.sim.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let manner = *self.manner();
        if let Some(kind) = manner.no_file {
            return Err(kind.into());
        }
        let file = self.sim.create(path).map_err(|error| manner.refusal(error))?;
        let is_pack = path.extension().is_some_and(|ending| ending == "pack");
        let written = is_pack.then(|| self.written.clone());
        Ok(Arc::new(MeterFile { file, written, manner: self.manner.clone() }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.sim.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.sim.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.sim.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.sim.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.sim.lock(path)
    }
}

impl File for MeterFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if let Some(written) = &self.written {
            written.fetch_add(buf.len() as u64, Ordering::Relaxed);
        }
        self.refused(self.file.write_all_at(buf, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.refused(self.file.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.refused(self.file.allocate(len))
    }
}
