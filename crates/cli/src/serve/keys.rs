//! Keys: secrets of a data directory, in a file that only its owner can read.

use std::{io, path::Path, sync::Arc};

use sys::Sys;
use wake::Keys;

use crate::failure::Failure;

/// The file, beside the log that it belongs to.
const FILE: &str = "keys.json";
/// While it is written.
const UNFINISHED: &str = "keys.json.unfinished";
/// No file of keys is larger.
const BYTES_MAX: u64 = 1024 * 1024;

/// The keys of a data directory; new ones if it has none.
pub(super) async fn load_or_make(sys: &Sys, dir: &Path) -> Result<Arc<Keys>, Failure> {
    let (owned, path) = (sys.clone(), dir.join(FILE));
    let dir = dir.to_owned();
    let keys = sys.spawn.blocking(move || match read(&owned, &path) {
        Ok(text) => Keys::from_text(&text).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(&owned, &dir),
        Err(error) => Err(error),
    });
    keys.await.map(Arc::new).map_err(|error| Failure::about(FILE, error))
}

fn read(sys: &Sys, path: &Path) -> io::Result<String> {
    let file = sys.disk.open(path)?;
    let length = file.len()?;
    if length > BYTES_MAX {
        return Err(io::Error::other("it is too large for a file of keys"));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    file.read_exact_at(&mut bytes, 0)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

fn make(sys: &Sys, dir: &Path) -> io::Result<Keys> {
    let keys = Keys::generate(&sys.chance);
    let unfinished = dir.join(UNFINISHED);
    match sys.disk.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = sys.disk.create(&unfinished)?;
    file.write_all_at(keys.to_text().as_bytes(), 0)?;
    file.sync()?;
    sys.disk.rename(&unfinished, &dir.join(FILE))?;
    sys.disk.sync_dir(dir)?;
    Ok(keys)
}
