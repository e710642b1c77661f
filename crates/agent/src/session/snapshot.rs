//! A snapshot of a session: its state, how far that was read, and where the ids are.
//!
//! It is one message: JSON, and a checksum of it. One that is damaged, of another version, of
//! another life of the stream, or from before what the stream still holds, counts for nothing: the
//! session is read instead.

use log::Head;
use serde::{Deserialize, Serialize};
use wire::{Offset, Position};

use super::{SessionState, ids::Run};

/// What a snapshot of this version is called. Fields that are added need no other.
const VERSION: u32 = 2;
/// Hexadecimal digits of the checksum, and the line break before them.
const SUM_BYTES: usize = 9;

/// A session up to an offset.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Snapshot {
    pub(super) incarnation: u64,
    pub(super) offset: Offset,
    pub(super) covered: Position,
    /// Where the stream began when its chunks were counted; snapshots of earlier versions do not
    /// tell.
    pub(super) counted_from: Option<Offset>,
    pub(super) state: SessionState,
    pub(super) runs: Vec<Run>,
}

/// Why a snapshot is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Useless {
    #[error("it is damaged")]
    Damaged,
    #[error("it has the version {0}, not {VERSION}")]
    Version(u32),
    #[error("it is of another life of the stream")]
    OtherLife,
    #[error("the stream does not hold what follows it any more")]
    Trimmed,
    #[error("the stream does not reach as far")]
    Ahead,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    incarnation: u64,
    offset: String,
    covered: u64,
    #[serde(default)]
    counted_from: Option<String>,
    state: SessionState,
    runs: Vec<(String, u64)>,
}

impl Snapshot {
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let runs = self.runs.iter().map(|run| (run.start.to_string(), run.entries));
        let written = Written {
            version: VERSION,
            incarnation: self.incarnation,
            offset: self.offset.to_string(),
            covered: self.covered.get(),
            counted_from: self.counted_from.map(|offset| offset.to_string()),
            state: self.state.clone(),
            runs: runs.collect(),
        };
        let mut bytes = serde_json::to_vec(&written).ok()?;
        let sum = crc32fast::hash(&bytes);
        bytes.extend(format!("\n{sum:08x}").bytes());
        Some(bytes)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Useless> {
        let (body, sum) = bytes
            .split_at_checked(bytes.len().saturating_sub(SUM_BYTES))
            .ok_or(Useless::Damaged)?;
        if format!("\n{:08x}", crc32fast::hash(body)).as_bytes() != sum {
            return Err(Useless::Damaged);
        }
        let versioned: Option<Versioned> = serde_json::from_slice(body).ok();
        match versioned.ok_or(Useless::Damaged)?.version {
            VERSION => Self::read(body).ok_or(Useless::Damaged),
            other => Err(Useless::Version(other)),
        }
    }

    fn read(body: &[u8]) -> Option<Self> {
        let written: Written = serde_json::from_slice(body).ok()?;
        let run =
            |(start, entries): (String, u64)| Some(Run { start: start.parse().ok()?, entries });
        Some(Self {
            incarnation: written.incarnation,
            offset: written.offset.parse().ok()?,
            covered: Position::new(written.covered),
            counted_from: written.counted_from.map(|at| at.parse().ok()).unwrap_or_default(),
            state: written.state,
            runs: written.runs.into_iter().map(run).collect::<Option<_>>()?,
        })
    }

    /// Whether the session can be read from it.
    pub(super) fn check(&self, head: &Head) -> Result<(), Useless> {
        if self.incarnation != head.incarnation.get() {
            return Err(Useless::OtherLife);
        }
        if self.offset < head.earliest {
            return Err(Useless::Trimmed);
        }
        if self.offset > head.tail {
            return Err(Useless::Ahead);
        }
        Ok(())
    }
}

/// Reads bytes as a snapshot: what is read must come back as it was.
#[cfg(fuzzing)]
pub fn fuzz_snapshot(bytes: &[u8]) {
    let Ok(snapshot) = Snapshot::decode(bytes) else { return };
    let written = snapshot.encode().expect("a snapshot that was read can be written");
    assert_eq!(Snapshot::decode(&written).ok(), Some(snapshot));
}
