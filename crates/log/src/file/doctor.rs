//! Examining a data directory that nobody has open, and mending it when told to.
//!
//! The examination changes nothing: it recovers the log in memory, reads every record that a stream
//! consists of, and tells what it found. The one thing that can be mended without a backup is a
//! write-ahead log with a hole: what stands before the hole is kept, what stands after it is set
//! aside. Recovery itself never does that, because acknowledged records may be among them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use sys::Sys;
use wire::Offset;

use super::{
    checkpoint::{self, CheckpointWriter},
    files::{Files, Layout},
    hot::Hot,
    open_error::OpenError,
    reader::Reader,
    record::Salt,
    recovery::{self, Recovery, at},
    stream::Stream,
    wal::{Slot, write_zeros},
};
use crate::table::Meta;

/// What an examination found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Live streams; system streams are examined but not counted.
    pub streams: u64,
    /// Messages that can be read.
    pub messages: u64,
    /// Bytes of those messages.
    pub bytes: u64,
    /// Segments of the write-ahead log that are in use.
    pub segments: u32,
    /// Packs in use.
    pub packs: u32,
    /// What is worth knowing.
    pub findings: Vec<Finding>,
}

/// One thing worth knowing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What it is.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing to worry about.
    Note,
    /// Something acknowledged is lost or cannot be read.
    Damage,
}

impl Report {
    /// True if nothing acknowledged is missing.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Note)
    }
}

/// Examines the log in `dir`, changing nothing.
///
/// # Errors
/// If the directory is in use, of another version, or cannot be read at all.
pub fn examine(sys: &Sys, dir: &Path) -> Result<Report, OpenError> {
    let layout = Layout::new(dir);
    let format = layout.format();
    let file = open_format(sys, dir, &format)?;
    let _lock = recovery::lock(sys.disk.as_ref(), &layout)?;
    let salt = recovery::read_format(file.as_ref(), &format)?;
    let files = Arc::new(Files::new(sys.disk.clone(), layout));
    let mut recovery = Recovery::new(files.clone(), salt);
    let mut report = Report::default();
    match recover(&mut recovery, &mut report) {
        Ok(()) => {}
        Err(OpenError::Damaged { path, offset, what }) => {
            let can_be_cut = path.starts_with(files.layout.wal());
            report.damage(&path, offset, what, can_be_cut);
        }
        Err(error) => return Err(error),
    }
    if !report.is_sound() {
        // What the log would be without the damage is anybody's guess.
        return Ok(report);
    }
    let hot = Arc::new(Hot::new(0));
    read_everything(&recovery, &Reader { files, hot, salt }, &mut report);
    Ok(report)
}

/// Mends what can be mended and tells what was done, line by line.
///
/// # Errors
/// If the directory is in use, or what is broken cannot be mended here.
pub fn repair(sys: &Sys, dir: &Path) -> Result<Vec<String>, OpenError> {
    let layout = Layout::new(dir);
    let format = layout.format();
    let file = open_format(sys, dir, &format)?;
    let lock = recovery::lock(sys.disk.as_ref(), &layout)?;
    let salt = recovery::read_format(file.as_ref(), &format)?;
    let files = Arc::new(Files::new(sys.disk.clone(), layout));
    let mut recovery = Recovery::new(files.clone(), salt);
    let mut scratch = Report::default();
    let done = match recover(&mut recovery, &mut scratch) {
        Ok(()) => Vec::new(),
        Err(OpenError::Damaged { path, offset, .. }) if path.starts_with(files.layout.wal()) => {
            let mut done = cut(&files, &recovery, &path, offset)?;
            done.extend(restate(&files, salt)?);
            done
        }
        Err(error) => return Err(error),
    };
    drop(lock);
    Ok(done)
}

fn open_format(sys: &Sys, dir: &Path, format: &Path) -> Result<Arc<dyn sys::File>, OpenError> {
    sys.disk.open(format).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OpenError::NoLog(dir.to_owned()),
        _ => at(format)(error),
    })
}

fn recover(recovery: &mut Recovery, report: &mut Report) -> Result<(), OpenError> {
    recovery.load_checkpoint()?;
    let (segments, _) = recovery.find_segments()?;
    report.segments = segments.len() as u32;
    recovery.replay(segments)?;
    recovery.check()
}

fn read_everything(recovery: &Recovery, reader: &Reader, report: &mut Report) {
    let mut packs = std::collections::BTreeSet::new();
    for stream in recovery.state.streams.values() {
        // System streams are read, too, but nobody asked for them by name.
        let counts = u64::from(stream.address.stream().is_some());
        report.streams += counts;
        for extent in stream.extents().0 {
            if let super::place::FileId::Pack(pack) = extent.place.file {
                packs.insert(pack);
            }
            match reader.messages(stream, &extent) {
                Ok(messages) => {
                    report.messages += counts * messages.len() as u64;
                    report.bytes += counts * messages.data().len() as u64;
                }
                Err(error) => {
                    let what = format!("messages of {} from {}", stream.address, extent.start);
                    let path = reader.files.path(extent.place.file);
                    report.unreadable(&path, u64::from(extent.place.offset), &what, &error);
                }
            }
        }
    }
    report.packs = packs.len() as u32;
}

