//! The secret that tokens of sessions are signed with: a file that only its owner can read.

use std::{io, path::Path};

use server::Issuer;
use sys::Sys;

use crate::{config::Engine, failure::Failure};

/// The file, beside the log that it belongs to.
const FILE: &str = "sessions.key";
/// While it is written.
const UNFINISHED: &str = "sessions.key.unfinished";

/// Whoever signs tokens for this data directory; for one life if there is none.
pub(super) async fn issuer(sys: &Sys, engine: &Engine) -> Result<Issuer, Failure> {
    let Engine::File { dir, .. } = engine else { return Ok(Issuer::generate(&sys.chance)) };
    let (owned, dir) = (sys.clone(), dir.clone());
    let place = dir.join(FILE);
    let loaded = sys.spawn.blocking(move || load_or_make(&owned, &dir)).await;
    let secret = loaded.map_err(|error| Failure::about(place.display(), error))?;
    Ok(Issuer::new(&secret))
}

fn load_or_make(sys: &Sys, dir: &Path) -> io::Result<[u8; Issuer::SECRET_BYTES]> {
    match load(sys, dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(sys, dir),
        loaded => loaded,
    }
}

fn load(sys: &Sys, dir: &Path) -> io::Result<[u8; Issuer::SECRET_BYTES]> {
    let file = sys.disk.open(&dir.join(FILE))?;
    let mut secret = [0; Issuer::SECRET_BYTES];
    if file.len()? != secret.len() as u64 {
        return Err(io::Error::other("it holds no secret; remove it, and a new one is made"));
    }
    file.read_exact_at(&mut secret, 0)?;
    Ok(secret)
}

/// A crash leaves no secret or a whole one.
fn make(sys: &Sys, dir: &Path) -> io::Result<[u8; Issuer::SECRET_BYTES]> {
    let mut secret = [0; Issuer::SECRET_BYTES];
    sys.chance.fill(&mut secret);
    let unfinished = dir.join(UNFINISHED);
    match sys.disk.remove(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = sys.disk.create(&unfinished)?;
    file.write_all_at(&secret, 0)?;
    file.sync()?;
    sys.disk.rename(&unfinished, &dir.join(FILE))?;
    sys.disk.sync_dir(dir)?;
    Ok(secret)
}
