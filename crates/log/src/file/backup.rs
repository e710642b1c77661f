//! A consistent copy of a data directory, also of one that is in use.
//!
//! The copy is a prefix of the log: everything that was acknowledged before it was begun, and
//! perhaps more. It is made from outside, without a lock and without holding the log up:
//!
//! 1. The newest checkpoint is copied, then the packs that it speaks of: they never change.
//! 2. The segments after it are copied frame by frame, up to the first frame that is not whole. A
//!    copy by length would find half of a frame that is being written, and whole ones after it.
//! 3. If there is a newer checkpoint by then, packs or segments may be gone: it is done again, with
//!    the packs that are copied already.

use std::{collections::BTreeSet, io, path::Path, sync::Arc};

use sys::Sys;

use super::{
    checkpoint::{self, Checkpoint},
    doctor::{self, Report},
    files::{Files, Layout, copy_file, number_in, remove_if_there},
    format,
    frames::{self, Segments, each_frame},
    open_error::OpenError,
    place::FileId,
    record::Salt,
    recovery::at,
};

/// A log that regroups faster than it can be copied is given up after so many attempts.
const ATTEMPTS_MAX: u32 = 1_000;

/// A copy that was made.
#[derive(Clone, Debug)]
pub struct Backup {
    /// What an examination of the copy found.
    pub report: Report,
    /// How often it was begun, because the log had moved on.
    pub attempts: u32,
    /// Bytes that were written.
    pub bytes: u64,
}

/// Copies the log in `from`, which may be in use, to the new directory `to`, and examines the copy.
/// Files of these names that stand `beside` the log are copied with it. A copy that was cut off is
/// no log: what makes it one is written last.
///
/// # Errors
/// If `from` holds no log or is damaged, or `to` is not empty or cannot be written.
pub fn backup(sys: &Sys, from: &Path, to: &Path, beside: &[&str]) -> Result<Backup, OpenError> {
    let source = Layout::new(from);
    let found = format::read(sys.disk.as_ref(), &source)?;
    let salt = found.ok_or_else(|| OpenError::NoLog(from.to_owned()))?.salt;
    let target = Layout::new(to);
    make_target(sys, &target)?;
    let mut copy = Copy {
        source: Files::new(sys.disk.clone(), source),
        target: Arc::new(Files::new(sys.disk.clone(), target)),
        salt,
        packs: BTreeSet::new(),
        bytes: 0,
    };
    for attempts in 1..=ATTEMPTS_MAX {
        if copy.attempt()? == Outcome::Done {
            beside.iter().try_for_each(|name| copy.copy_beside(name))?;
            copy.finish()?;
            let report = doctor::examine(sys, to)?;
            return Ok(Backup { report, attempts, bytes: copy.bytes });
        }
    }
    let source = io::Error::other("the log is regrouped faster than it can be copied; try again");
    Err(OpenError::Io { path: from.to_owned(), source })
}

fn make_target(sys: &Sys, target: &Layout) -> Result<(), OpenError> {
    let disk = sys.disk.as_ref();
    let root = target.root();
    disk.create_dir_all(root).map_err(at(root))?;
    if !disk.list(root).map_err(at(root))?.is_empty() {
        let what = "it is not empty; name a directory that does not exist yet";
        let source = io::Error::new(io::ErrorKind::AlreadyExists, what);
        return Err(OpenError::Io { path: root.to_owned(), source });
    }
    for dir in [target.wal(), target.packs(), target.checkpoints()] {
        disk.create_dir_all(&dir).map_err(at(&dir))?;
    }
    Ok(())
}

/// A copy that is being made.
struct Copy {
    source: Files,
    target: Arc<Files>,
    salt: Salt,
    /// Packs that are copied.
    packs: BTreeSet<u32>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The log has moved on meanwhile.
    Moved,
}

impl Copy {
    fn attempt(&mut self) -> Result<Outcome, OpenError> {
        self.clear()?;
        let newest = checkpoint::newest(&self.source, self.salt)?;
        let number = newest.as_ref().map(|newest| newest.number);
        let through = match newest.map(|newest| (newest.number, newest.checkpoint)) {
            None => 0,
            // It may have been replaced while it was read.
            Some((number, None)) if self.newest()? != Some(number) => return Ok(Outcome::Moved),
            Some((number, None)) => {
                let [path, _] = self.source.layout.checkpoint(number);
                let what = "no copy of the checkpoint is whole";
                return Err(OpenError::Damaged { path, offset: 0, what });
            }
            Some((number, Some(checkpoint))) => {
                self.copy_checkpoint(number, &checkpoint)?;
                if !self.copy_packs(&checkpoint)? && self.newest()? != Some(number) {
                    return Ok(Outcome::Moved);
                }
                checkpoint.through
            }
        };
        let segments = frames::survey(&self.source, self.salt, through);
        let is_whole = match segments {
            Ok(survey) => self.copy_segments(survey.segments, through)?,
            // A file that was there when it was listed may be gone.
            Err(OpenError::Io { source, .. }) if is_gone(&source) => false,
            Err(error) => return Err(error),
        };
        match self.newest()? == number {
            true if is_whole => Ok(Outcome::Done),
            true if self.is_damaged(through)? => Err(OpenError::Damaged {
                path: self.source.layout.wal(),
                offset: 0,
                what: "the segments do not follow each other",
            }),
            _ => Ok(Outcome::Moved),
        }
    }

