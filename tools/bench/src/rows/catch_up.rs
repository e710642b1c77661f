//! Reads of a long stream from its start until the server says that nothing is left.
//!
//! A server may answer with the whole rest or with chunks of any size; the reader follows
//! `Stream-Next-Offset`. The time is that of the full catch-up, whatever its number of requests.

use std::net::SocketAddr;

use anyhow::{Result, ensure};

use super::setup::{create_streams, send_all, stream_name};
use super::{OCTETS, Row, Work, megabytes_per_second};
use crate::load::random::Random;
use crate::load::{Request, Response, Step, Timing, Workload, run_timed};
use crate::report::{Goal, Measurement, Unit};
use crate::server::Running;

const CONNECTIONS: usize = 4;
const STREAM_BYTES: usize = 16 * 1024 * 1024;
const REQUESTS_MAX: u32 = 100_000;
const START: &str = "-1";

/// How the stream was written.
#[derive(Clone, Copy)]
pub(crate) enum CatchUp {
    /// 1,024 appends of 16 KiB to a stream of octets.
    LargeMessages,
    /// 65,536 JSON messages of 256 B: 256 appends of an array of 256 of them.
    SmallMessages,
}

pub(super) fn rows() -> Vec<Row> {
    let row = |name: &str, catch_up| Row {
        name: name.to_owned(),
        unit: Unit::MegabytesPerSecond,
        goal: Goal::FASTER,
        work: Work::CatchUp(catch_up),
    };
    vec![
        row("catch up 16 MiB of 16 KiB appends, 4 conn", CatchUp::LargeMessages),
        row("catch up 16 MiB of 256 B JSON messages, 4 conn", CatchUp::SmallMessages),
    ]
}

impl CatchUp {
    pub(super) fn measure(&self, server: &Running, timing: Timing) -> Result<Measurement> {
        self.write_stream(server.address())?;
        let idle = Reader { offset: START.to_owned(), received: 0, requests: 0 };
        let mut readers = Readers { readers: vec![idle; CONNECTIONS] };
        let sample = run_timed(server.address(), CONNECTIONS, timing, &mut readers)?;
        megabytes_per_second(&sample, STREAM_BYTES)
    }

    fn write_stream(self, address: SocketAddr) -> Result<()> {
        let (content_type, body, appends) = match self {
            Self::LargeMessages => {
                let body = Random::seeded(16).letters(16 * 1024);
                (OCTETS, body, STREAM_BYTES / (16 * 1024))
            }
            Self::SmallMessages => ("application/json", json_array(256, 256), 256),
        };
        create_streams(address, 1, content_type)?;
        send_all(address, appends, |_| Request::append(stream_name(0), content_type, &body))?;
        Ok(())
    }
}

/// An array of strings, each as long as asked for with its quotes and one comma.
fn json_array(messages: usize, message_bytes: usize) -> Vec<u8> {
    let mut random = Random::seeded(messages as u64);
    let mut array = vec![b'['];
    for _ in 0..messages {
        array.push(b'"');
        array.extend(random.letters(message_bytes - 3));
        array.extend(b"\",");
    }
    // The last comma gives way to the end of the array.
    array.pop();
    array.push(b']');
    array
}

struct Readers {
    readers: Vec<Reader>,
}

/// One connection's way through the stream.
#[derive(Clone)]
struct Reader {
    offset: String,
    received: u64,
    requests: u32,
}

impl Workload for Readers {
    fn next_request(&mut self, connection: usize) -> Option<Request> {
        Some(Request::read(stream_name(0), &self.readers[connection].offset))
    }

    fn on_response(&mut self, connection: usize, response: &Response) -> Result<Step> {
        let reader = &mut self.readers[connection];
        ensure!(response.status == 200, "read answered {}", response.status);
        reader.received += response.body_bytes;
        reader.requests += 1;
        ensure!(reader.requests < REQUESTS_MAX, "the stream does not end");
        if !response.up_to_date {
            reader.offset.clone_from(&response.next_offset);
            return Ok(Step::Continues);
        }
        // Brackets and commas of a JSON answer depend on where the server cuts it.
        let framing = 2 * u64::from(reader.requests);
        let missing = (STREAM_BYTES as u64).saturating_sub(reader.received + framing);
        ensure!(missing == 0, "the catch-up lacks {missing} bytes");
        *reader = Reader { offset: START.to_owned(), received: 0, requests: 0 };
        Ok(Step::Finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_batch_has_messages_of_the_size_asked_for() {
        let array = json_array(4, 256);
        assert_eq!(array.len(), 4 * 256 + 1);
        let messages: Vec<String> = serde_json::from_slice(&array).unwrap();
        assert!(messages.iter().all(|message| message.len() == 253));
        assert_eq!(messages.len(), 4);
    }
}
