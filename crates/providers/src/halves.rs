//! Letters whose two halves come in two events.
//!
//! A server that counts letters as JavaScript does may cut a text within one. Each half is an
//! escape that JSON allows and no text can hold, so the two are joined before JSON is read.

use std::borrow::Cow;

/// How long an escape such as `\ud83d` is.
const ESCAPE_LEN: usize = 6;
/// Stands for a half that has no other.
const LOST: &str = r"\ufffd";

/// Joins halves across the events of one answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Halves {
    /// The first half that ended a text. If the second never comes, it is left out.
    first: Option<u16>,
}

impl Halves {
    /// The same JSON, without halves.
    pub(crate) fn mend<'a>(&mut self, json: &'a str) -> Cow<'a, str> {
        let mut mended = String::new();
        let (mut copied, mut at) = (0, 0);
        while let Some(found) = json[at..].find('\\') {
            at += found;
            let Some(unit) = unit(json, at) else {
                // Whatever is escaped, it is no half; a letter that is no ASCII is no escape.
                at += if json.is_char_boundary(at + 2) { 2 } else { 1 };
                continue;
            };
            let end = at + ESCAPE_LEN;
            let half = match unit {
                0xd800..0xdc00 if unit_is_second(json, end) => {
                    at = end + ESCAPE_LEN;
                    continue;
                }
                0xd800..0xdc00 if json[end..].starts_with('"') => {
                    self.first = Some(unit);
                    Cow::Borrowed("")
                }
                0xdc00..0xe000 if json[..at].ends_with('"') => match self.first.take() {
                    Some(first) => Cow::Owned(format!(r"\u{first:04x}\u{unit:04x}")),
                    None => Cow::Borrowed(LOST),
                },
                0xd800..0xe000 => Cow::Borrowed(LOST),
                _ => {
                    at = end;
                    continue;
                }
            };
            mended.push_str(&json[copied..at]);
            mended.push_str(&half);
            (copied, at) = (end, end);
        }
        if copied == 0 {
            return Cow::Borrowed(json);
        }
        mended.push_str(&json[copied..]);
        Cow::Owned(mended)
    }
}

/// What the escape at this place stands for, if it is one of four digits.
fn unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE_LEN)?.strip_prefix("\\u")?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

fn unit_is_second(json: &str, at: usize) -> bool {
    unit(json, at).is_some_and(|unit| (0xdc00..0xe000).contains(&unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(events: &[&str], expect: &[&str]) {
        let mut halves = Halves::default();
        let mended: Vec<_> = events.iter().map(|json| halves.mend(json)).collect();
        assert_eq!(mended, expect);
    }

    #[test]
    fn halves_are_joined_across_events() {
        check(
            &[r#"["a\ud83d"]"#, r#"{}"#, r#"["\uDE00b"]"#],
            &[r#"["a"]"#, r#"{}"#, r#"["\ud83d\ude00b"]"#],
        );
    }

    #[test]
    fn whole_letters_and_escaped_backslashes_stay() {
        for json in [
            r#""\ud83d\ude00""#,
            r#""\\ud83d""#,
            r#""\\\\ud83d""#,
            r#""\u00fc\n""#,
            "\"\\ü\"",
            "\\",
        ] {
            check(&[json], &[json]);
        }
        check(&[r#""\\\ud83d""#], &[r#""\\""#]);
    }

    #[test]
    fn a_half_without_its_other_is_lost() {
        check(&[r#""\ude00""#], &[r#""\ufffd""#]);
        check(&[r#""\ud83dx""#, r#""\ude00""#], &[r#""\ufffdx""#, r#""\ufffd""#]);
        check(&[r#""x\ude00""#], &[r#""x\ufffd""#]);
    }

    #[test]
    fn bytes_of_any_kind_are_read_without_panic() {
        for json in ["", "\\u", "\\ud8", "\\ud83", "\\ud83d", "\\ud83ü", "\\\u{1f600}", "ü\\"] {
            let _ = Halves::default().mend(json);
        }
    }
}
