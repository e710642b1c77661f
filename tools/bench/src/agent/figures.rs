//! What was measured: latencies, amounts, and what comes of several rounds.

use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// How long something took, each time, in milliseconds.
///
/// It may be less than nothing where two threads hear of the same moment, and the one that is
/// measured hears of it first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

/// How long something takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) what: String,
    pub(crate) ms_p50: f64,
    pub(crate) ms_p99: f64,
    pub(crate) count: usize,
    /// What it cannot be faster than, by its name.
    pub(crate) floor: Option<String>,
}

/// How much of something there is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Amount {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
}

/// All that one round has measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) latencies: Vec<Latency>,
    pub(crate) amounts: Vec<Amount>,
}

impl Samples {
    pub(crate) fn push(&mut self, from: Instant, to: Instant) {
        let ms = match to.checked_duration_since(from) {
            Some(after) => after.as_secs_f64() * 1e3,
            None => (from - to).as_secs_f64() * -1e3,
        };
        self.0.push(ms);
    }

    pub(crate) fn first(&self, count: usize) -> Self {
        Self(self.0[..count.min(self.0.len())].to_vec())
    }

    pub(crate) fn last(&self, count: usize) -> Self {
        Self(self.0[self.0.len().saturating_sub(count)..].to_vec())
    }

    /// # Errors
    /// When there are none: there is no latency of what never happened.
    pub(crate) fn latency(&self, what: &str, floor: Option<&str>) -> Result<Latency> {
        let mut ms = self.0.clone();
        ms.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let rank = (ms.len() as f64 * share).ceil() as usize;
            ms.get(rank.max(1) - 1).copied().with_context(|| format!("{what}: never happened"))
        };
        Ok(Latency {
            what: what.to_owned(),
            ms_p50: quantile(0.50)?,
            ms_p99: quantile(0.99)?,
            count: ms.len(),
            floor: floor.map(str::to_owned),
        })
    }
}

impl Figures {
    pub(crate) fn amount(&mut self, what: &str, value: f64, unit: &str) {
        self.amounts.push(Amount { what: what.to_owned(), value, unit: unit.to_owned() });
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.amounts.extend(other.amounts);
    }

    /// The median of each figure of these rounds.
    pub(crate) fn median(rounds: &[Self]) -> Self {
        let Some(first) = rounds.first() else { return Self::default() };
        let mut all = first.clone();
        for latency in &mut all.latencies {
            let same = |figures: &'_ Self| figures.latency(&latency.what).cloned();
            let same: Vec<_> = rounds.iter().filter_map(same).collect();
            latency.ms_p50 = middle(same.iter().map(|it| it.ms_p50));
            latency.ms_p99 = middle(same.iter().map(|it| it.ms_p99));
        }
        for amount in &mut all.amounts {
            let same = rounds.iter().filter_map(|figures| figures.amount_of(&amount.what));
            amount.value = middle(same);
        }
        all
    }

    pub(crate) fn latency(&self, what: &str) -> Option<&Latency> {
        self.latencies.iter().find(|latency| latency.what == what)
    }

    pub(crate) fn amount_of(&self, what: &str) -> Option<f64> {
        self.amounts.iter().find(|amount| amount.what == what).map(|amount| amount.value)
    }
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
