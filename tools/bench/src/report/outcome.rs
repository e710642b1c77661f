//! What came of all rounds of one side of a row.

use anyhow::Result;
use serde::Serialize;

use super::measurement::{Latency, Measurement, Unit};

/// What came of all rounds of one side.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Measured(Measurement),
    Failed(String),
}

impl Outcome {
    /// The median of the rounds; one failed round fails them all, lest luck be reported.
    pub(crate) fn of_rounds(rounds: Vec<Result<Measurement>>) -> Self {
        match rounds.into_iter().collect::<Result<Vec<_>>>() {
            Ok(measurements) => Self::median(&measurements),
            Err(error) => Self::Failed(format!("{error:#}")),
        }
    }

    fn median(rounds: &[Measurement]) -> Self {
        let of = |field: &dyn Fn(&Measurement) -> Option<f64>| {
            median(rounds.iter().filter_map(field).collect())
        };
        let Some(value) = of(&|round| Some(round.value)) else {
            return Self::Failed("no rounds were played".to_owned());
        };
        let ms_p50 = of(&|round| round.latency.map(|latency| latency.ms_p50));
        let ms_p99 = of(&|round| round.latency.map(|latency| latency.ms_p99));
        let latency = ms_p50.zip(ms_p99).map(|(ms_p50, ms_p99)| Latency { ms_p50, ms_p99 });
        let open_files = of(&|round| round.open_files.map(|files| files as f64));
        let open_files = open_files.map(|files| files as u64);
        let generator_load = of(&|round| round.generator_load);
        Self::Measured(Measurement { value, latency, generator_load, open_files })
    }

    pub(super) fn measured(&self) -> Option<&Measurement> {
        match self {
            Self::Measured(measurement) => Some(measurement),
            Self::Failed(_) => None,
        }
    }

    pub(super) fn ms_p99(&self) -> Option<f64> {
        self.measured()?.latency.map(|latency| latency.ms_p99)
    }

    pub(super) fn value_cell(&self, unit: Unit) -> String {
        self.measured().map_or_else(|| "failed".to_owned(), |measured| unit.cell(measured))
    }

    pub(super) fn latency_cell(&self) -> String {
        let latency = self.measured().and_then(|measured| measured.latency);
        let text = |latency: Latency| format!("{:.2} / {:.2}", latency.ms_p50, latency.ms_p99);
        latency.map_or_else(|| "-".to_owned(), text)
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(value: f64, ms_p99: f64) -> Measurement {
        let latency = Some(Latency { ms_p50: 0.0, ms_p99 });
        Measurement { value, latency, generator_load: None, open_files: None }
    }

    #[test]
    fn the_median_ignores_the_outlier() {
        let check = |values: &[f64], expected| assert_eq!(median(values.to_vec()), expected);
        check(&[], None);
        check(&[3.0], Some(3.0));
        check(&[900.0, 1.0, 2.0], Some(2.0));
        check(&[1.0, 2.0, 4.0, 900.0], Some(3.0));
    }

    #[test]
    fn one_failed_round_fails_the_side() {
        let rounds = vec![Ok(measured(1.0, 1.0)), Err(anyhow::anyhow!("refused"))];
        assert!(
            matches!(Outcome::of_rounds(rounds), Outcome::Failed(reason) if reason == "refused")
        );
    }
}
