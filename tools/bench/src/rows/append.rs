//! Appends to random streams: the rate of small ones, the bandwidth of large ones.

use anyhow::{Result, ensure};

use super::setup::{create_streams, stream_name};
use super::{OCTETS, Row, Work, megabytes_per_second, per_second};
use crate::load::random::Random;
use crate::load::{Request, Response, Step, Timing, Workload, run_timed};
use crate::report::{Goal, Measurement, Unit};
use crate::server::Running;

const SMALL_BYTES: usize = 256;
const LARGE_BYTES: usize = 1_000_000;

pub(crate) struct Append {
    connections: usize,
    streams: usize,
    body_bytes: usize,
    unit: Unit,
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for connections in [1, 64, 256] {
        for (streams, label) in [(10, "10"), (1_000, "1,000"), (10_000, "10,000")] {
            let unit = Unit::PerSecond;
            rows.push(Row {
                name: format!("append 256 B, {connections} conn, {label} streams"),
                unit,
                goal: if connections == 1 { Goal::NOT_SLOWER } else { Goal::FASTER },
                work: Work::Append(Append { connections, streams, body_bytes: SMALL_BYTES, unit }),
            });
        }
    }
    let unit = Unit::MegabytesPerSecond;
    rows.push(Row {
        name: "append 1 MB, 4 conn, 8 streams".to_owned(),
        unit,
        goal: Goal::FASTER,
        work: Work::Append(Append { connections: 4, streams: 8, body_bytes: LARGE_BYTES, unit }),
    });
    rows
}

impl Append {
    /// Small ones to a thousand streams.
    pub(crate) fn small(connections: usize) -> Self {
        Self { connections, streams: 1_000, body_bytes: SMALL_BYTES, unit: Unit::PerSecond }
    }

    pub(crate) fn measure(&self, server: &Running, timing: Timing) -> Result<Measurement> {
        create_streams(server.address(), self.streams, OCTETS)?;
        let mut random = Random::seeded(self.streams as u64);
        let body = random.letters(self.body_bytes);
        let requests = (0..self.streams)
            .map(|stream| Request::append(stream_name(stream), OCTETS, &body))
            .collect();
        let mut appends = RandomAppends { requests, random };
        let sample = run_timed(server.address(), self.connections, timing, &mut appends)?;
        match self.unit {
            Unit::MegabytesPerSecond => megabytes_per_second(&sample, self.body_bytes),
            _ => per_second(&sample),
        }
    }
}

struct RandomAppends {
    /// One per stream.
    requests: Vec<Request>,
    random: Random,
}

impl Workload for RandomAppends {
    fn next_request(&mut self, _: usize) -> Option<Request> {
        Some(self.requests[self.random.below(self.requests.len())].clone())
    }

    fn on_response(&mut self, _: usize, response: &Response) -> Result<Step> {
        ensure!(matches!(response.status, 200 | 204), "append answered {}", response.status);
        Ok(Step::Finished)
    }
}
