//! Sums that can be taken back: exact, whatever the order of what is added and removed.

/// A sum of numbers. Adding and removing the same number leaves no trace, so a sum kept up to
/// date for a year equals one made anew.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    whole: i128,
    /// What is not whole, if ever there was any.
    fractions: Option<Box<Fixed>>,
    not_numbers: i64,
    infinities: [i64; 2],
}

/// A number of 2,176 bits in two's complement, in units of the smallest float.
#[derive(Clone, Debug)]
struct Fixed([u64; LIMBS]);

const LIMBS: usize = 34;
/// The exponent of the unit.
const UNIT: i32 = -1_074;

impl Sum {
    /// Adds a number `count` times; a negative count removes it.
    pub(super) fn add(&mut self, number: f64, count: i64) {
        if number.is_nan() {
            self.not_numbers += count;
        } else if number.is_infinite() {
            self.infinities[usize::from(number > 0.0)] += count;
        } else if number.fract() == 0.0 && number.abs() < 2f64.powi(63) {
            #[expect(clippy::cast_possible_truncation, reason = "whole, and within i64")]
            self.add_whole(number as i64, count);
        } else {
            let fixed = self.fractions.get_or_insert_with(|| Box::new(Fixed([0; LIMBS])));
            for _ in 0..count.unsigned_abs() {
                fixed.add(if count > 0 { number } else { -number });
            }
        }
    }

    /// Adds a whole number `count` times.
    pub(super) fn add_whole(&mut self, number: i64, count: i64) {
        self.whole += i128::from(number) * i128::from(count);
    }

    /// The sum as the nearest float.
    pub(super) fn value(&self) -> f64 {
        let [negative, positive] = self.infinities;
        match (self.not_numbers > 0, negative > 0, positive > 0) {
            (true, ..) | (_, true, true) => return f64::NAN,
            (_, true, false) => return f64::NEG_INFINITY,
            (_, false, true) => return f64::INFINITY,
            _ => {}
        }
        #[expect(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
        match &self.fractions {
            None => self.whole as f64,
            Some(fractions) => {
                let mut total = fractions.clone();
                total.add_at(self.whole.unsigned_abs(), -UNIT, self.whole < 0);
                total.value()
            }
        }
    }

    /// The sum, if it is whole.
    pub(super) fn whole(&self) -> Option<i64> {
        let is_plain = self.not_numbers == 0 && self.infinities == [0, 0];
        let is_whole = self.fractions.as_ref().is_none_or(|fixed| fixed.0 == [0; LIMBS]);
        if is_plain && is_whole { i64::try_from(self.whole).ok() } else { None }
    }
}

impl Fixed {
    fn add(&mut self, number: f64) {
        let bits = number.to_bits();
        let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
        let mantissa = bits & ((1 << 52) - 1);
        // A float of exponent 0 has no hidden bit, and the unit of one of exponent 1.
        let (mantissa, shift) = match exponent {
            0 => (mantissa, 0),
            _ => (mantissa | (1 << 52), exponent - 1),
        };
        self.add_at(mantissa.into(), shift, bits >> 63 == 1);
    }

    /// Adds or subtracts a number that is shifted up by so many bits.
    fn add_at(&mut self, number: u128, shift: i32, is_negative: bool) {
        let shift = usize::try_from(shift).unwrap_or(0);
        let (limb, bit) = (shift / 64, shift % 64);
        let (low, high) = (number << bit, if bit == 0 { 0 } else { number >> (128 - bit) });
        #[expect(clippy::cast_possible_truncation, reason = "cut into limbs")]
        let parts = [low as u64, (low >> 64) as u64, high as u64];
        let mut carry = false;
        for (index, own) in self.0[limb..].iter_mut().enumerate() {
            let part = parts.get(index).copied().unwrap_or(0);
            if index >= parts.len() && !carry {
                break;
            }
            let (sum, first) = step(*own, part, is_negative);
            let (sum, second) = step(sum, u64::from(carry), is_negative);
            *own = sum;
            carry = first | second;
        }
    }

