//! The bytes of one file that the disk fails to read.

use std::ops::Range;

/// Bad sectors, until they are written again.
#[derive(Clone, Debug, Default)]
pub(super) struct Spoiled {
    /// In no order; they may overlap.
    ranges: Vec<Range<u64>>,
}

impl Spoiled {
    pub(super) fn add(&mut self, range: Range<u64>) {
        self.ranges.push(range);
    }

    /// A disk puts a good sector in the place of a bad one that is written.
    pub(super) fn heal(&mut self, healed: &Range<u64>) {
        let left = |range: &Range<u64>| {
            let before = range.start..range.end.min(healed.start);
            let after = range.start.max(healed.end)..range.end;
            [before, after]
        };
        self.ranges = self.ranges.iter().flat_map(left).filter(|left| !left.is_empty()).collect();
    }

    /// How many of the bytes from `offset` on come before the first that cannot be read.
    pub(super) fn readable(&self, offset: u64) -> u64 {
        let bad = self.ranges.iter().filter(|range| range.end > offset);
        bad.map(|range| range.start.saturating_sub(offset)).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        let rows: [(Range<u64>, [u64; 3]); 5] = [
            (0..0, [10, 0, 0]),
            (0..15, [15, 5, 3]),
            (12..15, [10, 0, 3]),
            (15..30, [10, 0, 0]),
            (0..100, [u64::MAX; 3]),
        ];
        for (written, readable) in rows {
            let mut spoiled = Spoiled::default();
            spoiled.add(10..20);
            spoiled.heal(&written);
            let found = [0, 10, 12].map(|offset| spoiled.readable(offset));
            assert_eq!(found, readable, "{written:?}");
        }
    }
}
