//! Chance from a seed: the same seed gives the same choices, on every machine, for ever.

/// A small generator of choices (SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..end`.
    ///
    /// # Panics
    ///
    /// When `end` is 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A number in `start..=last`.
    pub(super) fn between(&mut self, start: usize, last: usize) -> usize {
        start + self.below(last - start + 1)
    }

    /// True so many times in a hundred.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which must not be empty.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// An index into `weights`, each as likely as its weight.
    pub(super) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut point = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            match point.checked_sub(*weight) {
                Some(rest) => point = rest,
                None => return index,
            }
        }
        unreachable!("the point lies below the sum of the weights")
    }

    /// Puts `items` into a random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..50).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_weight_of_nothing_is_never_chosen() {
        let mut random = Random::new(1);
        let chosen: Vec<_> = (0..200).map(|_| random.weighted(&[0, 3, 0, 1])).collect();
        assert!(chosen.iter().all(|index| [1, 3].contains(index)));
        assert!(chosen.contains(&1) && chosen.contains(&3));
    }
}
