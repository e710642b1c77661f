//! A hook for crash tests: dying at a chosen write, and counting the writes there are to die at.
//!
//! Two variables arm it, in `headwater serve`, `backup` and `keys`. They are for tests and
//! deliberately not in the help:
//!
//! - `HEADWATER_KILL_AT_WRITE=17` kills the process with `SIGKILL` instead of its 17th durable
//!   write; `17:torn` lets half of that write happen first. What counts as one is told by
//!   [`KillDisk`].
//! - `HEADWATER_COUNT_WRITES=FILE` writes the number of durable writes into `FILE` when the server
//!   ends in an orderly way.

use std::{env, fs, path::PathBuf, sync::Arc};

use sys::{
    Disk,
    disk::{KillDisk, KillPoint, RealDisk},
};

use crate::failure::Failure;

const KILL_AT_WRITE: &str = "HEADWATER_KILL_AT_WRITE";
const COUNT_WRITES: &str = "HEADWATER_COUNT_WRITES";

/// The disk as a test wants it.
#[derive(Debug)]
pub(crate) enum CrashHook {
    /// Nobody asked for anything.
    Unarmed,
    Armed {
        disk: Arc<KillDisk>,
        count_file: Option<PathBuf>,
    },
}

impl CrashHook {
    pub(crate) fn from_environment() -> Result<Self, Failure> {
        let point = match env::var(KILL_AT_WRITE) {
            Ok(text) => Some(
                text.parse::<KillPoint>()
                    .map_err(|error| Failure::usage(format!("{KILL_AT_WRITE}: {error}")))?,
            ),
            Err(_) => None,
        };
        let count_file = env::var_os(COUNT_WRITES).map(PathBuf::from);
        let real = Arc::new(RealDisk);
        let disk = match point {
            None if count_file.is_none() => return Ok(Self::Unarmed),
            None => KillDisk::counter(real),
            Some(point) => KillDisk::new(real, point),
        };
        Ok(Self::Armed { disk: Arc::new(disk), count_file })
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        match self {
            Self::Unarmed => Arc::new(RealDisk),
            Self::Armed { disk, .. } => disk.clone(),
        }
    }

    /// Tells how many writes there were, at the end.
    #[expect(clippy::disallowed_methods, reason = "this must not be counted as a durable write")]
    pub(crate) fn report(self) -> Result<(), Failure> {
        let Self::Armed { disk, count_file: Some(path) } = self else { return Ok(()) };
        fs::write(&path, format!("{}\n", disk.count()))
            .map_err(|error| Failure::about(path.display(), error))
    }
}