    /// The number of the newest checkpoint of the source.
    fn newest(&self) -> Result<Option<u32>, OpenError> {
        let dir = self.source.layout.checkpoints();
        let names = self.source.disk.list(&dir).map_err(at(&dir))?;
        Ok(names.iter().filter_map(|name| super::files::checkpoint_number(name)).max())
    }

    /// Removes what an attempt before left, except packs.
    fn clear(&self) -> Result<(), OpenError> {
        for dir in [self.target.layout.wal(), self.target.layout.checkpoints()] {
            for name in self.target.disk.list(&dir).map_err(at(&dir))? {
                self.target.disk.remove(&dir.join(&name)).map_err(at(&dir))?;
            }
        }
        Ok(())
    }

    fn copy_checkpoint(&mut self, number: u32, from: &Checkpoint) -> Result<(), OpenError> {
        let dir = self.target.layout.checkpoints();
        self.bytes += checkpoint::write(&self.target, self.salt, number, from).map_err(at(&dir))?;
        Ok(())
    }

    /// Copies the packs of a checkpoint that are not copied yet; false if one is not there.
    fn copy_packs(&mut self, checkpoint: &Checkpoint) -> Result<bool, OpenError> {
        let extents = checkpoint.entries.iter().flat_map(|entry| &entry.extents);
        let needed: BTreeSet<u32> = extents
            .filter_map(|extent| match extent.place.file {
                FileId::Pack(number) => Some(number),
                FileId::Segment(_) => None,
            })
            .collect();
        for number in self.packs.difference(&needed) {
            let path = self.target.layout.pack(*number);
            remove_if_there(self.target.disk.as_ref(), &path).map_err(at(&path))?;
        }
        self.packs.retain(|number| needed.contains(number));
        let mut is_whole = true;
        for number in needed {
            if self.packs.contains(&number) {
                continue;
            }
            let (from, to) = (self.source.layout.pack(number), self.target.layout.pack(number));
            let file = match self.source.disk.open(&from) {
                Err(error) if is_gone(&error) => {
                    is_whole = false;
                    continue;
                }
                file => file.map_err(at(&from))?,
            };
            self.bytes +=
                copy_file(self.target.disk.as_ref(), file.as_ref(), &to).map_err(at(&to))?;
            self.packs.insert(number);
        }
        Ok(is_whole)
    }

    /// Copies segments frame by frame; false if they do not follow each other.
    fn copy_segments(&mut self, segments: Segments, through: u32) -> Result<bool, OpenError> {
        let mut previous_end = None;
        for (expected, (header, slot)) in (through + 1..).zip(segments) {
            if header.number != expected
                || previous_end.is_some_and(|end| end != header.previous_end)
            {
                return Ok(false);
            }
            let path = self.target.layout.slot(header.number - through - 1);
            let target = self.target.disk.create(&path).map_err(at(&path))?;
            target.write_all_at(&header.encode(self.salt), 0).map_err(at(&path))?;
            let from = self.source.layout.slot(slot.number);
            let end = each_frame(&slot, &from, header.number, self.salt, |offset, frame, _| {
                self.bytes += frame.len() as u64;
                target.write_all_at(&frame, u64::from(offset)).map_err(at(&path))
            })?;
            target.sync().map_err(at(&path))?;
            previous_end = Some(end);
        }
        Ok(true)
    }

    /// Copies a file that stands beside the log, if there is one.
    fn copy_beside(&mut self, name: &str) -> Result<(), OpenError> {
        let (from, to) =
            (self.source.layout.root().join(name), self.target.layout.root().join(name));
        let file = match self.source.disk.open(&from) {
            Err(error) if is_gone(&error) => return Ok(()),
            file => file.map_err(at(&from))?,
        };
        self.bytes += copy_file(self.target.disk.as_ref(), file.as_ref(), &to).map_err(at(&to))?;
        Ok(())
    }

    /// True if the segments do not follow each other, although nothing moves.
    fn is_damaged(&mut self, through: u32) -> Result<bool, OpenError> {
        let before: Vec<u32> = numbers(&frames::survey(&self.source, self.salt, through)?.segments);
        self.clear()?;
        let segments = frames::survey(&self.source, self.salt, through)?.segments;
        Ok(numbers(&segments) == before && !self.copy_segments(segments, through)?)
    }

    /// Makes all names durable, and the copy a log.
    fn finish(&self) -> Result<(), OpenError> {
        let layout = &self.target.layout;
        for dir in [layout.wal(), layout.packs(), layout.checkpoints()] {
            self.target.disk.sync_dir(&dir).map_err(at(&dir))?;
        }
        for name in self.target.disk.list(&layout.packs()).map_err(at(&layout.packs()))? {
            debug_assert!(
                number_in(&name, "", ".pack").is_some_and(|pack| self.packs.contains(&pack)),
                "packs that are not needed were removed"
            );
        }
        let root = layout.root();
        format::write(self.target.disk.as_ref(), layout, self.salt).map_err(at(root))?;
        // The name of the copy itself. A path without a parent is relative to where we are.
        let parent = root.parent().filter(|path| !path.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| Path::new("."));
        self.target.disk.sync_dir(parent).map_err(at(parent))
    }
}

fn numbers(segments: &Segments) -> Vec<u32> {
    segments.iter().map(|(header, _)| header.number).collect()
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
