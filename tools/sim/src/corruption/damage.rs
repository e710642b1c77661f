//! Ways to damage a directory: every class of file, every class of byte.

use std::{
    io,
    path::{Path, PathBuf},
};

use sys::Disk as _;

use super::{
    DIR, Scene,
    anatomy::{self, Class, Parts},
    cell::{self, Act, Cell, Copies, Kind},
    judge::Expect,
};
use crate::oracle::{Verdict, Violation};

/// Where the first frame of a segment stands; what comes before is its head.
const SEGMENT_HEADER_BYTES: u64 = 64;
/// What a disk fails to read, it fails to read by the sector.
const SECTOR_BYTES: u64 = 512;

/// What is done to one file, or to both copies of it.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub(super) cell: Cell,
    deeds: Vec<(PathBuf, Deed)>,
    /// The files of the segments in use before the one that is hit.
    pub(super) older: Vec<PathBuf>,
    /// False before the first checkpoint was written.
    pub(super) has_checkpoint: bool,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Flip { at: u64, bit: u8 },
    Zero { at: u64, bytes: u64 },
    Scramble { at: u64, bytes: u64 },
    Cut { at: u64 },
    Spoil { at: u64, bytes: u64 },
    Extend { bytes: u64 },
    Remove,
    Double,
}

impl Damage {
    /// The damage whose turn it is, so that all are met; any other if this directory has no such
    /// file.
    pub(super) fn draw(scene: &Scene, turn: Option<u64>) -> Self {
        let cells = cell::of_log();
        let first = turn.map(cell::of_turn);
        let others = std::iter::repeat_with(|| *scene.dice.pick(&cells).expect("there are some"));
        let drawn = first.into_iter().chain(others).find_map(|cell| Self::aim(scene, cell));
        drawn.expect("there are files in every directory")
    }

    /// A damage to what a repair has set aside.
    pub(super) fn draw_set_aside(scene: &Scene) -> Option<Self> {
        Self::aim(scene, *scene.dice.pick(&cell::of_set_aside())?)
    }

    fn aim(scene: &Scene, cell: Cell) -> Option<Self> {
        let of_kind = files(scene, cell.kind);
        let mut paths = match cell.copies {
            Copies::One => vec![scene.dice.pick(&of_kind)?.clone()],
            // Two copies, and of checkpoints there may be older ones.
            _ => of_kind.get(of_kind.len().checked_sub(2)?..)?.to_vec(),
        };
        let first = paths.remove(0);
        let deed = Deed::draw(scene, cell, &contents(scene, &first)?)?;
        let mut deeds = vec![(first, deed)];
        for path in paths {
            let bytes = contents(scene, &path)?;
            let deed = if cell.copies == Copies::BothApart {
                Deed::draw_elsewhere(scene, cell.act, deed, bytes.len() as u64)
            } else {
                deed
            };
            deeds.push((path, deed));
        }
        let older = match cell.kind {
            Kind::Segment | Kind::NewestSegment => older_segments(scene, &deeds[0].0),
            _ => Vec::new(),
        };
        let has_checkpoint = !files(scene, Kind::Checkpoint).is_empty();
        Some(Self { cell, deeds, older, has_checkpoint })
    }

    pub(super) fn inflict(&self, scene: &Scene) -> Verdict {
        let mut deeds = self.deeds.iter();
        let done = deeds.try_for_each(|(path, deed)| deed.inflict(scene, path));
        done.map_err(|error| Violation(format!("{self:?}: {error}")))
    }

    /// The first file that is hit.
    pub(super) fn path(&self) -> &Path {
        &self.deeds[0].0
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.deeds.iter().map(|(path, _)| path.as_path())
    }

    /// Where the damage of the first file begins.
    pub(super) fn first_byte(&self) -> Option<u64> {
        match self.deeds[0].1 {
            Deed::Flip { at, .. }
            | Deed::Zero { at, .. }
            | Deed::Scramble { at, .. }
            | Deed::Cut { at }
            | Deed::Spoil { at, .. } => Some(at),
            Deed::Extend { .. } | Deed::Remove | Deed::Double => None,
        }
    }

    /// True if nothing tells any more which log the directory holds, once another copy is hit.
    pub(super) fn is_of_format(&self) -> bool {
        self.cell.kind == Kind::Format
    }

    pub(super) fn is_of_segment(&self) -> bool {
        matches!(self.cell.kind, Kind::Segment | Kind::NewestSegment)
    }

    /// True if bytes cannot be read, and might be, some time: nothing is decided without them.
    pub(super) fn bars_decisions(&self) -> bool {
        self.cell.act == Act::Spoil && !matches!(self.cell.kind, Kind::Pack | Kind::Other)
    }

