//! What is measured, and how: both sides tell it in the same words.

use std::time::Instant;

use anyhow::{Context as _, Result};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What one process found out about its scenario.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Whether the rows in the end were those that had to be.
    pub(super) ok: bool,
    pub(super) figures: Vec<Figure>,
    #[serde(default)]
    pub(super) heap: Option<Heap>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Figure {
    pub(super) name: String,
    /// The median of many calls; or of one call the lesser of wall and processor time, so that
    /// neighbours do not count.
    pub(super) us: f64,
    #[serde(default)]
    pub(super) p99_us: Option<f64>,
    /// Processor time of a call.
    #[serde(default)]
    pub(super) cpu_us: Option<f64>,
    pub(super) is_whole: bool,
}

/// What rows take: the database, its queries and all they remember.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Heap {
    pub(super) bytes: f64,
    pub(super) rows: usize,
}

/// Measures one call as a whole.
pub(super) fn whole<R>(name: &str, work: impl FnOnce() -> Result<R>) -> Result<(Figure, R)> {
    let began = Whole::begin();
    let result = work()?;
    Ok((began.end(name), result))
}

/// Something that is measured as a whole, since it began.
pub(super) struct Whole {
    cpu_us: f64,
    at: Instant,
}

impl Whole {
    pub(super) fn begin() -> Self {
        Self { cpu_us: cpu_us(), at: Instant::now() }
    }

    pub(super) fn end(self, name: &str) -> Figure {
        let wall_us = self.at.elapsed().as_secs_f64() * 1e6;
        let cpu = cpu_us() - self.cpu_us;
        let us = wall_us.min(cpu);
        Figure { name: name.into(), us, p99_us: None, cpu_us: Some(cpu), is_whole: true }
    }
}

/// Calls of a kind: how many, and how many of them only warm up.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    pub(super) name: &'static str,
    pub(super) count: usize,
    pub(super) warm: usize,
}

impl Calls {
    /// Measures each call. `prepare` makes what it is given, off the clock.
    pub(super) fn measure<S, T>(
        self,
        on: &mut S,
        mut prepare: impl FnMut(&mut S, usize) -> Result<T>,
        mut call: impl FnMut(&mut S, T) -> Result<()>,
    ) -> Result<Figure> {
        let mut times = Vec::with_capacity(self.count);
        for number in 0..self.count {
            let given = prepare(on, number)?;
            let began = Instant::now();
            call(on, given)?;
            let took = began.elapsed();
            if number >= self.warm {
                times.push(took.as_secs_f64() * 1e6);
            }
        }
        spread(self.name, times)
    }
}

/// The median and the slow end of many calls.
pub(super) fn spread(name: &str, mut times: Vec<f64>) -> Result<Figure> {
    times.sort_unstable_by(f64::total_cmp);
    let rank = |part: f64| times.get((times.len() as f64 * part) as usize).copied();
    let us = rank(0.5).context("nothing was measured")?;
    Ok(Figure { name: name.into(), us, p99_us: rank(0.99), cpu_us: None, is_whole: false })
}

/// Memory of this process that is in use. What was freed and not given back counts, too.
pub(super) fn resident_bytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).context("no VmRSS")?;
    Ok(kib.parse::<f64>()? * 1024.0)
}

fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
