//! Which session is meant.

use std::{fmt, str::FromStr};

use sys::Chance;
use wire::StreamPath;

use crate::caps::SESSION_ID_BYTES_MAX;

/// Whose sessions they are, unless somebody says otherwise.
pub const TENANT: &str = "main";

/// The name of a session: letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    text: String,
    path: StreamPath,
}

/// A text that names no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a session is named by 1 to {SESSION_ID_BYTES_MAX} letters, digits, - or _, and the first is a \
     letter or digit"
)]
pub struct BadSessionId;

impl SessionId {
    /// A name that is easy to read and to say, and that nobody has met before.
    #[must_use]
    pub fn draw(chance: &Chance) -> Self {
        let word = |words: &[&'static str]| words[chance.below(words.len() as u64) as usize];
        let (how, what) = (word(&HOW), word(&WHAT));
        let number = chance.below(NUMBERS);
        let text = format!("{how}-{what}-{number:06}");
        text.parse().expect("words and digits name a session")
    }

    /// Of all its messages, the stream.
    #[must_use]
    pub fn path(&self) -> &StreamPath {
        &self.path
    }

    /// The session of a stream, if it is one's.
    #[must_use]
    pub fn of(path: &StreamPath) -> Option<Self> {
        let id = path.as_str().strip_prefix(TENANT)?.strip_prefix("/sessions/")?;
        id.parse().ok()
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for SessionId {
    type Err = BadSessionId;

    fn from_str(text: &str) -> Result<Self, BadSessionId> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let starts_well = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        if !starts_well || text.len() > SESSION_ID_BYTES_MAX || !text.bytes().all(is_plain) {
            return Err(BadSessionId);
        }
        let path = format!("{TENANT}/sessions/{text}").parse().map_err(|_| BadSessionId)?;
        Ok(Self { text: text.to_owned(), path })
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// So many that two drawn names hardly ever meet.
const NUMBERS: u64 = 1_000_000;
const HOW: [&str; 16] = [
    "amber", "brave", "calm", "clear", "early", "fair", "gentle", "glad", "keen", "mild", "quick",
    "quiet", "silver", "still", "swift", "warm",
];
const WHAT: [&str; 16] = [
    "brook", "creek", "delta", "falls", "fjord", "harbor", "heron", "lagoon", "marsh", "otter",
    "pond", "rapids", "reed", "river", "spring", "willow",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "calm-otter-000042", "A_1", &"x".repeat(SESSION_ID_BYTES_MAX)] {
            let id: SessionId = good.parse().unwrap();
            assert_eq!(id.path().as_str(), format!("main/sessions/{good}"));
            assert_eq!(SessionId::of(id.path()), Some(id));
        }
        let long = "x".repeat(SESSION_ID_BYTES_MAX + 1);
        for bad in ["", "-a", "_", "a/b", "a b", "a.b", "..", "a%2f", "ä", "a\n", &long] {
            assert_eq!(bad.parse::<SessionId>(), Err(BadSessionId), "{bad:?}");
        }
    }

    #[test]
    fn drawn_names_are_names_and_differ() {
        let chance = Chance::seeded(1);
        let drawn: Vec<_> = (0..20).map(|_| SessionId::draw(&chance)).collect();
        let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
        assert_eq!(distinct.len(), drawn.len());
    }

    #[test]
    fn other_streams_are_no_sessions() {
        for path in ["main/sessions/a/b", "other/sessions/a", "main/x/a", "mainsessions/a"] {
            assert_eq!(SessionId::of(&path.parse().unwrap()), None, "{path}");
        }
    }
}
