//! Bytes on disk: little-endian numbers, varints, and text with its length before it.

use bytes::{Buf as _, Bytes};

/// A varint of 64 bits takes at most this many bytes.
const VARINT_BYTES_MAX: usize = 10;

/// Writes at the end of a buffer.
pub(super) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.put_u8(value as u8);
    }

    fn put_text(&mut self, text: &str) {
        self.put_varint(text.len() as u64);
        self.put(text.as_bytes());
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Reads from the front of a buffer; none means that the bytes are not what they should be.
#[derive(Debug)]
pub(super) struct Take {
    bytes: Bytes,
}

impl Take {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for place in 0..VARINT_BYTES_MAX {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits.checked_shl(7 * place as u32)?;
            if shifted >> (7 * place) != bits {
                return None;
            }
            value |= shifted;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let count = usize::try_from(self.varint()?).ok()?;
        let text = self.bytes.get(..count)?.to_vec();
        self.bytes.advance(count);
        String::from_utf8(text).ok()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        // Split off, the bytes would be counted twice for nothing, and that for each byte.
        let array = *self.bytes.first_chunk()?;
        self.bytes.advance(N);
        Some(array)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_and_text_round_trip(a in any::<u64>(), b in any::<u32>(), c in ".*") {
            let mut buffer = Vec::new();
            buffer.put_varint(a);
            buffer.put_u32(b);
            buffer.put_text(&c);
            buffer.put_u64(a);
            let mut take = Take::new(buffer.into());
            prop_assert_eq!(take.varint(), Some(a));
            prop_assert_eq!(take.u32(), Some(b));
            prop_assert_eq!(take.text(), Some(c));
            prop_assert_eq!(take.u64(), Some(a));
            prop_assert!(take.is_empty());
        }

        #[test]
        fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            let mut take = Take::new(bytes.into());
            let _ = take.varint();
            let _ = take.text();
        }
    }
}
