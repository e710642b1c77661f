//! Patterns: `%` stands for any text, `_` for one character, all else for itself.

use crate::Semantics;

/// Whether the whole text fits the pattern.
pub(super) fn fits(text: &str, pattern: &str, semantics: Semantics) -> bool {
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

/// Linear in practice, and never worse than the product of both lengths.
fn fits_units<T: PartialEq>(text: &[T], pattern: &[T], any: &T, one: &T) -> bool {
    let (mut t, mut p) = (0, 0);
    // Where the last `%` stands, and where the text it stands for ends so far.
    let mut last_any: Option<(usize, usize)> = None;
    while t < text.len() {
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
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|unit| unit == any)
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
            assert_eq!(fits(text, pattern, Semantics::Sql), expected, "{text} like {pattern}");
        }
    }
}
