//! Draws that read like sentences.

use std::{ops::RangeInclusive, time::Duration};

use sys::Chance;

/// A sequence of draws that one seed decides.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    chance: Chance,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { chance: Chance::seeded(seed) }
    }

    /// Dice of its own for somebody, so that one actor's draws do not move another's.
    pub(crate) fn split(&self) -> Self {
        Self::new(self.chance.u64())
    }

    pub(crate) fn between(&self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.chance.below(range.end() - range.start() + 1)
    }

    /// A number of a range of sizes, small ones as often as large ones.
    pub(crate) fn magnitude(&self, range: RangeInclusive<u64>) -> u64 {
        let (start, end) = (*range.start(), *range.end());
        let doublings = u64::from((end / start).ilog2());
        let low = start << self.between(0..=doublings);
        self.between(low..=(2 * low).min(end))
    }

    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.chance.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&self, list: &'a [T]) -> Option<&'a T> {
        (!list.is_empty()).then(|| &list[self.index(list.len())])
    }

    pub(crate) fn index(&self, count: usize) -> usize {
        self.chance.below(count as u64) as usize
    }

    /// Most pauses are short, so that requests share a commit; some are long enough for the
    /// background work.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(match self.between(0..=99) {
            0..40 => 0,
            40..84 => self.between(1..=4),
            84..98 => self.between(10..=80),
            _ => self.between(300..=2_500),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_stay_in_range_and_reach_both_ends() {
        let dice = Dice::new(1);
        let drawn: Vec<u64> = (0..5_000).map(|_| dice.magnitude(1..=600)).collect();
        assert!(drawn.iter().all(|number| (1..=600).contains(number)));
        assert!(drawn.contains(&1) && drawn.iter().any(|number| *number > 500));
    }
}
