//! A seeded generator: both servers see the same choices in the same order.

/// The SplitMix64 sequence; its quality is ample for choosing streams.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A choice among `0..bound`, by multiplication rather than a division.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Printable bytes: they can stand in a text stream as well as in a JSON string.
    pub(crate) fn letters(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| b'a' + self.below(26) as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut random = Random::seeded(seed);
            [(); 8].map(|()| random.below(1_000))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn choices_stay_below_the_bound() {
        let mut random = Random::seeded(1);
        assert!((0..10_000).all(|_| random.below(3) < 3));
    }
}
