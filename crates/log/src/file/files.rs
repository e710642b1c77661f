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

    pub(super) fn format(&self) -> PathBuf {
        self.root.join("FORMAT")
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

    pub(super) fn checkpoint(&self, number: u32) -> PathBuf {
        self.checkpoints().join(format!("{number:010}.checkpoint"))
    }

    /// What a checkpoint is called until it is whole.
    pub(super) fn unfinished_checkpoint(&self) -> PathBuf {
        self.checkpoints().join("unfinished")
    }
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
