//! Chance as data: a list of numbers that decides everything, so that a shorter list and smaller
//! numbers make a simpler case.

use proptest::prelude::*;

/// Numbers to decide by. When they run out, everything is as simple as it can be.
#[derive(Clone, Debug)]
pub struct Choices {
    numbers: std::vec::IntoIter<u32>,
    names: usize,
}

/// Up to this many decisions.
pub fn choices(most: usize) -> impl Strategy<Value = Choices> {
    prop::collection::vec(any::<u32>(), most / 2..most)
        .prop_map(|numbers| Choices { numbers: numbers.into_iter(), names: 0 })
}

impl Choices {
    /// A number below `bound`; 0 is the simplest.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = self.numbers.next().unwrap_or(0);
        // The high bits: small numbers must stay small.
        (u64::from(number) * bound as u64 >> 32) as usize
    }

    /// True in `part` of `whole` cases.
    pub fn chance(&mut self, part: usize, whole: usize) -> bool {
        self.below(whole) >= whole - part
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// A name that was not given before.
    pub fn name(&mut self) -> String {
        self.names += 1;
        format!("q{}", self.names)
    }
}