impl Report {
    fn damage(&mut self, path: &Path, offset: u64, what: &str, can_be_cut: bool) {
        let remedy = match can_be_cut {
            true => {
                "restore a backup; or run headwater doctor --repair to keep all that stands \
                 before the damage and set the rest aside"
            }
            false => "restore a backup of the whole directory; this cannot be mended here",
        };
        self.findings.push(Finding {
            severity: Severity::Damage,
            path: path.to_owned(),
            offset,
            what: what.to_owned(),
            remedy: remedy.to_owned(),
        });
    }

    fn unreadable(&mut self, path: &Path, offset: u64, what: &str, error: &io::Error) {
        self.findings.push(Finding {
            severity: Severity::Damage,
            path: path.to_owned(),
            offset,
            what: format!("{what} cannot be read: {error}"),
            remedy: "restore a backup of the whole directory".to_owned(),
        });
    }
}

/// Ends the log at the damage: later bytes are copied beside the log, then overwritten.
fn cut(
    files: &Files,
    recovery: &Recovery,
    path: &Path,
    offset: u64,
) -> Result<Vec<String>, OpenError> {
    let ((segments, _), headless) = recovery.survey()?;
    let is_damaged = |slot: &Slot| files.layout.slot(slot.number) == path;
    let damaged = segments.iter().position(|(_, slot)| is_damaged(slot));
    let mut done = Vec::new();
    for (index, (header, slot)) in segments.iter().enumerate() {
        let from = match damaged {
            Some(at) if index < at => continue,
            Some(at) if index == at && offset > 0 => offset,
            Some(_) => 0,
            // What is damaged is not a segment: those that are sound stay.
            None => continue,
        };
        let aside = files.layout.root().join(format!("damaged-segment-{}", header.number));
        clear(files, slot, &aside, from).map_err(at(path))?;
        done.push(format!(
            "segment {} was cut at byte {from}; a copy of it is in {}",
            header.number,
            aside.display()
        ));
    }
    for slot in headless.iter().filter(|slot| is_damaged(slot)) {
        let aside = files.layout.root().join(format!("damaged-slot-{}", slot.number));
        clear(files, slot, &aside, 0).map_err(at(path))?;
        done.push(format!(
            "{} was emptied; a copy of it is in {}",
            path.display(),
            aside.display()
        ));
    }
    Ok(done)
}

fn clear(files: &Files, slot: &Slot, aside: &Path, from: u64) -> io::Result<()> {
    set_aside(files, slot.file.as_ref(), aside)?;
    write_zeros(slot.file.as_ref(), from..slot.file.len()?)?;
    slot.file.sync()
}

/// Writes a checkpoint that speaks of nothing beyond the end of the log. A stream that lost
/// messages ends at its last one; its producers are forgotten, so that a retry of what was lost is
/// refused as a gap rather than taken for a duplicate.
fn restate(files: &Arc<Files>, salt: Salt) -> Result<Vec<String>, OpenError> {
    let mut recovery = Recovery::new(files.clone(), salt);
    let next = recovery.load_checkpoint()?;
    let Some(newest) = next.checked_sub(1) else { return Ok(Vec::new()) };
    let (segments, _) = recovery.find_segments()?;
    recovery.replay(segments)?;
    let path = files.layout.checkpoint(newest);
    let file = files.disk.open(&path).map_err(at(&path))?;
    let Some(checkpoint) = checkpoint::read(file, salt).map_err(at(&path))? else {
        return Ok(Vec::new());
    };
    let reader = Reader { files: files.clone(), hot: Arc::new(Hot::new(0)), salt };
    let mut writer = CheckpointWriter::create(files, checkpoint.through, checkpoint.owes, salt)
        .map_err(at(&path))?;
    let mut shortened = Vec::new();
    for mut entry in checkpoint.entries {
        if entry.meta.applied >= recovery.end
            && let Some(stream) = recovery.state.streams.get(&entry.id)
        {
            shorten(&mut entry.meta, stream, &reader, recovery.end).map_err(at(&path))?;
            shortened.push(format!("{} ends at {} now", stream.address, entry.meta.tail));
        }
        let meta = checkpoint::encode_meta(entry.id, &entry.meta);
        writer.add(&meta, &entry.extents).map_err(at(&path))?;
    }
    let whole = writer.finish(checkpoint.last_id).map_err(at(&path))?;
    whole.publish(files, next).map_err(at(&path))?;
    Ok(shortened)
}

fn shorten(meta: &mut Meta, stream: &Stream, reader: &Reader, log_end: u64) -> io::Result<()> {
    let inherited = meta.origin.as_ref().map_or(Offset::START, |origin| origin.end);
    meta.tail = match stream.extents().0.last() {
        Some(last) => {
            let messages = reader.messages(stream, last)?;
            last.start.after(messages.len() as u64, messages.data().len() as u64)
        }
        None => inherited.max(meta.earliest).min(meta.tail),
    };
    meta.earliest = meta.earliest.min(meta.tail);
    (meta.closed, meta.closer, meta.seq) = (false, None, None);
    meta.producers.clear();
    meta.applied = log_end - 1;
    Ok(())
}

fn set_aside(files: &Files, from: &dyn sys::File, to: &Path) -> io::Result<()> {
    let copy = files.disk.create(to)?;
    let length = from.len()?;
    let mut window = vec![0; 1024 * 1024];
    let mut at = 0;
    while at < length {
        let step = window.len().min(usize::try_from(length - at).unwrap_or(usize::MAX));
        from.read_exact_at(&mut window[..step], at)?;
        copy.write_all_at(&window[..step], at)?;
        at += step as u64;
    }
    copy.sync()?;
    files.disk.sync_dir(files.layout.root())
}
