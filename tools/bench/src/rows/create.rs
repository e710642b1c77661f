//! Creation of streams, each one new.

use anyhow::{Result, ensure};

use super::setup::stream_name;
use super::{OCTETS, Row, Work, per_second};
use crate::load::{Request, Response, Step, Timing, Workload, run_timed};
use crate::report::{Goal, Measurement, Unit};
use crate::server::Running;

const CONNECTIONS: usize = 64;

pub(crate) struct Create;

pub(super) fn rows() -> Vec<Row> {
    vec![Row {
        name: "create, 64 conn".to_owned(),
        unit: Unit::PerSecond,
        goal: Goal::FASTER,
        work: Work::Create(Create),
    }]
}

impl Create {
    pub(super) fn measure(&self, server: &Running, timing: Timing) -> Result<Measurement> {
        let mut creations = Creations { sent: 0 };
        let sample = run_timed(server.address(), CONNECTIONS, timing, &mut creations)?;
        per_second(&sample)
    }
}

struct Creations {
    sent: usize,
}

impl Workload for Creations {
    fn next_request(&mut self, _: usize) -> Option<Request> {
        let name = stream_name(self.sent);
        self.sent += 1;
        Some(Request::create(name, OCTETS))
    }

    fn on_response(&mut self, _: usize, response: &Response) -> Result<Step> {
        let status = response.status;
        ensure!(status == 201, "creation {} answered {status}", self.sent);
        Ok(Step::Finished)
    }
}
