//! A closed loop: every connection sends its next request when its last one is answered.
//!
//! ```text
//!   |-- warm-up --|------- measured -------|-- drain --|
//!   start         open                     close       give up
//! ```
//!
//! The rate counts what completed in `open..close`. The latencies also hold what was started in
//! there and answered during the drain, or the slowest requests would never be seen.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};

use super::connection::{Connection, scratch};
use super::histogram::Histogram;
use super::poller::{Poller, Token};
use super::request::Request;
use super::response::{Progress, Response};

const DRAIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// What the connections are to do.
///
/// The timed unit is usually one request; a catch-up is one unit of several.
pub(crate) trait Workload {
    /// The next request for this connection, or `None` when there is nothing left to do.
    fn next_request(&mut self, connection: usize) -> Option<Request>;

    /// Judges a response.
    ///
    /// # Errors
    /// When the server did not do what was asked: one wrong answer voids the whole round.
    fn on_response(&mut self, connection: usize, response: &Response) -> Result<Step>;
}

/// Whether a response finished a timed unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Continues,
    Finished,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What a timed run saw.
pub(crate) struct Sample {
    pub(crate) units: u64,
    pub(crate) measured: Duration,
    pub(crate) latency: Histogram,
    /// The part of one core that this thread used. Near one, it was the generator that was
    /// measured and not the server.
    pub(crate) generator_load: f64,
}

impl Sample {
    pub(crate) fn per_second(&self) -> f64 {
        self.units as f64 / self.measured.as_secs_f64()
    }
}

/// Keeps all connections busy for the time given.
pub(crate) fn run_timed(
    address: SocketAddr,
    connections: usize,
    timing: Timing,
    workload: &mut impl Workload,
) -> Result<Sample> {
    let mut driver = Driver::new(address, connections, timing)?;
    let (wall_start, cpu_start) = (Instant::now(), thread_cpu());
    driver.run(workload)?;
    let cpu = thread_cpu().saturating_sub(cpu_start);
    Ok(Sample {
        units: driver.units,
        measured: timing.measured,
        latency: driver.latency,
        generator_load: cpu.as_secs_f64() / wall_start.elapsed().as_secs_f64(),
    })
}

/// Works until nothing is left to do: for set-up that is not measured.
///
/// # Errors
/// Also when `time_max` is not enough.
pub(crate) fn run_to_end(
    address: SocketAddr,
    connections: usize,
    time_max: Duration,
    workload: &mut impl Workload,
) -> Result<()> {
    let timing = Timing { warm_up: Duration::ZERO, measured: time_max };
    let mut driver = Driver::new(address, connections, timing)?;
    driver.run(workload)?;
    ensure!(driver.exhausted, "set-up did not end within {} s", time_max.as_secs());
    Ok(())
}

/// The processor time this thread has used.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.try_into().unwrap_or_default()
}

struct Driver {
    poller: Poller,
    connections: Vec<Slot>,
    busy: usize,
    scratch: Vec<u8>,
    open: Instant,
    close: Instant,
    exhausted: bool,
    units: u64,
    latency: Histogram,
}

struct Slot {
    connection: Connection,
    unit_start: Instant,
}

impl Driver {
    fn new(address: SocketAddr, connections: usize, timing: Timing) -> Result<Self> {
        let poller = Poller::new()?;
        let mut slots = Vec::with_capacity(connections);
        for token in 0..connections {
            let connection = Connection::open(address, &poller, token)?;
            slots.push(Slot { connection, unit_start: Instant::now() });
        }
        let open = Instant::now() + timing.warm_up;
        Ok(Self {
            poller,
            connections: slots,
            busy: 0,
            scratch: scratch(),
            open,
            close: open + timing.measured,
            exhausted: false,
            units: 0,
            latency: Histogram::default(),
        })
    }

    fn run(&mut self, workload: &mut impl Workload) -> Result<()> {
        for token in 0..self.connections.len() {
            self.start_unit(token, Instant::now(), workload)?;
        }
        let mut ready = Vec::new();
        while self.busy > 0 {
            self.poller.wait(POLL, &mut ready)?;
            for token in &ready {
                self.advance(*token, workload)?;
            }
            if Instant::now() > self.close + DRAIN {
                bail!("{} requests were not answered within {DRAIN:?}", self.busy);
            }
        }
        Ok(())
    }

    fn advance(&mut self, token: Token, workload: &mut impl Workload) -> Result<()> {
        let connection = &mut self.connections[token].connection;
        if connection.advance(&self.poller, &mut self.scratch, |_| ())? == Progress::Partial {
            return Ok(());
        }
        let step = workload.on_response(token, connection.response())?;
        self.busy -= 1;
        match step {
            Step::Continues => self.send_next(token, workload),
            Step::Finished => {
                // One clock reading ends this unit and starts the next.
                let now = Instant::now();
                self.finish_unit(token, now);
                self.start_unit(token, now, workload)
            }
        }
    }

    fn start_unit(
        &mut self,
        token: Token,
        now: Instant,
        workload: &mut impl Workload,
    ) -> Result<()> {
        if now >= self.close {
            return Ok(());
        }
        self.connections[token].unit_start = now;
        self.send_next(token, workload)
    }

    fn finish_unit(&mut self, token: Token, now: Instant) {
        let start = self.connections[token].unit_start;
        if (self.open..self.close).contains(&now) {
            self.units += 1;
        }
        if start >= self.open {
            self.latency.record(now - start);
        }
    }

    fn send_next(&mut self, token: Token, workload: &mut impl Workload) -> Result<()> {
        let Some(request) = workload.next_request(token) else {
            self.exhausted = true;
            return Ok(());
        };
        self.busy += 1;
        self.connections[token].connection.send(request, &self.poller)
    }
}
