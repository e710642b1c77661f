//! Globs over stream paths: `*` is one segment or part of one, `**` any number of segments.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    StreamPath,
    caps::{GLOB_BYTES_MAX, SEGMENTS_MAX},
};

/// A pattern over the segments of a stream path.
///
/// ```
/// let glob: wire::Glob = "chats/*/events".parse().unwrap();
/// assert!(glob.matches(&"chats/42/events".parse().unwrap()));
/// assert!(!glob.matches(&"chats/42/7/events".parse().unwrap()));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Glob(Arc<str>);

/// Text that is no glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a glob is 1 to {SEGMENTS_MAX} segments; ** stands alone, {GLOB_BYTES_MAX} bytes at most")]
pub struct BadGlob;

impl Glob {
    /// The glob that matches every stream.
    #[must_use]
    pub fn everything() -> Self {
        Self("**".into())
    }

    /// The pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if the path matches.
    #[must_use]
    pub fn matches(&self, path: &StreamPath) -> bool {
        let mut reached = vec![false; SEGMENTS_MAX + 1];
        reached[0] = true;
        let segments: Vec<&str> = path.segments().collect();
        // reached[n]: the pattern so far matches the first n segments. One row per pattern
        // segment keeps the work at pattern × path, whatever the stars.
        for pattern in self.0.split('/') {
            reached = match pattern {
                "**" => any_number_more(&reached),
                one => one_more(&reached, &segments, one),
            };
        }
        reached[segments.len()]
    }
}

fn any_number_more(reached: &[bool]) -> Vec<bool> {
    let mut seen = false;
    reached
        .iter()
        .map(|&here| {
            seen |= here;
            seen
        })
        .collect()
}

fn one_more(reached: &[bool], segments: &[&str], pattern: &str) -> Vec<bool> {
    let mut next = vec![false; reached.len()];
    for (index, segment) in segments.iter().enumerate() {
        next[index + 1] = reached[index] && segment_matches(pattern, segment);
    }
    next
}

/// True if one segment of a pattern, in which a star stands for any text, matches one of a path.
#[must_use]
pub fn segment_matches(pattern: &str, segment: &str) -> bool {
    // Each piece between stars is taken at its leftmost place.
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == segment };
    let Some(mut left) = segment.strip_prefix(first) else { return false };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        match left.find(piece) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    true
}

impl FromStr for Glob {
    type Err = BadGlob;

    fn from_str(text: &str) -> Result<Self, BadGlob> {
        let plain = text.len() <= GLOB_BYTES_MAX
            && text.split('/').count() <= SEGMENTS_MAX
            && !text.chars().any(|c| c.is_control() || c == '\\');
        let segments_fit = text.split('/').all(|segment| match segment {
            "" | "." | ".." => false,
            "**" => true,
            other => !other.contains("**"),
        });
        if plain && segments_fit { Ok(Self(text.into())) } else { Err(BadGlob) }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(glob: &str, path: &str, expected: bool) {
        let matches = glob.parse::<Glob>().unwrap().matches(&path.parse().unwrap());
        assert_eq!(matches, expected, "{glob} on {path}");
    }

    #[test]
    fn stars_stay_in_their_segment() {
        check("a", "a", true);
        check("a", "b", false);
        check("*", "a", true);
        check("*", "a/b", false);
        check("a/*", "a/b", true);
        check("a/*", "a", false);
        check("a/s-*-e", "a/s-1-e", true);
        check("a/s-*-e", "a/s-e", false);
        check("*x*y*", "axbyc", true);
        check("*x*y*", "aybxc", false);
        check("ab*ba", "aba", false);
    }

    #[test]
    fn double_stars_cross_segments() {
        check("**", "a/b/c", true);
        check("a/**", "a", true);
        check("a/**", "a/b/c", true);
        check("a/**", "b/a", false);
        check("**/c", "c", true);
        check("**/c", "a/b/c", true);
        check("a/**/c/**/e", "a/c/d/c/e", true);
        check("a/**/c", "a/b/d", false);
    }

    #[test]
    fn broken_patterns_are_refused() {
        for bad in ["", "/a", "a/", "a//b", "a/..", "a**", "***", "a\0"] {
            assert!(bad.parse::<Glob>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let glob: Glob = vec!["**"; 32].join("/").parse().unwrap();
        assert!(glob.matches(&vec!["a"; 32].join("/").parse().unwrap()));
    }
}
