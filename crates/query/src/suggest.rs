//! What somebody may have meant by a name that means nothing.

use crate::caps::{NAME_LEN_SUGGESTED_MAX, QUOTE_LEN_MAX};

/// ` (did you mean "title"?)`, or nothing if no known name is near.
pub(crate) fn did_you_mean<N: AsRef<str>>(name: &str, known: &[N]) -> String {
    match nearest(name, known) {
        Some(nearest) => format!(" (did you mean {nearest:?}?)"),
        None => String::new(),
    }
}

/// A text, cut off where nobody would read on.
pub(crate) fn short(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(QUOTE_LEN_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The known name with the fewest differences, if there are few.
fn nearest<'a, N: AsRef<str>>(name: &str, known: &'a [N]) -> Option<&'a str> {
    let letters = |name: &str| -> Vec<char> { name.to_lowercase().chars().collect() };
    let own = letters(name);
    if own.len() > NAME_LEN_SUGGESTED_MAX {
        return None;
    }
    let most = 1 + own.len() / 4;
    let near = known.iter().map(AsRef::as_ref).filter_map(|known: &str| {
        let other = letters(known);
        let is_far = other.len().abs_diff(own.len()) > most;
        let count = if is_far { usize::MAX } else { differences(&own, &other) };
        (count <= most && count < other.len()).then_some((count, known))
    });
    near.min_by_key(|(count, _)| *count).map(|(_, known)| known)
}

/// How many letters must be put in, taken out, changed or swapped with the next.
fn differences(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for (i, own) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let changed = rows[i][j] + usize::from(own != other);
            let mut least = changed.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *own == b[j - 1] && a[i - 1] == *other {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_near() {
        let known = ["title", "rank", "createdAt", "id", "x"];
        for (name, meant) in [
            ("titel", Some("title")),
            ("rnak", Some("rank")),
            ("createdat", Some("createdAt")),
            ("created_at", Some("createdAt")),
            ("ID", Some("id")),
            ("ranks", Some("rank")),
            ("y", None),
            ("author", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &known), meant, "{name}");
        }
        assert_eq!(nearest(&"a".repeat(1_000), &["a".repeat(999)]), None);
        assert_eq!(short("é".repeat(1_000)).chars().count(), QUOTE_LEN_MAX + 1);
    }
}