    fn value(&self) -> f64 {
        let is_negative = self.0[LIMBS - 1] >> 63 == 1;
        let mut size = self.clone();
        if is_negative {
            size.0.iter_mut().for_each(|limb| *limb = !*limb);
            size.add_at(1, 0, false);
        }
        let Some(top) = size.0.iter().rposition(|limb| *limb != 0) else { return 0.0 };
        let number = size.rounded(top);
        if is_negative { -number } else { number }
    }

    /// The nearest float, ties to even. The highest limb that is not zero is given.
    fn rounded(&self, top: usize) -> f64 {
        let zeros = self.0[top].leading_zeros() as usize;
        let bits = top * 64 + 64 - zeros;
        if bits <= 53 {
            // Smaller than any rounding: the bits are the float.
            return f64::from_bits(self.0[0]);
        }
        let drop = bits - 53;
        let bit = |index: usize| (self.0[index / 64] >> (index % 64)) & 1 == 1;
        let mut mantissa = (0..53)
            .fold(0u64, |mantissa, index| mantissa | (u64::from(bit(drop + index)) << index));
        let is_half = bit(drop - 1);
        let has_more = (0..drop - 1).any(bit);
        if is_half && (has_more || mantissa & 1 == 1) {
            mantissa += 1;
        }
        // The hidden bit adds one to the exponent, and so does a mantissa that overflowed.
        let exponent = u64::try_from(drop).unwrap_or(u64::MAX);
        let float = exponent.checked_mul(1 << 52).and_then(|bits| bits.checked_add(mantissa));
        float.filter(|bits| bits >> 52 < 0x7ff).map_or(f64::INFINITY, f64::from_bits)
    }
}

fn step(own: u64, part: u64, is_negative: bool) -> (u64, bool) {
    if is_negative { own.overflowing_sub(part) } else { own.overflowing_add(part) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(numbers: &[f64]) -> Sum {
        let mut sum = Sum::default();
        numbers.iter().for_each(|number| sum.add(*number, 1));
        sum
    }

    #[test]
    fn sums_are_the_nearest_floats() {
        for (numbers, expected) in [
            (&[][..], 0.0),
            (&[0.1, 0.2], 0.30000000000000004),
            (&[0.1; 10], 1.0),
            (&[1e308, 1e308, -1e308], 1e308),
            (&[1e16, 1.0, 1e-3, -1e16], 1.001),
            (&[1e-320, 3e-324], 1e-320 + 3e-324),
            (&[-0.5, 0.25], -0.25),
            (&[1e308, 1e308], f64::INFINITY),
            (&[2f64.powi(63), 0.5], 2f64.powi(63)),
            (&[f64::INFINITY, 1.0], f64::INFINITY),
        ] {
            assert_eq!(sum(numbers).value(), expected, "{numbers:?}");
        }
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).value().is_nan());
        assert_eq!((sum(&[1.5, 1.5]).whole(), sum(&[1.0, 2.0]).whole()), (None, Some(3)));
    }

    proptest! {
        #[test]
        fn what_is_removed_leaves_no_trace(
            kept in prop::collection::vec(any::<f64>(), 0..8),
            gone in prop::collection::vec(any::<f64>(), 0..8),
        ) {
            let mut changed = sum(&gone);
            kept.iter().for_each(|number| changed.add(*number, 1));
            gone.iter().for_each(|number| changed.add(*number, -1));
            prop_assert_eq!(changed.value().to_bits(), sum(&kept).value().to_bits());
        }

        #[test]
        fn one_number_is_its_own_sum(number in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL) {
            let mut sum = Sum::default();
            sum.add(0.5, 1);
            sum.add(number, 1);
            sum.add(0.5, -1);
            prop_assert_eq!(sum.value(), number);
        }
    }
}
