//! What many idle streams cost: resident memory and open files.

use std::time::Duration;

use anyhow::{Context, Result};

use super::setup::{create_streams, send_all, stream_name};
use super::{OCTETS, Row, Scale, Work};
use crate::load::Request;
use crate::load::random::Random;
use crate::report::{Goal, Measurement, Unit};
use crate::server::Running;

const MESSAGE_BYTES: usize = 100;
const STREAMS_QUICK: usize = 10_000;
const STREAMS_FULL: usize = 100_000;
/// What a server needs besides a file per stream: log segments, sockets, its own plumbing.
const FILES_RESERVED: usize = 1_500;
/// Checkpoints and freed buffers come to rest within this time.
const REST: Duration = Duration::from_secs(4);

pub(crate) struct Memory {
    streams: usize,
}

/// Where the limit of open files is low, a server with a file per stream cannot hold them all:
/// one row then shows that, and another compares the memory of as many as it can hold.
pub(super) fn rows(scale: Scale, open_files_max: u64) -> Vec<Row> {
    let wanted = match scale {
        Scale::Quick => STREAMS_QUICK,
        Scale::Full => STREAMS_FULL,
    };
    let files_max = usize::try_from(open_files_max).unwrap_or(usize::MAX);
    let possible = wanted.min(files_max.saturating_sub(FILES_RESERVED) / 1_000 * 1_000);
    let mut counts = vec![possible, wanted];
    counts.dedup();
    counts.into_iter().map(row).collect()
}

fn row(streams: usize) -> Row {
    Row {
        name: format!("memory of {},000 streams of 100 B", streams / 1_000),
        unit: Unit::ResidentMebibytes,
        goal: Goal::NOT_LARGER,
        work: Work::Memory(Memory { streams }),
    }
}

impl Memory {
    pub(super) fn measure(&self, server: &Running) -> Result<Measurement> {
        let address = server.address();
        create_streams(address, self.streams, OCTETS)?;
        let body = Random::seeded(self.streams as u64).letters(MESSAGE_BYTES);
        let append = |stream| Request::append(stream_name(stream), OCTETS, &body);
        send_all(address, self.streams, append).context("append to the streams")?;
        std::thread::sleep(REST);
        Ok(Measurement {
            value: server.resident_mib()?,
            latency: None,
            generator_load: None,
            open_files: Some(server.open_files()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_of_open_files_adds_a_row_that_fits() {
        let names = |scale, limit| -> Vec<String> {
            rows(scale, limit).into_iter().map(|row| row.name).collect()
        };
        assert_eq!(names(Scale::Full, 1_000_000), ["memory of 100,000 streams of 100 B"]);
        assert_eq!(
            names(Scale::Full, 20_000),
            ["memory of 18,000 streams of 100 B", "memory of 100,000 streams of 100 B"]
        );
    }
}