    /// What may come of it.
    pub(super) fn expect(&self) -> Expect {
        let expect = Expect::nothing();
        let has_copy = matches!(self.cell.kind, Kind::Format | Kind::Checkpoint)
            && self.cell.copies == Copies::One;
        match (self.cell.kind, self.cell.act) {
            _ if has_copy => expect,
            (Kind::Other | Kind::SetAside, _) | (Kind::Format | Kind::Checkpoint, Act::Double) => {
                expect
            }
            (_, Act::Spoil) if self.bars_decisions() => {
                Expect { must_open: false, can_be_repaired: false, ..expect }
            }
            (Kind::Spare, _) => expect,
            (Kind::Format, _) => Expect { must_open: false, can_be_repaired: false, ..expect },
            (Kind::Checkpoint | Kind::Segment | Kind::NewestSegment, Act::Extend) => expect,
            (Kind::Segment | Kind::NewestSegment, Act::Double) => {
                Expect { must_open: false, ..expect }
            }
            (Kind::Checkpoint, _) => Expect { must_open: false, is_rebuilt: true, ..expect },
            (Kind::Pack, Act::Extend | Act::Double) => expect,
            (Kind::Pack, _) => Expect { may_refuse: true, keeps_all: false, ..expect },
            // Each frame tells its segment, so that a head can be written again.
            (Kind::Segment, _) if self.deeds[0].1.is_in_head() => {
                Expect { must_open: false, ..expect }
            }
            (Kind::Segment, _) => Expect {
                must_open: false,
                may_be_shorter: true,
                is_rebuilt: !self.has_checkpoint,
                keeps_all: false,
                ..expect
            },
            // The newest frame may pass for one that was never acknowledged.
            (Kind::NewestSegment, _) => Expect {
                must_open: false,
                may_be_shorter: true,
                may_shorten: true,
                keeps_all: false,
                ..expect
            },
        }
    }
}

impl Deed {
    /// True if no byte after the head of a segment is touched.
    fn is_in_head(self) -> bool {
        match self {
            Self::Flip { at, .. } => at < SEGMENT_HEADER_BYTES,
            Self::Zero { at, bytes } | Self::Scramble { at, bytes } | Self::Spoil { at, bytes } => {
                at + bytes <= SEGMENT_HEADER_BYTES
            }
            Self::Cut { .. } | Self::Extend { .. } | Self::Remove | Self::Double => false,
        }
    }

    /// None if the file has no byte of that class.
    fn draw(scene: &Scene, cell: Cell, bytes: &[u8]) -> Option<Self> {
        let mut parts = parts_of(cell.kind, bytes);
        parts.retain(|(class, range)| *class == cell.class && !range.is_empty());
        let at = match cell.class {
            Class::File => 0,
            _ => {
                let (_, range) = scene.dice.pick(&parts)?.clone();
                scene.dice.between(range.start as u64..=range.end as u64 - 1)
            }
        };
        Some(Self::of(scene, cell.act, at, bytes.len() as u64))
    }

    /// The same, at another place.
    fn draw_elsewhere(scene: &Scene, act: Act, first: Self, length: u64) -> Self {
        let deed = Self::of(scene, act, scene.dice.between(0..=length.max(1) - 1), length);
        match (first, deed) {
            (Self::Flip { at, .. }, Self::Flip { at: same, bit }) if at == same => {
                Self::Flip { at: (at + 1) % length.max(1), bit }
            }
            _ => deed,
        }
    }

    fn of(scene: &Scene, act: Act, at: u64, length: u64) -> Self {
        let dice = &scene.dice;
        let left = (length - at.min(length)).max(1);
        match act {
            Act::Flip => Self::Flip { at, bit: dice.between(0..=7) as u8 },
            Act::Zero => Self::Zero { at, bytes: dice.magnitude(1..=4_096).min(left) },
            Act::Scramble => Self::Scramble { at, bytes: dice.magnitude(1..=4_096).min(left) },
            Act::Cut => Self::Cut { at },
            Act::Spoil => {
                let at = at - at % SECTOR_BYTES;
                Self::Spoil { at, bytes: SECTOR_BYTES * dice.between(1..=8) }
            }
            Act::Extend => Self::Extend { bytes: dice.magnitude(1..=2_000) },
            Act::Remove => Self::Remove,
            Act::Double => Self::Double,
        }
    }

    fn inflict(self, scene: &Scene, path: &Path) -> io::Result<()> {
        let disk = &scene.disk;
        let file = disk.open(path)?;
        let length = file.len()?;
        match self {
            Self::Remove => disk.remove(path),
            Self::Double => {
                let mut bytes = vec![0; length as usize];
                file.read_exact_at(&mut bytes, 0)?;
                disk.create(&double(scene, path))?.write_all_at(&bytes, 0)
            }
            Self::Cut { at } => file.set_len(at.min(length)),
            Self::Extend { bytes } => file.write_all_at(&noise(scene, bytes), length),
            Self::Spoil { at, bytes } => disk.spoil(path, at..at + bytes),
            Self::Flip { at, .. } | Self::Zero { at, .. } | Self::Scramble { at, .. }
                if at >= length =>
            {
                Ok(())
            }
            Self::Flip { at, bit } => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at)?;
                file.write_all_at(&[byte[0] ^ 1 << bit], at)
            }
            Self::Zero { at, bytes } => {
                file.write_all_at(&vec![0; bytes.min(length - at) as usize], at)
            }
            Self::Scramble { at, bytes } => {
                file.write_all_at(&noise(scene, bytes.min(length - at)), at)
            }
        }
    }
}

