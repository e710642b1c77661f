//! Fills a server before the clock runs.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::load::{Request, Response, Step, Workload, run_to_end};

const CONNECTIONS: usize = 64;
/// The slowest set-up creates 100,000 streams, which takes the official server minutes.
const TIME_MAX: Duration = Duration::from_secs(600);

/// The name of a stream of the benchmark.
pub(super) fn stream_name(index: usize) -> String {
    format!("bench-{index:06}")
}

/// Creates the streams `0..count`.
pub(super) fn create_streams(address: SocketAddr, count: usize, content_type: &str) -> Result<()> {
    let create = |index| Request::create(stream_name(index), content_type);
    send_all(address, count, create).context("create the streams").map(drop)
}

/// Makes subscriptions that follow no stream of the benchmark, each by a pattern of its own.
pub(crate) fn follow_others(address: SocketAddr, count: usize) -> Result<()> {
    let subscribe = |index| Request::follow(index, &format!("tenant-{index}/**"));
    send_all(address, count, subscribe).context("make the subscriptions").map(drop)
}

/// Sends `count` requests, all of which must succeed, and returns the offsets they led to.
pub(super) fn send_all(
    address: SocketAddr,
    count: usize,
    request: impl Fn(usize) -> Request,
) -> Result<Vec<String>> {
    let mut sequence = Sequence {
        request,
        sent: 0,
        in_flight: [0; CONNECTIONS],
        next_offsets: vec![String::new(); count],
    };
    run_to_end(address, CONNECTIONS, TIME_MAX, &mut sequence)
        .with_context(|| format!("after {} of {count} requests", sequence.sent))?;
    Ok(sequence.next_offsets)
}

/// Every request once, in no order: they are spread over the connections.
struct Sequence<F> {
    request: F,
    sent: usize,
    /// Which request each connection waits for.
    in_flight: [usize; CONNECTIONS],
    next_offsets: Vec<String>,
}

impl<F: Fn(usize) -> Request> Workload for Sequence<F> {
    fn next_request(&mut self, connection: usize) -> Option<Request> {
        let index = self.sent;
        if index == self.next_offsets.len() {
            return None;
        }
        self.sent += 1;
        self.in_flight[connection] = index;
        Some((self.request)(index))
    }

    fn on_response(&mut self, connection: usize, response: &Response) -> Result<Step> {
        ensure!(matches!(response.status, 200..=299), "status {}", response.status);
        self.next_offsets[self.in_flight[connection]].clone_from(&response.next_offset);
        Ok(Step::Finished)
    }
}
