//! Chance: the operating system's randomness, or a sequence that one seed decides.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use rustix::{
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

/// A source of random values. Clones share one state.
#[derive(Clone, Debug)]
pub struct Chance {
    source: Source,
}

/// A seed that keeps hash tables out of the reach of chosen keys.
#[derive(Clone, Copy)]
pub struct HashSeed(u64);

#[derive(Clone, Debug)]
enum Source {
    /// Every draw asks the kernel, so that every draw may become a secret.
    Os,
    /// Held only while one value is drawn.
    Seeded(Arc<Mutex<SplitMix>>),
}

impl Chance {
    /// The operating system's randomness, fit for secrets.
    #[must_use]
    pub const fn real() -> Self {
        Self { source: Source::Os }
    }

    /// A sequence decided by `seed` alone. It keeps no secrets.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { source: Source::Seeded(Arc::new(Mutex::new(SplitMix { state: seed }))) }
    }

    /// Fills `buf` with random bytes.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn fill(&self, buf: &mut [u8]) {
        match &self.source {
            Source::Os => fill_from_os(buf),
            Source::Seeded(sequence) => {
                let mut sequence = sequence.lock();
                for chunk in buf.chunks_mut(size_of::<u64>()) {
                    chunk.copy_from_slice(&sequence.draw().to_le_bytes()[..chunk.len()]);
                }
            }
        }
    }

    /// Any number, each as likely as the others.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn u64(&self) -> u64 {
        let mut bytes = [0; size_of::<u64>()];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number in `0..bound`. The bias is below one part in 2⁶⁴ / `bound`.
    ///
    /// # Panics
    /// If `bound` is 0, or the operating system has no randomness to give.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing lies below zero");
        let scaled = u128::from(self.u64()) * u128::from(bound);
        (scaled >> u64::BITS) as u64
    }

    /// A fresh seed for hash tables.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn hash_seed(&self) -> HashSeed {
        HashSeed(self.u64())
    }
}

impl HashSeed {
    /// The hasher state for a table; the same seed always gives the same hashes.
    #[must_use]
    pub fn build_hasher_state(self) -> foldhash::quality::FixedState {
        foldhash::quality::FixedState::with_seed(self.0)
    }
}

impl fmt::Debug for HashSeed {
    /// Hides the seed, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSeed(..)")
    }
}

/// The SplitMix64 generator: one word of state, and every seed is a good one.
#[derive(Debug)]
struct SplitMix {
    state: u64,
}

impl SplitMix {
    const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn fill_from_os(mut buf: &mut [u8]) {
    while !buf.is_empty() {
        match getrandom(&mut *buf, GetRandomFlags::empty()) {
            Ok(filled) => buf = &mut buf[filled..],
            Err(Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no randomness: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn a_seed_decides_the_sequence() {
        let draw = |seed| {
            let chance = Chance::seeded(seed);
            let mut bytes = [0; 13];
            chance.fill(&mut bytes);
            (bytes, chance.u64(), chance.below(1_000))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn the_sequence_is_splitmix64() {
        assert_eq!(Chance::seeded(0).u64(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn clones_share_one_sequence() {
        let (chance, expect) = (Chance::seeded(1), Chance::seeded(1));
        let twin = chance.clone();
        let drawn = [chance.u64(), twin.u64(), chance.u64()];
        assert_eq!(drawn, [expect.u64(), expect.u64(), expect.u64()]);
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let chance = Chance::seeded(3);
        let mut seen = [0; 5];
        for _ in 0..1_000 {
            seen[chance.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }

    #[test]
    fn real_chance_fills_long_buffers() {
        let mut bytes = [0; 1_000];
        Chance::real().fill(&mut bytes);
        assert!(bytes.iter().rev().take(32).any(|&byte| byte != 0));
        assert_ne!(Chance::real().u64(), Chance::real().u64());
    }

    #[test]
    fn a_hash_seed_repeats_its_hashes_and_differs_from_others() {
        let chance = Chance::seeded(5);
        let (one, two) = (chance.hash_seed(), chance.hash_seed());
        let hash = |seed: HashSeed| seed.build_hasher_state().hash_one("key");
        assert_eq!(hash(one), hash(one));
        assert_ne!(hash(one), hash(two));
    }
}
