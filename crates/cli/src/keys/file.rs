//! The file of keys: secrets of a data directory that only its owner can read.

use std::{io, path::Path};

use sys::Sys;
use wake::Keys;

/// The file, beside the log that it belongs to.
pub(crate) const FILE: &str = "keys.json";
/// While it is written.
const UNFINISHED: &str = "keys.json.unfinished";
/// Held by whoever replaces the keys.
const LOCK: &str = "keys.lock";
/// No file of keys is larger.
const BYTES_MAX: u64 = 1024 * 1024;

/// The keys of a data directory.
pub(super) fn load(sys: &Sys, dir: &Path) -> io::Result<Keys> {
    let file = sys.disk.open(&dir.join(FILE))?;
    let length = file.len()?;
    if length > BYTES_MAX {
        return Err(io::Error::other("it is too large for a file of keys"));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    file.read_exact_at(&mut bytes, 0)?;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    Keys::from_text(&text).map_err(io::Error::other)
}

/// The same; new ones if there are none. The caller has the directory to itself.
pub(super) fn load_or_make(sys: &Sys, dir: &Path) -> io::Result<Keys> {
    match load(sys, dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let keys = Keys::generate(&sys.chance);
            store(sys, dir, &keys)?;
            Ok(keys)
        }
        loaded => loaded,
    }
}

/// Puts another key in front. A server may run meanwhile, but nobody else may rotate.
pub(super) fn rotate(sys: &Sys, dir: &Path) -> io::Result<Keys> {
    // Where there are no keys, nothing is left behind.
    let _ = load(sys, dir)?;
    let _lock = sys.disk.lock(&dir.join(LOCK)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::other("somebody else replaces the keys just now"),
        _ => error,
    })?;
    let last = load(sys, dir)?;
    let keys = last.rotated(&sys.chance, sys.clock.unix_ms()).map_err(io::Error::other)?;
    store(sys, dir, &keys)?;
    Ok(keys)
}

/// Replaces the file as a whole: a crash leaves the old one or the new one.
fn store(sys: &Sys, dir: &Path, keys: &Keys) -> io::Result<()> {
    let unfinished = dir.join(UNFINISHED);
    match sys.disk.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = sys.disk.create(&unfinished)?;
    file.write_all_at(keys.to_text().as_bytes(), 0)?;
    file.sync()?;
    sys.disk.rename(&unfinished, &dir.join(FILE))?;
    sys.disk.sync_dir(dir)
}
