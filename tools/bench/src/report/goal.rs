//! What our server is to reach beside the official one.

use serde::Serialize;

/// What our server is to reach, relative to the official one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Goal {
    pub(crate) value_ratio_min: Option<f64>,
    pub(crate) value_ratio_max: Option<f64>,
    pub(crate) p99_ratio_max: Option<f64>,
}

impl Goal {
    const NONE: Self = Self { value_ratio_min: None, value_ratio_max: None, p99_ratio_max: None };

    /// Half as much throughput again, at half the tail latency.
    pub(crate) const FASTER: Self =
        Self { value_ratio_min: Some(1.5), p99_ratio_max: Some(0.5), ..Self::NONE };
    /// With one request under way, both servers wait for the same disk.
    pub(crate) const NOT_SLOWER: Self = Self { value_ratio_min: Some(1.0), ..Self::NONE };
    /// For paced load: only the tail is compared.
    pub(crate) const SOONER: Self = Self { p99_ratio_max: Some(0.5), ..Self::NONE };
    pub(crate) const NOT_LARGER: Self = Self { value_ratio_max: Some(1.0), ..Self::NONE };

    pub(super) fn is_met(self, value_ratio: f64, p99_ratio: Option<f64>) -> bool {
        let at_least = |ratio: f64, bound: Option<f64>| bound.is_none_or(|bound| ratio >= bound);
        let at_most = |ratio: f64, bound: Option<f64>| bound.is_none_or(|bound| ratio <= bound);
        at_least(value_ratio, self.value_ratio_min)
            && at_most(value_ratio, self.value_ratio_max)
            && p99_ratio.is_none_or(|ratio| at_most(ratio, self.p99_ratio_max))
    }

    pub(super) fn cell(self) -> String {
        let value_min = self.value_ratio_min.map(|bound| format!("≥ {bound:.1}x"));
        let value_max = self.value_ratio_max.map(|bound| format!("≤ {bound:.1}x"));
        let p99_max = self.p99_ratio_max.map(|bound| format!("p99 ≤ {bound:.1}x"));
        let parts: Vec<String> = [value_min, value_max, p99_max].into_iter().flatten().collect();
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_look_at_throughput_and_tail() {
        let check = |goal: Goal, value_ratio, p99_ratio, expected| {
            assert_eq!(goal.is_met(value_ratio, p99_ratio), expected, "{goal:?}");
        };
        check(Goal::FASTER, 1.5, Some(0.5), true);
        check(Goal::FASTER, 1.4, Some(0.1), false);
        check(Goal::FASTER, 9.0, Some(0.6), false);
        check(Goal::NOT_SLOWER, 1.0, Some(3.0), true);
        check(Goal::SOONER, 9.0, Some(0.4), true);
        check(Goal::NOT_LARGER, 1.1, None, false);
    }
}
