//! Ids of calls and names of their tools, as a provider takes them.

use std::borrow::Cow;

use chat::caps::TOOL_NAME_LEN_MAX;

/// The id as it is if a provider takes it, else one that stands for it: always the same, so that a
/// call and its result still fit together.
pub(crate) fn call_id(id: &str, len_max: usize) -> Cow<'_, str> {
    match (1..=len_max).contains(&id.len()) && id.bytes().all(is_plain) {
        true => Cow::Borrowed(id),
        false => Cow::Owned(format!("call_{:032x}", fnv1a(id.as_bytes()))),
    }
}

/// The name as it is if a provider takes it, else one that is like it. A model, or another
/// provider, may have called a tool by any name.
pub(crate) fn call_name(name: &str) -> Cow<'_, str> {
    match (1..=TOOL_NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        true => Cow::Borrowed(name),
        false if name.is_empty() => Cow::Borrowed("unnamed"),
        false => {
            let plain = |letter: char| u8::try_from(letter).is_ok_and(is_plain);
            let letters = name.chars().map(|letter| if plain(letter) { letter } else { '_' });
            Cow::Owned(letters.take(TOOL_NAME_LEN_MAX).collect())
        }
    }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// FNV-1a with 128 bits: short, and the same for ever.
fn fnv1a(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_stays_and_another_is_made_plain() {
        assert_eq!(call_name("get_weather-2"), "get_weather-2");
        assert_eq!(call_name("functions.wetter ü"), "functions_wetter__");
        assert_eq!(call_name(""), "unnamed");
        assert_eq!(call_name(&"é".repeat(100)), "_".repeat(TOOL_NAME_LEN_MAX));
    }

    #[test]
    fn an_id_that_is_taken_stays_and_another_is_stood_for() {
        assert_eq!(call_id("call_a-1", 40), "call_a-1");
        for odd in ["", "run:1:2", "ü", &"x".repeat(41)] {
            let id = call_id(odd, 40);
            assert_eq!(id.len(), 37, "{id}");
            assert_eq!(id, call_id(odd, 40));
        }
        assert_ne!(call_id("a:1", 40), call_id("a:2", 40));
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
