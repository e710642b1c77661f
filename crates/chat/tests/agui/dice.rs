//! A small source of chance, so that a failure is one number.

use serde_json::{Map, Value, json};

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub(crate) fn text(&mut self) -> String {
        const WORDS: [&str; 7] = ["", "a", "Héllo ", "\"\\\n", "{\"x\":1}", "🌊", "null"];
        (0..self.below(4)).map(|_| *self.pick(&WORDS)).collect()
    }

    pub(crate) fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.chance(50)),
            2 => json!(self.next() >> 11),
            3 => json!(-0.5),
            4 => json!(self.text()),
            5 => (0..self.below(3)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(self.map(depth - 1)),
        }
    }

    pub(crate) fn map(&mut self, depth: usize) -> Map<String, Value> {
        const KEYS: [&str; 4] = ["x-one", "two", "drei", "4"];
        (0..self.below(3)).map(|_| ((*self.pick(&KEYS)).to_owned(), self.value(depth))).collect()
    }
}
