//! Patterns: `%` stands for any text, `_` for one character, all else for itself.

/// Whether the whole text fits the pattern. Linear in practice, and never worse than the product
/// of both lengths.
pub(super) fn fits(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.chars().collect(), pattern.chars().collect());
    let (mut t, mut p) = (0, 0);
    // Where the last `%` stands, and where the text it stands for ends so far.
    let mut last_any: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('%') => {
                last_any = Some((p, t));
                p += 1;
            }
            Some(&letter) if letter == '_' || letter == text[t] => {
                t += 1;
                p += 1;
            }
            _ => match last_any {
                Some((any, end)) => {
                    last_any = Some((any, end + 1));
                    t = end + 1;
                    p = any + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|letter| *letter == '%')
}

#[cfg(test)]
mod tests {
    use super::fits;

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
            assert_eq!(fits(text, pattern), expected, "{text} like {pattern}");
        }
    }
}
