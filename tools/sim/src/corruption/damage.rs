//! Ways to damage a directory: every class of file, every class of byte.

use std::{
    io,
    path::{Path, PathBuf},
};

use sys::Disk as _;

use super::{Scene, judge::Expect};
use crate::oracle::{Verdict, Violation};

/// Where the first frame of a segment stands; what comes before is its head.
const SEGMENT_HEADER_BYTES: u64 = 64;

/// What is done to one file, or to a whole folder.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    deed: Deed,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Format,
    Checkpoint,
    /// All copies of the checkpoint at once.
    Checkpoints,
    /// Both copies of the format file.
    Formats,
    Pack,
    /// A segment before the newest.
    Segment,
    NewestSegment,
    /// A file of the write-ahead log that holds no segment of the log.
    Spare,
    Other,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Flip { at: u64, bit: u8 },
    Zero { at: u64, bytes: u64 },
    Scramble { at: u64, bytes: u64 },
    Cut { at: u64 },
    Extend { bytes: u64 },
    Remove,
    Double,
}

impl Damage {
    pub(super) fn draw(scene: &Scene, dir: &str) -> Self {
        let root = Path::new(dir);
        let folders = ["", "checkpoints", "packs", "wal", "wal", "packs"];
        loop {
            let folder = root.join(scene.dice.pick(&folders).expect("there are some"));
            if folder.ends_with("checkpoints") && scene.dice.percent(20) {
                return Self { path: folder, kind: Kind::Checkpoints, deed: Deed::Remove };
            }
            if folder == root && scene.dice.percent(5) {
                return Self { path: folder, kind: Kind::Formats, deed: Deed::Remove };
            }
            let names = scene.disk.list(&folder).unwrap_or_default();
            let Some(name) = scene.dice.pick(&names) else { continue };
            let path = folder.join(name);
            let Ok(file) = scene.disk.open(&path) else { continue };
            let bytes = file.len().unwrap_or_default();
            let kind = kind_of(scene, &path);
            return Self { path, kind, deed: Deed::draw(scene, bytes) };
        }
    }

    pub(super) fn inflict(&self, scene: &Scene) -> Verdict {
        let done = match self.kind {
            Kind::Checkpoints => remove_all(scene, &self.path, ""),
            Kind::Formats => remove_all(scene, &self.path, "FORMAT"),
            _ => self.inflict_on_file(scene),
        };
        done.map_err(|error| Violation(format!("{self:?}: {error}")))
    }

    fn inflict_on_file(&self, scene: &Scene) -> io::Result<()> {
        let disk = &scene.disk;
        let file = disk.open(&self.path)?;
        let length = file.len()?;
        match self.deed {
            Deed::Remove => return disk.remove(&self.path),
            Deed::Double => {
                let mut bytes = vec![0; length as usize];
                file.read_exact_at(&mut bytes, 0)?;
                let mut copy = double(&self.path);
                while disk.open(&copy).is_ok() {
                    copy = double(&copy);
                }
                return disk.create(&copy)?.write_all_at(&bytes, 0);
            }
            Deed::Cut { at } => return file.set_len(at.min(length)),
            Deed::Extend { bytes } => return file.write_all_at(&noise(scene, bytes), length),
            Deed::Flip { .. } | Deed::Zero { .. } | Deed::Scramble { .. } if length == 0 => {}
            Deed::Flip { at, bit } => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at)?;
                return file.write_all_at(&[byte[0] ^ 1 << bit], at);
            }
            Deed::Zero { at, bytes } => {
                let bytes = bytes.min(length - at);
                return file.write_all_at(&vec![0; bytes as usize], at);
            }
            Deed::Scramble { at, bytes } => {
                return file.write_all_at(&noise(scene, bytes.min(length - at)), at);
            }
        }
        Ok(())
    }

    /// True if nothing tells any more which log the directory holds, once another copy is hit.
    pub(super) fn is_of_format(&self) -> bool {
        matches!(self.kind, Kind::Format | Kind::Formats)
    }

    /// What may come of it.
    pub(super) fn expect(&self) -> Expect {
        let expect = Expect::nothing();
        match (self.kind, self.deed) {
            // One of two copies, or nothing of the log.
            (Kind::Format | Kind::Checkpoint | Kind::Other | Kind::Spare, _) => expect,
            (Kind::Formats, _) => Expect { must_open: false, can_be_repaired: false, ..expect },
            (Kind::Segment | Kind::NewestSegment, Deed::Extend { .. }) => expect,
            (Kind::Segment | Kind::NewestSegment, Deed::Double) => {
                Expect { must_open: false, ..expect }
            }
            (Kind::Checkpoints, _) => Expect { must_open: false, is_rebuilt: true, ..expect },
            (Kind::Pack, Deed::Extend { .. } | Deed::Double) => expect,
            (Kind::Pack, _) => Expect { may_refuse: true, ..expect },
            // Each frame tells its segment, so that a head can be written again.
            (Kind::Segment, deed) if deed.is_in_head() => Expect { must_open: false, ..expect },
            (Kind::Segment, _) => Expect { must_open: false, may_be_shorter: true, ..expect },
            // The newest frame may pass for one that was never acknowledged.
            (Kind::NewestSegment, _) => {
                Expect { must_open: false, may_be_shorter: true, may_shorten: true, ..expect }
            }
        }
    }
}

