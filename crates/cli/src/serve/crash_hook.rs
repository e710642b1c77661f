//! A hook for crash tests: dying at a chosen write, and counting the writes there are to die at.
//!
//! Two variables arm it, in `headwater serve` only. They are for tests and deliberately not in the
//! help:
//!
//! - `HEADWATER_KILL_AT_WRITE=17` kills the process with `SIGKILL` instead of its 17th durable
//!   write; `17:torn` lets half of that write happen first. What counts as one is told by
//!   [`KillDisk`].
//! - `HEADWATER_COUNT_WRITES=FILE` writes the number of durable writes into `FILE` when the server
//!   ends in an orderly way.

use std::{env, fs, path::PathBuf, sync::Arc};

use sys::{
    Disk,
    disk::{KillDisk, KillMode, KillPoint, RealDisk},
};

use crate::failure::Failure;

const KILL_AT_WRITE: &str = "HEADWATER_KILL_AT_WRITE";
const COUNT_WRITES: &str = "HEADWATER_COUNT_WRITES";

/// The disk as a test wants it.
#[derive(Debug)]
pub(super) enum CrashHook {
    /// Nobody asked for anything.
    Unarmed,
    Armed {
        disk: Arc<KillDisk>,
        count_file: Option<PathBuf>,
    },
}

impl CrashHook {
    pub(super) fn from_environment() -> Result<Self, Failure> {
        let point = match env::var(KILL_AT_WRITE) {
            Ok(text) => Some(parse_point(&text).ok_or_else(|| {
                Failure::usage(format!(
                    "{KILL_AT_WRITE}={text:?} is not allowed; use 17 or 17:torn"
                ))
            })?),
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

    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        match self {
            Self::Unarmed => Arc::new(RealDisk),
            Self::Armed { disk, .. } => disk.clone(),
        }
    }

    /// Tells how many writes there were, at the end.
    #[expect(clippy::disallowed_methods, reason = "this must not be counted as a durable write")]
    pub(super) fn report(self) -> Result<(), Failure> {
        let Self::Armed { disk, count_file: Some(path) } = self else { return Ok(()) };
        fs::write(&path, format!("{}\n", disk.count()))
            .map_err(|error| Failure::about(path.display(), error))
    }
}

fn parse_point(text: &str) -> Option<KillPoint> {
    let (number, mode) = match text.split_once(':') {
        None => (text, KillMode::Before),
        Some((number, "torn")) => (number, KillMode::Torn),
        Some(_) => return None,
    };
    number.parse().ok().filter(|at| *at > 0).map(|at| KillPoint { at, mode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_numbers_from_one() {
        let parse = |text| parse_point(text).map(|point| (point.at, point.mode));
        assert_eq!(parse("17"), Some((17, KillMode::Before)));
        assert_eq!(parse("1:torn"), Some((1, KillMode::Torn)));
        for bad in ["", "0", "-1", "x", "1:", "1:half", "1:torn:torn"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
