//! Positions and offsets: where a message stands, and the token that says so.

use std::{fmt, str::FromStr};

use crate::caps::ORDINAL_MAX;

/// The ordinal of a message in its stream, dense from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

/// The number of message bytes before a place in its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteOffset(u64);

/// A place between two messages; the token is opaque to everybody else and sorts as text.
///
/// ```
/// let start = wire::Offset::START;
/// assert_eq!(start.to_string(), "0000000000000000_0000000000000000");
/// assert!(start.to_string() < start.after(1, 5).to_string());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset {
    /// Messages before this place.
    pub position: Position,
    /// Bytes before this place.
    pub byte: ByteOffset,
}

/// Where a reader wants to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// The earliest message kept (`-1`).
    Start,
    /// A place an earlier answer named.
    At(Offset),
    /// The tail as it is now: only what comes later.
    Now,
    /// Backwards from the tail as it is now: the newest messages, as many as fit.
    Last,
    /// Backwards from a place an earlier answer named: the newest messages before it that fit.
    Before(Offset),
}

/// How far past its offset a fork begins: messages in a JSON stream, bytes in any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubOffset(u64);

/// A token that no server of ours hands out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an offset; use -1, now, or a Stream-Next-Offset value exactly as received")]
pub struct BadOffset(pub String);

impl Position {
    /// A position from its ordinal.
    ///
    /// # Panics
    /// If the ordinal does not fit an offset token.
    #[must_use]
    pub fn new(ordinal: u64) -> Self {
        assert!(ordinal <= ORDINAL_MAX, "position {ordinal} does not fit an offset token");
        Self(ordinal)
    }

    /// The ordinal.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl ByteOffset {
    /// A byte offset from a count.
    ///
    /// # Panics
    /// If the count does not fit an offset token.
    #[must_use]
    pub fn new(count: u64) -> Self {
        assert!(count <= ORDINAL_MAX, "byte offset {count} does not fit an offset token");
        Self(count)
    }

    /// The count.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl Offset {
    /// Before the first message.
    pub const START: Self = Self { position: Position(0), byte: ByteOffset(0) };

    /// The place before message `position`, which begins at `byte`.
    #[must_use]
    pub fn new(position: u64, byte: u64) -> Self {
        Self { position: Position::new(position), byte: ByteOffset::new(byte) }
    }

    /// The place after `messages` more messages of `bytes` bytes.
    #[must_use]
    pub fn after(self, messages: u64, bytes: u64) -> Self {
        Self::new(self.position.0 + messages, self.byte.0 + bytes)
    }

    /// The token, without an allocation.
    #[must_use]
    pub fn token(self) -> [u8; 33] {
        let mut token = [b'_'; 33];
        write_digits(&mut token[..16], self.position.0);
        write_digits(&mut token[17..], self.byte.0);
        token
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.token()).expect("digits and an underscore"))
    }
}

impl FromStr for Offset {
    type Err = BadOffset;

    fn from_str(token: &str) -> Result<Self, BadOffset> {
        let bad = || BadOffset(token.chars().take(64).collect());
        let bytes = token.as_bytes();
        if bytes.len() != 33 || bytes[16] != b'_' {
            return Err(bad());
        }
        let position = read_digits(&bytes[..16]).ok_or_else(bad)?;
        let byte = read_digits(&bytes[17..]).ok_or_else(bad)?;
        Ok(Self { position: Position(position), byte: ByteOffset(byte) })
    }
}

impl FromStr for ReadFrom {
    type Err = BadOffset;

    fn from_str(token: &str) -> Result<Self, BadOffset> {
        match token {
            "-1" => Ok(Self::Start),
            "now" => Ok(Self::Now),
            other => other.parse().map(Self::At),
        }
    }
}

impl SubOffset {
    /// A sub-offset of `count` messages or bytes.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Self(count)
    }

    /// The count.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for SubOffset {
    type Err = BadOffset;

    fn from_str(text: &str) -> Result<Self, BadOffset> {
        plain_integer(text).map(Self).ok_or_else(|| BadOffset(text.chars().take(64).collect()))
    }
}

/// A decimal integer without sign, leading zero, fraction or exponent, at most 2^53 - 1.
pub(crate) fn plain_integer(text: &str) -> Option<u64> {
    let plain = !text.is_empty()
        && text.len() <= 16
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    let value = if plain { text.parse().ok()? } else { return None };
    (value <= crate::caps::INTEGER_MAX).then_some(value)
}

fn write_digits(place: &mut [u8], mut value: u64) {
    for pair in place.rchunks_exact_mut(2) {
        let two = (value % 100) as u8;
        pair.copy_from_slice(&[b'0' + two / 10, b'0' + two % 10]);
        value /= 100;
    }
}

fn read_digits(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tokens_round_trip(position in 0..=ORDINAL_MAX, byte in 0..=ORDINAL_MAX) {
            let offset = Offset::new(position, byte);
            prop_assert_eq!(offset.to_string().parse::<Offset>().unwrap(), offset);
        }

        #[test]
        fn tokens_sort_like_offsets(a in 0..=ORDINAL_MAX, b in 0..=ORDINAL_MAX) {
            let (a, b) = (Offset::new(a, a), Offset::new(b, b));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }

        #[test]
        fn whatever_parses_is_canonical(token in "[0-9_]{30,36}") {
            if let Ok(offset) = token.parse::<Offset>() {
                prop_assert_eq!(offset.to_string(), token);
            }
        }
    }

    #[test]
    fn sentinels_are_not_offsets() {
        assert_eq!("-1".parse(), Ok(ReadFrom::Start));
        assert_eq!("now".parse(), Ok(ReadFrom::Now));
        for bad in ["", "-2", "NOW", "1_2", "0000000000000000-0000000000000000", "a,b", "../x"] {
            assert!(bad.parse::<ReadFrom>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sub_offsets_are_plain_integers() {
        assert_eq!("0".parse::<SubOffset>().unwrap().get(), 0);
        for bad in ["", "-1", "+1", "05", "1.5", "abc", "9007199254740992", "99999999999999999999"]
        {
            assert!(bad.parse::<SubOffset>().is_err(), "{bad:?}");
        }
    }
}
