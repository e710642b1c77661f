//! What is measured: one [`Row`] per line of the table.
//!
//! | rows | load |
//! | --- | --- |
//! | append 256 B | 1, 64 and 256 connections to random ones of 10, 1,000 and 10,000 streams |
//! | append 1 MB | 4 connections, 8 streams |
//! | create | `PUT` of new streams, 64 connections |
//! | read | empty at the tail, and whole streams of 256 B to 1 KiB; 64 connections, 1,000 streams |
//! | catch up | a 16 MiB stream from its start until `Stream-Up-To-Date`, 4 connections |
//! | deliver | one paced writer, 1 to 1,000 followers of its stream by server-sent events |
//! | memory | many streams of one message each, then the resident memory and open files |

mod append;
mod catch_up;
mod create;
mod deliver;
mod memory;
mod read;
mod setup;

use anyhow::Result;
pub(crate) use append::Append;
pub(crate) use setup::follow_others;

use crate::load::{Sample, Timing};
use crate::report::{Goal, Latency, Measurement, Unit};
use crate::server::Running;

const MEGABYTE: f64 = 1e6;
const OCTETS: &str = "application/octet-stream";

/// How large a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Quick,
    Full,
}

impl Scale {
    pub(crate) fn rounds(self) -> u64 {
        match self {
            Self::Quick => 1,
            Self::Full => 3,
        }
    }

    pub(crate) fn seconds(self) -> u64 {
        match self {
            Self::Quick => 1,
            Self::Full => 4,
        }
    }
}

pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) goal: Goal,
    pub(crate) work: Work,
}

impl Row {
    /// Memory hardly varies between rounds, and takes minutes to fill.
    pub(crate) fn rounds(&self, wanted: u64) -> u64 {
        match self.work {
            Work::Memory(_) => 1,
            _ => wanted,
        }
    }
}

/// The load of a row, with its parameters.
pub(crate) enum Work {
    Append(Append),
    Create(create::Create),
    Read(read::Read),
    CatchUp(catch_up::CatchUp),
    Deliver(deliver::Deliver),
    Memory(memory::Memory),
}

impl Work {
    /// Sets the server up, loads it, and says what came out.
    pub(crate) fn measure(&self, server: &Running, timing: Timing) -> Result<Measurement> {
        match self {
            Self::Append(work) => work.measure(server, timing),
            Self::Create(work) => work.measure(server, timing),
            Self::Read(work) => work.measure(server, timing),
            Self::CatchUp(work) => work.measure(server, timing),
            Self::Deliver(work) => work.measure(server, timing),
            Self::Memory(work) => work.measure(server),
        }
    }
}

/// All rows, in the order of the table.
pub(crate) fn all(scale: Scale, open_files_max: u64) -> Vec<Row> {
    let mut rows = append::rows();
    rows.extend(create::rows());
    rows.extend(read::rows());
    rows.extend(catch_up::rows());
    rows.extend(deliver::rows());
    rows.extend(memory::rows(scale, open_files_max));
    rows
}

/// A rate of whole units of work.
fn per_second(sample: &Sample) -> Result<Measurement> {
    let latency = Some(Latency::of(&sample.latency)?);
    let generator_load = Some(sample.generator_load);
    Ok(Measurement { value: sample.per_second(), latency, generator_load, open_files: None })
}

/// A rate of payload, each unit of work carrying the same.
fn megabytes_per_second(sample: &Sample, unit_bytes: usize) -> Result<Measurement> {
    let value = sample.per_second() * unit_bytes as f64 / MEGABYTE;
    Ok(Measurement { value, ..per_second(sample)? })
}
