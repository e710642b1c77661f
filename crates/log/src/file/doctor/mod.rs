//! Examining a data directory that nobody has open, and mending it when told to.
//!
//! The examination changes nothing: it recovers the log in memory, reads every record that a stream
//! consists of, and tells what it found. Two things can be mended without a backup. Of a
//! write-ahead log with a hole, what stands before the hole is kept, and what stands after it is
//! set aside (`cut`); recovery itself never does that, because acknowledged records may be among
//! them. A checkpoint that is lost is made again from packs and segments (`rebuild`). Nothing that
//! can be read is ever removed: what is set aside stays in `lost+found`, and can be read there. And
//! nothing is decided without bytes that the disk fails to read: it may read them another time.

mod cut;
mod lost_and_found;
mod rebuild;

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use sys::{Sys, disk::is_unreadable};
use wire::Offset;

pub use self::lost_and_found::{Salvaged, SetAside, salvage};
use super::{
    files::{Files, Layout},
    format::{self, Format},
    hot::Hot,
    open_error::OpenError,
    reader::Reader,
    recovery::{self, Recovery, at},
    stream::Stream,
};

/// Findings that are told one by one.
const FINDINGS_MAX: usize = 1_000;
/// Damages that one repair mends, one after the other.
const REPAIRS_MAX: usize = 100;

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
    /// Findings beyond those that are told one by one.
    untold: u64,
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
    let mut report = Report::default();
    let format = match format_of(sys, &layout) {
        Ok(format) => format,
        // Without its salt nothing else can be verified.
        Err(error) => return report.failed(&layout, error).map(|()| report),
    };
    let _lock = recovery::lock(sys.disk.as_ref(), &layout)?;
    let files = Arc::new(Files::new(sys.disk.clone(), layout));
    let mut recovery = Recovery::new(files.clone(), format.salt);
    if !format.is_of_earlier_version() {
        let copies = files.layout.formats().into_iter().zip(format.whole);
        copies.filter(|(_, whole)| !whole).for_each(|(path, _)| report.broken_copy(&path));
    }
    let recovered = recover(&mut recovery, &format, &mut report);
    for SetAside { path, bytes } in lost_and_found::list(&files)? {
        report.set_aside(&path, bytes);
    }
    if let Err(error) = recovered {
        // What the log would be without the damage cannot be told.
        return report.failed(&files.layout, error).map(|()| report);
    }
    let hot = Arc::new(Hot::new(0));
    read_everything(&recovery, &Reader { files, hot, salt: format.salt }, &mut report);
    Ok(report)
}