fn noise(scene: &Scene, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|_| scene.dice.between(0..=255) as u8).collect()
}

/// A name of the same shape, with the next number that no file of its folder has.
fn double(scene: &Scene, path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_digit = |c: char| c.is_ascii_digit();
    let number = |name: &str| -> Option<u64> {
        let digits = name.find(is_digit).map(|at| &name[at..])?;
        digits[..digits.find(|c| !is_digit(c)).unwrap_or(digits.len())].parse().ok()
    };
    let folder = path.parent().unwrap_or(path);
    let names = scene.disk.list(folder).unwrap_or_default();
    let next = names.iter().filter_map(|name| number(name)).max().unwrap_or_default() + 1;
    let double = match (number(name), name.find(is_digit)) {
        (Some(own), Some(at)) => {
            let width = name[at..].find(|c| !is_digit(c)).unwrap_or(name.len() - at);
            debug_assert!(own < next, "it is one of those in the folder");
            format!("{}{next:0width$}{}", &name[..at], &name[at + width..])
        }
        _ => format!("{name}.double{}", names.len()),
    };
    path.with_file_name(double)
}

fn contents(scene: &Scene, path: &Path) -> Option<Vec<u8>> {
    let file = scene.disk.open(path).ok()?;
    let mut bytes = vec![0; file.len().ok()? as usize];
    // Of what was spoiled before, nothing can be said.
    file.read_exact_at(&mut bytes, 0).ok().map(|()| bytes)
}

fn parts_of(kind: Kind, bytes: &[u8]) -> Parts {
    match kind {
        Kind::Format => anatomy::of_format(bytes),
        Kind::Checkpoint => anatomy::of_checkpoint(bytes),
        Kind::Pack => anatomy::of_pack(bytes),
        Kind::Segment | Kind::NewestSegment => anatomy::of_segment(bytes),
        Kind::Spare | Kind::Other | Kind::SetAside => anatomy::of_other(bytes),
    }
}

/// The files of a kind.
fn files(scene: &Scene, kind: Kind) -> Vec<PathBuf> {
    let folder = match kind {
        Kind::Format | Kind::Other => "",
        Kind::Checkpoint => "checkpoints",
        Kind::Pack => "packs",
        Kind::Segment | Kind::NewestSegment | Kind::Spare => "wal",
        Kind::SetAside => "lost+found",
    };
    let dir = Path::new(DIR).join(folder);
    let names = scene.disk.list(&dir).unwrap_or_default();
    let paths = names.into_iter().map(|name| dir.join(name));
    let paths = paths.filter(|path| scene.disk.open(path).is_ok());
    match kind {
        Kind::Segment | Kind::NewestSegment | Kind::Spare => {
            let newest = segments(scene).into_iter().max();
            let in_use = |path: &PathBuf| segment_of(scene, path) > covered(scene);
            paths.filter(|path| kind == kind_of_slot(path, newest.as_ref(), in_use(path))).collect()
        }
        Kind::Format | Kind::Other => {
            let is_format = |path: &PathBuf| path.to_string_lossy().contains("FORMAT");
            paths.filter(|path| is_format(path) == (kind == Kind::Format)).collect()
        }
        _ => paths.collect(),
    }
}

fn kind_of_slot(path: &Path, newest: Option<&(u32, PathBuf)>, is_in_use: bool) -> Kind {
    match newest {
        Some((_, newest)) if newest == path => Kind::NewestSegment,
        _ if is_in_use => Kind::Segment,
        _ => Kind::Spare,
    }
}

/// The segments that slots hold, whether or not they are still in use.
fn segments(scene: &Scene) -> Vec<(u32, PathBuf)> {
    let wal = Path::new(DIR).join("wal");
    let names = scene.disk.list(&wal).unwrap_or_default();
    let paths = names.into_iter().map(|name| wal.join(name));
    paths.filter_map(|path| Some((segment_of(scene, &path)?, path))).collect()
}

/// The files of the segments in use before this one.
fn older_segments(scene: &Scene, path: &Path) -> Vec<PathBuf> {
    let (own, covered) = (segment_of(scene, path), covered(scene));
    let is_older = |number: u32| Some(number) < own && Some(number) > covered;
    let all = segments(scene).into_iter();
    all.filter(|(number, _)| is_older(*number)).map(|(_, path)| path).collect()
}

fn segment_of(scene: &Scene, path: &Path) -> Option<u32> {
    let bytes = head(scene, path)?;
    bytes.starts_with(b"HWsg").then(|| number_at(&bytes, 8))
}

/// The last segment that the newest checkpoint covers.
fn covered(scene: &Scene) -> Option<u32> {
    let dir = Path::new(DIR).join("checkpoints");
    let names = scene.disk.list(&dir).ok()?;
    let name = names.iter().filter(|name| name.ends_with(".checkpoint")).max()?;
    head(scene, &dir.join(name)).map(|bytes| number_at(&bytes, 8))
}

fn head(scene: &Scene, path: &Path) -> Option<[u8; 12]> {
    let mut bytes = [0; 12];
    scene.disk.open(path).ok()?.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

fn number_at(bytes: &[u8; 12], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
