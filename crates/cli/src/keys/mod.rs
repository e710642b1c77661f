//! `headwater keys`: what webhooks are signed with, and how it is replaced.

mod file;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Subcommand;
use sys::Sys;
use wake::Keys;
use wire::Timestamp;

pub(crate) use self::file::FILE;
use crate::{config::DATA_DIR_DEFAULT, crash_hook::CrashHook, failure::Failure, output};

const ROTATE_NOTES: &str = "\
A server that runs takes the new key at the next SIGHUP (kill -HUP PID), one that does not when it
starts. The last key is published for fifteen minutes more, so that receivers believe what it has
signed.";

#[derive(Debug, clap::Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    verb: Verb,

    /// The directory whose keys they are
    #[arg(long, value_name = "DIR", env = "HEADWATER_DATA_DIR", default_value = DATA_DIR_DEFAULT)]
    #[arg(global = true)]
    data_dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Tell which keys are published, the one that signs first
    List,

    /// Make another key that signs from now on
    #[command(after_help = ROTATE_NOTES)]
    Rotate,
}

/// Does what was asked, and tells which keys there are then.
pub(crate) fn run(args: &KeysArgs) -> Result<(), Failure> {
    let hook = CrashHook::from_environment()?;
    let (sys, dir) = (Sys { disk: hook.disk(), ..Sys::real() }, &args.data_dir);
    let keys = match args.verb {
        Verb::List => file::load(&sys, dir),
        Verb::Rotate => file::rotate(&sys, dir),
    };
    let keys = keys.map_err(|error| about(dir, &error))?;
    for (key, until) in keys.terms(sys.clock.unix_ms()) {
        match until {
            None => output::line(&format!("{} signs", key.kid))?,
            Some(at) => {
                let at = Timestamp::from_unix_ms(at.get());
                output::line(&format!("{} is published until {at}", key.kid))?;
            }
        }
    }
    Ok(())
}

/// The keys of a data directory that a server has to itself; new ones if it has none.
pub(crate) async fn load_or_make(sys: &Sys, dir: &Path) -> Result<Arc<Keys>, Failure> {
    in_background(sys, dir, file::load_or_make).await
}

/// The keys as they stand now.
pub(crate) async fn load(sys: &Sys, dir: &Path) -> Result<Arc<Keys>, Failure> {
    in_background(sys, dir, file::load).await
}

/// The file of keys, if it is there and keeps a server from starting.
pub(crate) fn unreadable(sys: &Sys, dir: &Path) -> Option<PathBuf> {
    check(sys, dir).is_err().then(|| dir.join(FILE))
}

/// Refuses keys that cannot be read; a data directory may have none.
pub(crate) fn check(sys: &Sys, dir: &Path) -> Result<(), Failure> {
    match file::load(sys, dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(about(dir, &error)),
        _ => Ok(()),
    }
}

async fn in_background(
    sys: &Sys,
    dir: &Path,
    work: fn(&Sys, &Path) -> io::Result<Keys>,
) -> Result<Arc<Keys>, Failure> {
    let (owned, place) = (sys.clone(), dir.to_owned());
    let keys = sys.spawn.blocking(move || work(&owned, &place)).await;
    keys.map(Arc::new).map_err(|error| about(dir, &error))
}

fn about(dir: &Path, error: &io::Error) -> Failure {
    let path = dir.join(FILE);
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::about(path.display(), "there are no keys; a server makes them when it starts")
        }
        _ => Failure::about(path.display(), error),
    }
}
