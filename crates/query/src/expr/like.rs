//! Patterns: `%` stands for any text, `_` for one character, all else for itself.

use crate::{Semantics, caps::PATTERN_LOOKS_MAX};

/// Whether the whole text fits the pattern; nothing if that takes too long to say.
pub(super) fn fits(text: &str, pattern: &str, semantics: Semantics) -> Option<bool> {
    match semantics {
        Semantics::Sql => {
            let (text, pattern): (Vec<_>, Vec<_>) =
                (text.chars().collect(), pattern.chars().collect());
            fits_units(&text, &pattern, &'%', &'_')
        }
        // There, an emoji is two characters.
        Semantics::Tanstack => {
            let (text, pattern): (Vec<_>, Vec<_>) =
                (text.encode_utf16().collect(), pattern.encode_utf16().collect());
            fits_units(&text, &pattern, &u16::from(b'%'), &u16::from(b'_'))
        }
    }
}

/// Linear in practice. What would take the product of both lengths is given up.
fn fits_units<T: PartialEq>(text: &[T], pattern: &[T], any: &T, one: &T) -> Option<bool> {
    let mut looks = PATTERN_LOOKS_MAX.saturating_mul(text.len() + pattern.len());
    let (mut t, mut p) = (0, 0);
    // Where the last `%` stands, and where the text it stands for ends so far.
    let mut last_any: Option<(usize, usize)> = None;
    while t < text.len() {
        looks = looks.checked_sub(1)?;
        match pattern.get(p) {
            Some(unit) if unit == any => {
                last_any = Some((p, t));
                p += 1;
            }
            Some(unit) if unit == one || *unit == text[t] => {
                t += 1;
                p += 1;
            }
            _ => match last_any {
                Some((at, end)) => {
                    last_any = Some((at, end + 1));
                    t = end + 1;
                    p = at + 1;
                }
                None => return Some(false),
            },
        }
    }
    Some(pattern[p..].iter().all(|unit| unit == any))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("abc", "abc", true),
            ("abc", "ab", false),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("aXbXc", "a%b%c", true),
            ("mississippi", "m%iss%ppi", true),
            ("mississippi", "m%isz%ppi", false),
            ("é%", "_%", true),
            ("a\\b", "a\\b", true),
            (&"a".repeat(10_000), &"%a".repeat(50), true),
        ] {
            let fitted = fits(text, pattern, Semantics::Sql);
            assert_eq!(fitted, Some(expected), "{text} like {pattern}");
        }
    }

    #[test]
    fn a_pattern_that_looks_too_often_is_given_up() {
        for semantics in [Semantics::Sql, Semantics::Tanstack] {
            let text = "a".repeat(100_000);
            let pattern = |len| format!("%{}b", "a".repeat(len));
            assert_eq!(fits(&text, &pattern(50_000), semantics), None);
            assert_eq!(fits(&text, &pattern(PATTERN_LOOKS_MAX / 2), semantics), Some(false));
        }
    }
}
