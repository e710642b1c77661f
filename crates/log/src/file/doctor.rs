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

use super::{
    files::{Files, Layout},
    hot::Hot,
    reader::Reader,
    recovery::{self, OpenError, Recovery, at},
    wal::write_zeros,
};

/// What an examination found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Live streams.
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
    let file = sys.disk.open(&format).map_err(at(&format))?;
    let _lock = recovery::lock(sys.disk.as_ref(), &layout)?;
    let salt = recovery::read_format(file.as_ref(), &format)?;
    let files = Arc::new(Files::new(sys.disk.clone(), layout));
    let mut recovery = Recovery::new(files.clone(), salt);
    let mut report = Report::default();
    match recover(&mut recovery, &mut report) {
        Ok(()) => {}
        Err(OpenError::Damaged { path, offset, what }) => report.damage(&path, offset, what),
        Err(error) => return Err(error),
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
    let file = sys.disk.open(&format).map_err(at(&format))?;
    let lock = recovery::lock(sys.disk.as_ref(), &layout)?;
    let salt = recovery::read_format(file.as_ref(), &format)?;
    let files = Arc::new(Files::new(sys.disk.clone(), layout));
    let mut recovery = Recovery::new(files.clone(), salt);
    let mut scratch = Report::default();
    let done = match recover(&mut recovery, &mut scratch) {
        Ok(()) => Vec::new(),
        Err(OpenError::Damaged { path, offset, .. }) if path.starts_with(files.layout.wal()) => {
            cut(&files, &recovery, &path, offset).map_err(at(&path))?
        }
        Err(error) => return Err(error),
    };
    drop(lock);
    Ok(done)
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
        report.streams += 1;
        for extent in stream.extents().0 {
            if let super::place::FileId::Pack(pack) = extent.place.file {
                packs.insert(pack);
            }
            match reader.messages(stream, &extent) {
                Ok(messages) => {
                    report.messages += messages.len() as u64;
                    report.bytes += messages.data().len() as u64;
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
    fn damage(&mut self, path: &Path, offset: u64, what: &str) {
        self.findings.push(Finding {
            severity: Severity::Damage,
            path: path.to_owned(),
            offset,
            what: what.to_owned(),
            remedy: "restore a backup; or run headwater doctor --repair to keep all that stands \
                     before the damage and set the rest aside"
                .to_owned(),
        });
    }

    fn unreadable(&mut self, path: &Path, offset: u64, what: &str, error: &io::Error) {
        self.findings.push(Finding {
            severity: Severity::Damage,
            path: path.to_owned(),
            offset,
            what: format!("{what} cannot be read: {error}"),
            remedy: "restore a backup, or delete the stream".to_owned(),
        });
    }
}

/// Ends the log at the damage: later bytes are copied beside the log, then overwritten.
fn cut(files: &Files, recovery: &Recovery, path: &Path, offset: u64) -> io::Result<Vec<String>> {
    let mut done = Vec::new();
    let (segments, _) = recovery.find_segments().map_err(io::Error::other)?;
    let damaged = segments.iter().position(|(_, slot)| files.layout.slot(slot.number) == path);
    for (index, (header, slot)) in segments.iter().enumerate() {
        let from = match damaged {
            Some(at) if index < at => continue,
            Some(at) if index == at && offset > 0 => offset,
            _ => 0,
        };
        let aside = files.layout.root().join(format!("damaged-segment-{}", header.number));
        set_aside(files, slot.file.as_ref(), &aside)?;
        write_zeros(slot.file.as_ref(), from..slot.file.len()?)?;
        slot.file.sync()?;
        done.push(format!(
            "segment {} was cut at byte {from}; a copy of it is in {}",
            header.number,
            aside.display()
        ));
    }
    Ok(done)
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