/// Mends what can be mended and tells what was done, line by line. Nothing that can be read is
/// removed: what does not fit is set aside in `lost+found`, where [`salvage`] reads it.
///
/// # Errors
/// If the directory is in use, or what is broken cannot be mended here.
pub fn repair(sys: &Sys, dir: &Path) -> Result<Vec<String>, OpenError> {
    let layout = Layout::new(dir);
    let format = format_of(sys, &layout)?;
    let _lock = recovery::lock(sys.disk.as_ref(), &layout)?;
    let files = Arc::new(Files::new(sys.disk.clone(), layout));
    let mut done = Vec::new();
    // A log that was cut may turn out to lack its checkpoint, too.
    for round in 0..=REPAIRS_MAX {
        let mut recovery = Recovery::new(files.clone(), format.salt);
        match recover(&mut recovery, &format, &mut Report::default()) {
            Ok(()) => return Ok(done),
            // What is done so far stands, and what is left is told.
            Err(error) if round == REPAIRS_MAX => return Err(error),
            Err(OpenError::Damaged { path, .. }) if is_checkpoint(&files.layout, &path) => {
                done.extend(rebuild::rebuild(&files, format.salt)?);
            }
            Err(OpenError::Damaged { path, what, .. }) if what == recovery::DOUBLE => {
                done.push(lost_and_found::set_aside(&files, &path, "double").map_err(at(&path))?);
            }
            Err(OpenError::Damaged { what, .. }) if what == recovery::HEADLESS => {
                done.extend(cut::write_head(&files, &recovery)?);
            }
            Err(OpenError::Damaged { path, offset, .. }) if is_segment(&files.layout, &path) => {
                done.extend(cut::cut(&files, &recovery, &path, offset)?);
                match cut::restate(&files, format.salt) {
                    // There is more to mend first.
                    Err(OpenError::Damaged { .. }) => {}
                    told => done.extend(told?),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn is_checkpoint(layout: &Layout, path: &Path) -> bool {
    path.starts_with(layout.checkpoints())
}

fn is_segment(layout: &Layout, path: &Path) -> bool {
    path.starts_with(layout.wal())
}

fn format_of(sys: &Sys, layout: &Layout) -> Result<Format, OpenError> {
    let disk = sys.disk.as_ref();
    match format::read(disk, layout)? {
        Some(format) => Ok(format),
        None => {
            recovery::check_unused(disk, layout)?;
            Err(OpenError::NoLog(layout.root().to_owned()))
        }
    }
}

fn recover(recovery: &mut Recovery, format: &Format, report: &mut Report) -> Result<(), OpenError> {
    let newest = recovery.load_checkpoint()?;
    if let Some(newest) = newest.filter(|_| !format.is_of_earlier_version()) {
        newest.broken.iter().for_each(|path| report.broken_copy(path));
    }
    let (segments, _) = recovery.find_segments()?;
    report.segments = segments.len() as u32;
    recovery.replay(segments)?;
    recovery.check()?;
    let packs = recovery.survey_packs()?;
    report.packs = packs.in_use.len() as u32;
    Ok(())
}

fn read_everything(recovery: &Recovery, reader: &Reader, report: &mut Report) {
    for stream in recovery.state.streams.values() {
        // System streams are read, too, but do not count.
        report.streams += u64::from(stream.address.stream().is_some());
        read_stream(stream, &recovery.state.table.needed(stream.id), reader, report);
    }
    if report.untold > 0 {
        let what = format!("{} more like these", report.untold);
        report.add(Severity::Damage, reader.files.layout.root(), 0, what, BACKUP);
    }
}

/// Reads what is needed of a stream: it must be there without a gap.
fn read_stream(stream: &Stream, needed: &Range<Offset>, reader: &Reader, report: &mut Report) {
    let counts = u64::from(stream.address.stream().is_some());
    let inherited = stream.origin.as_ref().map_or(Offset::START, |parent| parent.end);
    let end = needed.end.min(stream.extents().1);
    let mut expected = needed.start.max(inherited);
    for extent in stream.needed_extents(needed) {
        if extent.start > expected {
            report.missing(reader, stream, expected, extent.start);
        }
        match reader.messages(stream, &extent) {
            Ok(messages) => {
                let (count, bytes) = (messages.len() as u64, messages.data().len() as u64);
                report.messages += counts * count;
                report.bytes += counts * bytes;
                expected = expected.max(extent.start.after(count, bytes));
            }
            Err(error) => {
                let what = format!("messages of {} from {}", stream.address, extent.start);
                let path = reader.files.path(extent.place.file);
                report.unreadable(&path, u64::from(extent.place.offset), &what, &error);
                // Where it ends cannot be told.
                expected = stream.extent_after(extent.start).unwrap_or(end);
            }
        }
    }
    if expected < end {
        report.missing(reader, stream, expected, end);
    }
}

/// What helps when bytes are gone.
const BACKUP: &str = "restore the file from a backup; other messages can be read and written";
/// When nothing says where they were.
const LOST: &str = "restore a backup of the whole directory; or go on without them: readers are \
                    told where to read on, and trimming the stream up to there ends this";
/// And when a log cannot be opened.
const CUT: &str = "if this is a copy of a directory that was in use, make it again with headwater \
                   backup; else restore a backup, or run headwater doctor --repair to keep all \
                   that stands before the damage and set the rest aside in lost+found";

/// When the disk fails. Judging without bytes that may be read another time would be guessing.
const SOUND_DISK: &str = "nothing was changed; if the disk goes on failing, copy the directory \
                          onto a sound disk with a tool that puts zeros in the place of what it \
                          cannot read, such as ddrescue, and run headwater doctor there; or \
                          restore a backup";
/// And when nothing says which salt the checksums have.
const FORMAT: &str = "put back FORMAT from any backup of this directory, also an old one: it never \
                      changes; without the salt in it no checksum can be verified, so that packs \
                      and segments can be neither opened nor salvaged";

impl Report {
    fn add(&mut self, severity: Severity, path: &Path, offset: u64, what: String, remedy: &str) {
        let (path, remedy) = (path.to_owned(), remedy.to_owned());
        self.findings.push(Finding { severity, path, offset, what, remedy });
    }

    /// Takes in why a log does not open.
    ///
    /// # Errors
    /// If that is no damage.
    fn failed(&mut self, layout: &Layout, error: OpenError) -> Result<(), OpenError> {
        match error {
            OpenError::Damaged { path, offset, what } => self.damage(layout, &path, offset, what),
            OpenError::Io { path, source } if is_unreadable(&source) => {
                let what = format!("the disk fails to read it: {source}");
                self.add(Severity::Damage, &path, 0, what, SOUND_DISK);
            }
            error => return Err(error),
        }
        Ok(())
    }

    fn damage(&mut self, layout: &Layout, path: &Path, offset: u64, what: &str) {
        let remedy = if is_checkpoint(layout, path) {
            "run headwater doctor --repair to make it again from packs and segments"
        } else if what == recovery::DOUBLE {
            "run headwater doctor --repair to set the file aside that holds less"
        } else if what == recovery::HEADLESS {
            "run headwater doctor --repair to write its head again"
        } else if what == format::MISSING || what == format::DAMAGED {
            FORMAT
        } else if is_segment(layout, path) {
            CUT
        } else {
            "restore a backup of the whole directory; this cannot be mended here"
        };
        self.add(Severity::Damage, path, offset, what.to_owned(), remedy);
    }

    fn unreadable(&mut self, path: &Path, offset: u64, what: &str, error: &io::Error) {
        if self.findings.len() >= FINDINGS_MAX {
            self.untold += 1;
            return;
        }
        self.add(Severity::Damage, path, offset, format!("{what} cannot be read: {error}"), BACKUP);
    }

    fn missing(&mut self, reader: &Reader, stream: &Stream, from: Offset, until: Offset) {
        if self.findings.len() >= FINDINGS_MAX {
            self.untold += 1;
            return;
        }
        let what = format!("messages of {} from {from} up to {until} are missing", stream.address);
        let path = reader.files.layout.packs();
        self.add(Severity::Damage, &path, 0, what, LOST);
    }

    fn broken_copy(&mut self, path: &Path) {
        let what = "one of two copies is missing or damaged".to_owned();
        self.add(Severity::Note, path, 0, what, "nothing is lost; the next start writes it again");
    }

    fn set_aside(&mut self, path: &Path, bytes: u64) {
        let what = format!("{bytes} bytes were set aside by a repair");
        let remedy = match lost_and_found::is_of_checkpoint(path) {
            true => {
                "it holds no messages, only which streams there were; remove it when the \
                     repair has turned out well"
            }
            false => {
                "headwater doctor --salvage FILE prints its messages; remove it when it is no \
                 longer needed"
            }
        };
        self.add(Severity::Note, path, 0, what, remedy);
    }
}