impl Deed {
    /// True if no byte after the head of a segment is touched.
    fn is_in_head(self) -> bool {
        match self {
            Self::Flip { at, .. } => at < SEGMENT_HEADER_BYTES,
            Self::Zero { at, bytes } | Self::Scramble { at, bytes } => {
                at + bytes <= SEGMENT_HEADER_BYTES
            }
            Self::Cut { .. } | Self::Extend { .. } | Self::Remove | Self::Double => false,
        }
    }

    fn draw(scene: &Scene, bytes: u64) -> Self {
        let dice = &scene.dice;
        let at = place(scene, bytes);
        match dice.between(0..=9) {
            0..=3 => Self::Flip { at, bit: dice.between(0..=7) as u8 },
            4 => Self::Zero { at, bytes: dice.magnitude(1..=4_096) },
            5 => Self::Scramble { at, bytes: dice.magnitude(1..=4_096) },
            6 => Self::Cut { at },
            7 => Self::Extend { bytes: dice.magnitude(1..=2_000) },
            8 => Self::Remove,
            _ => Self::Double,
        }
    }
}

/// A byte of a file: of its head, of its end, or anywhere.
fn place(scene: &Scene, bytes: u64) -> u64 {
    let last = bytes.saturating_sub(1);
    match scene.dice.between(0..=9) {
        0..=2 => scene.dice.between(0..=last.min(SEGMENT_HEADER_BYTES + 40)),
        3..=4 => last - scene.dice.between(0..=last.min(40)),
        _ => scene.dice.between(0..=last),
    }
}

fn noise(scene: &Scene, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|_| scene.dice.between(0..=255) as u8).collect()
}

/// A name of the same shape, with a larger number.
fn double(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let digits = name.find(|c: char| c.is_ascii_digit());
    let double = match digits {
        Some(at) => format!("{}9{}", &name[..at], &name[at..name.len()]),
        None => format!("{name}.double"),
    };
    path.with_file_name(double)
}

fn remove_all(scene: &Scene, dir: &Path, prefix: &str) -> io::Result<()> {
    let names = scene.disk.list(dir)?;
    let mut doomed = names.iter().filter(|name| name.starts_with(prefix));
    doomed.try_for_each(|name| scene.disk.remove(&dir.join(name)))
}

fn kind_of(scene: &Scene, path: &Path) -> Kind {
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    match folder {
        Some("checkpoints") => Kind::Checkpoint,
        Some("packs") => Kind::Pack,
        Some("wal") => kind_of_slot(scene, path),
        _ if path.to_string_lossy().contains("FORMAT") => Kind::Format,
        _ => Kind::Other,
    }
}

/// Segments after the newest checkpoint are in use; the last of them is the newest.
fn kind_of_slot(scene: &Scene, path: &Path) -> Kind {
    let number = |path: &Path| {
        let mut bytes = [0; 12];
        let file = scene.disk.open(path).ok()?;
        file.read_exact_at(&mut bytes, 0).ok()?;
        let is_segment = bytes.starts_with(b"HWsg");
        is_segment.then(|| u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]))
    };
    let wal = path.parent().unwrap_or(path);
    let names = scene.disk.list(wal).unwrap_or_default();
    let newest = names.iter().filter_map(|name| number(&wal.join(name))).max();
    match number(path) {
        None => Kind::Spare,
        own if own == newest => Kind::NewestSegment,
        own if own > covered(scene, wal) => Kind::Segment,
        _ => Kind::Spare,
    }
}

/// The last segment that the newest checkpoint covers.
fn covered(scene: &Scene, wal: &Path) -> Option<u32> {
    let dir = wal.with_file_name("checkpoints");
    let names = scene.disk.list(&dir).ok()?;
    let name = names.iter().filter(|name| name.ends_with(".checkpoint")).max()?;
    let mut bytes = [0; 12];
    scene.disk.open(&dir.join(name)).ok()?.read_exact_at(&mut bytes, 0).ok()?;
    Some(u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]))
}
