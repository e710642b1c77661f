//! One side of one row: a value, perhaps with latencies.

use std::fmt::Write;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::load::Histogram;

/// One side of one row.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Measurement {
    /// In the row's unit.
    pub(crate) value: f64,
    pub(crate) latency: Option<Latency>,
    /// The part of one core that the load generator used.
    pub(crate) generator_load: Option<f64>,
    pub(crate) open_files: Option<u64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) ms_p50: f64,
    pub(crate) ms_p99: f64,
}

impl Latency {
    /// # Errors
    /// When nothing was recorded: there is no latency of what never happened.
    pub(crate) fn of(histogram: &Histogram) -> Result<Self> {
        ensure!(histogram.total() > 0, "nothing completed in the measured time");
        let ms = |fraction| histogram.quantile(fraction).as_secs_f64() * 1e3;
        Ok(Self { ms_p50: ms(0.50), ms_p99: ms(0.99) })
    }
}

impl Measurement {
    /// One line for the progress of a run.
    pub(crate) fn brief(&self, unit: Unit) -> String {
        let mut line = unit.cell(self);
        if let Some(latency) = self.latency {
            let _ = write!(line, ", p50 {:.2} ms, p99 {:.2} ms", latency.ms_p50, latency.ms_p99);
        }
        if let Some(load) = self.generator_load {
            let _ = write!(line, ", generator {:.0} %", load * 100.0);
        }
        line
    }
}

/// What a row's value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    PerSecond,
    MegabytesPerSecond,
    /// The median latency itself: the load is paced, so there is no rate to compare.
    MillisecondsP50,
    ResidentMebibytes,
}

impl Unit {
    pub(super) fn cell(self, measurement: &Measurement) -> String {
        let value = measurement.value;
        match (self, measurement.open_files) {
            (Self::PerSecond, _) => format!("{}/s", grouped(value)),
            (Self::MegabytesPerSecond, _) => format!("{value:.1} MB/s"),
            (Self::MillisecondsP50, _) => format!("{value:.2} ms p50"),
            (Self::ResidentMebibytes, Some(files)) => {
                format!("{value:.0} MiB, {} files", grouped(files as f64))
            }
            (Self::ResidentMebibytes, None) => format!("{value:.0} MiB"),
        }
    }
}

/// A whole number with its thousands set apart.
pub(super) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let check = |value: f64, expected: &str| assert_eq!(grouped(value), expected);
        check(0.0, "0");
        check(999.4, "999");
        check(1_000.0, "1,000");
        check(1_234_567.0, "1,234,567");
    }
}
