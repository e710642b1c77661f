//! Small reads of random streams: the cost of a request that touches little or no data.

use anyhow::{Result, ensure};

use super::setup::{create_streams, send_all, stream_name};
use super::{OCTETS, Row, Work, per_second};
use crate::load::random::Random;
use crate::load::{Request, Response, Step, Timing, Workload, run_timed};
use crate::report::{Goal, Measurement, Unit};
use crate::server::Running;

const CONNECTIONS: usize = 64;
const STREAMS: usize = 1_000;
/// The streams take turns in size.
const STREAM_BYTES: [usize; 4] = [256, 512, 768, 1024];

/// From where to read.
#[derive(Clone, Copy)]
pub(crate) enum Read {
    /// The end: the answer is empty.
    Tail,
    /// The start: the answer is the whole stream.
    Start,
}

pub(super) fn rows() -> Vec<Row> {
    let row = |name: &str, read| Row {
        name: name.to_owned(),
        unit: Unit::PerSecond,
        goal: Goal::FASTER,
        work: Work::Read(read),
    };
    vec![
        row("read at the tail, 64 conn", Read::Tail),
        row("read 256 B to 1 KiB, 64 conn", Read::Start),
    ]
}

impl Read {
    pub(super) fn measure(&self, server: &Running, timing: Timing) -> Result<Measurement> {
        let address = server.address();
        let mut random = Random::seeded(STREAMS as u64);
        let body = random.letters(STREAM_BYTES[3]);
        create_streams(address, STREAMS, OCTETS)?;
        let tails = send_all(address, STREAMS, |stream| {
            Request::append(stream_name(stream), OCTETS, &body[..stream_bytes(stream)])
        })?;
        let questions = tails.iter().enumerate().map(|(stream, tail)| match self {
            Self::Tail => Question::new(stream, tail, 0),
            Self::Start => Question::new(stream, "-1", stream_bytes(stream)),
        });
        let questions = questions.collect();
        let mut reads = RandomReads { questions, random, asked: [0; CONNECTIONS] };
        let sample = run_timed(address, CONNECTIONS, timing, &mut reads)?;
        per_second(&sample)
    }
}

fn stream_bytes(stream: usize) -> usize {
    STREAM_BYTES[stream % STREAM_BYTES.len()]
}

/// A read and the length of its only right answer.
struct Question {
    request: Request,
    body_bytes: u64,
}

impl Question {
    fn new(stream: usize, offset: &str, body_bytes: usize) -> Self {
        let request = Request::read(stream_name(stream), offset);
        Self { request, body_bytes: body_bytes as u64 }
    }
}

struct RandomReads {
    questions: Vec<Question>,
    random: Random,
    /// Which question each connection asked last.
    asked: [usize; CONNECTIONS],
}

impl Workload for RandomReads {
    fn next_request(&mut self, connection: usize) -> Option<Request> {
        let choice = self.random.below(self.questions.len());
        self.asked[connection] = choice;
        Some(self.questions[choice].request.clone())
    }

    fn on_response(&mut self, connection: usize, response: &Response) -> Result<Step> {
        let wanted = self.questions[self.asked[connection]].body_bytes;
        let Response { status, body_bytes, .. } = *response;
        ensure!(status == 200, "read answered {status}");
        ensure!(body_bytes == wanted, "read {body_bytes} bytes instead of {wanted}");
        Ok(Step::Finished)
    }
}
