//! The files of a log: their names, and the few that are open.

use std::{
    collections::{HashMap, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use sys::{Disk, File};

use super::place::FileId;

/// Packs kept open for reading, however many there are.
const OPEN_PACKS_MAX: usize = 64;
/// What the names of the two copies of a checkpoint end with.
const CHECKPOINT_ENDINGS: [&str; 2] = [".checkpoint", ".copy"];
/// Copied at a time.
const COPY_BYTES: usize = 1024 * 1024;

/// Where things are in a data directory.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

/// Open files, shared by readers and writers.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) layout: Layout,
    // Held to look up or open a file.
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    segments: HashMap<u32, Arc<dyn File>>,
    /// Least recently used first.
    packs: VecDeque<(u32, Arc<dyn File>)>,
}

impl Layout {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("LOCK")
    }

    /// The two copies of the format file.
    pub(super) fn formats(&self) -> [PathBuf; 2] {
        [self.root.join("FORMAT"), self.root.join("FORMAT.copy")]
    }

    /// A file that holds nothing, so that a full disk has room for regrouping.
    pub(super) fn reserve(&self) -> PathBuf {
        self.root.join("RESERVE")
    }

    /// What a repair has set aside.
    pub(super) fn lost_and_found(&self) -> PathBuf {
        self.root.join("lost+found")
    }

    pub(super) fn wal(&self) -> PathBuf {
        self.root.join("wal")
    }

    /// A file of the write-ahead log; which segment it holds stands inside.
    pub(super) fn slot(&self, slot: u32) -> PathBuf {
        self.wal().join(format!("slot-{slot:06}"))
    }

    pub(super) fn packs(&self) -> PathBuf {
        self.root.join("packs")
    }

    pub(super) fn pack(&self, number: u32) -> PathBuf {
        self.packs().join(format!("{number:010}.pack"))
    }

    pub(super) fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The two copies of a checkpoint.
    pub(super) fn checkpoint(&self, number: u32) -> [PathBuf; 2] {
        CHECKPOINT_ENDINGS.map(|ending| self.checkpoints().join(format!("{number:010}{ending}")))
    }

    /// What the copies of a checkpoint are called until they are whole.
    pub(super) fn unfinished_checkpoint(&self) -> [PathBuf; 2] {
        ["unfinished", "unfinished.copy"].map(|name| self.checkpoints().join(name))
    }
}

/// The number of the checkpoint that a file of this name is a copy of.
pub(super) fn checkpoint_number(name: &str) -> Option<u32> {
    CHECKPOINT_ENDINGS.iter().find_map(|ending| number_in(name, "", ending))
}

/// Removes a file, if it is there.
pub(super) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Copies a file under a new name, and makes its bytes durable, though not yet the name.
pub(super) fn copy_file(disk: &dyn Disk, from: &dyn File, to: &Path) -> io::Result<u64> {
    let copy = disk.create(to)?;
    let length = from.len()?;
    let mut window = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < length {
        let step = window.len().min(usize::try_from(length - at).unwrap_or(usize::MAX));
        from.read_exact_at(&mut window[..step], at)?;
        copy.write_all_at(&window[..step], at)?;
        at += step as u64;
    }
    copy.sync()?;
    Ok(length)
}

/// The number in a file name of the given shape.
pub(super) fn number_in(name: &str, prefix: &str, suffix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.strip_suffix(suffix)?.parse().ok()
}

impl Files {
    pub(super) fn new(disk: Arc<dyn Disk>, layout: Layout) -> Self {
        Self { disk, layout, open: Mutex::default() }
    }

    pub(super) fn get(&self, id: FileId) -> io::Result<Arc<dyn File>> {
        match id {
            FileId::Segment(number) => {
                let segments = &self.open.lock().segments;
                segments.get(&number).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            FileId::Pack(number) => self.pack(number),
        }
    }

    /// For people to read: a segment is named by its number, since files are used again.
    pub(super) fn path(&self, id: FileId) -> PathBuf {
        match id {
            FileId::Segment(number) => self.layout.wal().join(format!("segment {number}")),
            FileId::Pack(number) => self.layout.pack(number),
        }
    }

    pub(super) fn set_segment(&self, number: u32, file: Arc<dyn File>) {
        self.open.lock().segments.insert(number, file);
    }

    pub(super) fn forget_segment(&self, number: u32) {
        self.open.lock().segments.remove(&number);
    }

    pub(super) fn forget_pack(&self, number: u32) {
        self.open.lock().packs.retain(|(open, _)| *open != number);
    }

    fn pack(&self, number: u32) -> io::Result<Arc<dyn File>> {
        let mut open = self.open.lock();
        let packs = &mut open.packs;
        if let Some(at) = packs.iter().position(|(open, _)| *open == number) {
            let found = packs.remove(at).expect("position is in range");
            let file = found.1.clone();
            packs.push_back(found);
            return Ok(file);
        }
        let file = self.disk.open(&self.layout.pack(number))?;
        packs.push_back((number, file.clone()));
        if packs.len() > OPEN_PACKS_MAX {
            packs.pop_front();
        }
        Ok(file)
    }
}
