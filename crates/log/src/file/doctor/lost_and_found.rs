//! `lost+found`: what a repair has set aside, kept until its owner removes it.

use std::{
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sys::Sys;
use wire::Offset;

use super::{at, format_of};
use crate::{
    file::{
        checkpoint,
        files::{Files, Layout, copy_file},
        open_error::OpenError,
        record::Record,
        records::Records,
    },
    table::Change,
};

/// What the names of checkpoints that are set aside go on with, after their number.
pub(super) const CHECKPOINT_ENDING: &str = ".checkpoint";
/// Files of one name that are kept.
const NAMESAKES_MAX: u32 = 10_000;

/// A message that was found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The number of the stream it belongs to: a stream that is made again has another.
    pub stream: u64,
    /// The name of that stream, if the file tells.
    pub name: Option<String>,
    /// Where in its stream it stands.
    pub offset: Offset,
    /// The message.
    pub message: Bytes,
}

/// A file that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Where it is.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// Hands every message that can be read in a file of `dir`, such as one that was set aside, to
/// `take`. Files of a log are used again, so that there may be messages of deleted streams.
///
/// # Errors
/// If the directory holds no log, the file cannot be read, or it is what is left of a checkpoint,
/// which holds no messages. Sectors that the disk fails to read are passed over.
pub fn salvage(
    sys: &Sys,
    dir: &Path,
    file: &Path,
    mut take: impl FnMut(Salvaged) -> io::Result<()>,
) -> Result<(), OpenError> {
    let format = format_of(sys, &Layout::new(dir))?;
    let opened = sys.disk.open(file).map_err(at(file))?;
    if is_of_checkpoint(file) || checkpoint::is_one(opened.as_ref()).is_ok_and(|is_one| is_one) {
        return Err(OpenError::NoMessages(file.to_owned()));
    }
    let mut records = Records::new(opened, format.salt).map_err(at(file))?;
    let mut names = std::collections::BTreeMap::new();
    while let Some(found) = records.next().map_err(at(file))? {
        let id = found.record.id();
        if let Record::Change(Change::Create(new)) = &found.record {
            names.insert(id, new.address.to_string());
        }
        let Some((mut offset, messages)) = found.record.messages() else { continue };
        for message in messages.iter() {
            let name = names.get(&id).cloned();
            let message = Bytes::copy_from_slice(message);
            let next = offset.after(1, message.len() as u64);
            take(Salvaged { stream: id.0, name, offset, message }).map_err(at(file))?;
            offset = next;
        }
    }
    Ok(())
}

/// The files that were set aside.
pub(super) fn list(files: &Files) -> Result<Vec<SetAside>, OpenError> {
    let dir = files.layout.lost_and_found();
    let names = match files.disk.list(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(at(&dir))?,
    };
    let with_length = |name: String| {
        let path = dir.join(name);
        let length = files.disk.open(&path).and_then(|file| file.len());
        length.map_err(at(&path)).map(|bytes| SetAside { path, bytes })
    };
    names.into_iter().map(with_length).collect()
}

/// True if the name of a file that was set aside says that it is a copy of a checkpoint.
pub(super) fn is_of_checkpoint(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ending = name.trim_start_matches(|c: char| c.is_ascii_digit());
    ending.starts_with(CHECKPOINT_ENDING) && ending.len() < name.len()
}

/// A path in `lost+found` that no file has.
pub(super) fn free_path(files: &Files, name: &str) -> io::Result<PathBuf> {
    let dir = files.layout.lost_and_found();
    files.disk.create_dir_all(&dir)?;
    files.disk.sync_dir(files.layout.root())?;
    let names = files.disk.list(&dir)?;
    let numbered = (1..NAMESAKES_MAX).map(|number| format!("{name}.{number}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !names.contains(name));
    let free = free.ok_or_else(|| io::Error::other("lost+found is full; remove what is there"))?;
    Ok(dir.join(free))
}

/// Copies a file of the log that will be used again or removed; what was done, in words.
pub(super) fn keep_copy(files: &Files, path: &Path, name: &str) -> io::Result<String> {
    let aside = free_path(files, name)?;
    let file = files.disk.open(path)?;
    copy_file(files.disk.as_ref(), file.as_ref(), &aside)?;
    files.disk.sync_dir(&files.layout.lost_and_found())?;
    Ok(format!("{} was kept as {}", path.display(), aside.display()))
}

/// Moves a file out of the log; what was done, in words.
pub(super) fn set_aside(files: &Files, path: &Path, name: &str) -> io::Result<String> {
    let aside = free_path(files, name)?;
    files.disk.rename(path, &aside)?;
    files.disk.sync_dir(&files.layout.lost_and_found())?;
    if let Some(dir) = path.parent() {
        files.disk.sync_dir(dir)?;
    }
    Ok(format!("{} was set aside as {}", path.display(), aside.display()))
}
