//! Latencies in logarithmic buckets: constant memory, at most 1.6 % off at any magnitude.

use std::time::Duration;

/// Each power of two is split into this many buckets of equal width.
const SPLITS_LOG2: u32 = 6;
const SPLITS: usize = 1 << SPLITS_LOG2;
const BUCKETS: usize = SPLITS * (65 - SPLITS_LOG2 as usize);

/// Counts of durations, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(nanos)] += 1;
        self.total += 1;
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The duration that `fraction` of the records do not exceed; zero when nothing was recorded.
    pub(crate) fn quantile(&self, fraction: f64) -> Duration {
        let rank = ((self.total as f64 * fraction).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(middle_of(bucket));
            }
        }
        Duration::ZERO
    }
}

/// Small values have a bucket each; above, the top bits after the leading one choose the split.
fn bucket_of(nanos: u64) -> usize {
    if nanos < SPLITS as u64 {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - SPLITS_LOG2;
    let split = (nanos >> shift) as usize - SPLITS;
    SPLITS * (shift as usize + 1) + split
}

fn middle_of(bucket: usize) -> u64 {
    if bucket < SPLITS {
        return bucket as u64;
    }
    let shift = bucket / SPLITS - 1;
    let lowest = ((SPLITS + bucket % SPLITS) as u64) << shift;
    let width = 1_u64 << shift;
    lowest + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_never_far_from_what_it_counts() {
        for nanos in [0, 1, 63, 64, 65, 1_000, 123_456, 7_654_321, 1 << 40, u64::MAX / 2] {
            let read_back = middle_of(bucket_of(nanos));
            let error = read_back.abs_diff(nanos) as f64;
            assert!(error <= nanos as f64 * 0.016, "{nanos} was read back as {read_back}");
        }
    }

    #[test]
    fn the_largest_value_has_a_bucket() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_follow_the_ranks() {
        let mut histogram = Histogram::default();
        for millis in 1..=100 {
            histogram.record(Duration::from_millis(millis));
        }
        let check = |fraction: f64, expected_ms: f64| {
            let found_ms = histogram.quantile(fraction).as_secs_f64() * 1e3;
            assert!((found_ms - expected_ms).abs() < expected_ms * 0.02, "{fraction}: {found_ms}");
        };
        check(0.0, 1.0);
        check(0.5, 50.0);
        check(0.99, 99.0);
        check(1.0, 100.0);
    }

    #[test]
    fn an_empty_histogram_answers_zero() {
        assert_eq!(Histogram::default().quantile(0.99), Duration::ZERO);
    }
}
