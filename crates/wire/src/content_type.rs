//! Content types: what a stream's messages are, as far as the protocol cares.

use std::{fmt, str::FromStr, sync::Arc};

use crate::caps::CONTENT_TYPE_BYTES_MAX;

/// A stream's media type, as its creator wrote it; equality ignores case and parameters' spacing.
#[derive(Clone)]
pub struct ContentType(Arc<str>);

/// Text that is no media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Content-Type must be a media type of at most {CONTENT_TYPE_BYTES_MAX} bytes")]
pub struct BadContentType;

impl ContentType {
    /// What a stream created without a content type holds.
    #[must_use]
    pub fn octet_stream() -> Self {
        Self("application/octet-stream".into())
    }

    /// JSON mode: a message is one JSON value.
    #[must_use]
    pub fn json() -> Self {
        Self("application/json".into())
    }

    /// As its creator wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for JSON mode.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.essence().eq_ignore_ascii_case("application/json")
    }

    /// True if SSE can carry the bytes as text.
    #[must_use]
    pub fn is_text(&self) -> bool {
        let essence = self.essence();
        self.is_json() || essence.get(..5).is_some_and(|kind| kind.eq_ignore_ascii_case("text/"))
    }

    /// Type and subtype, without parameters.
    fn essence(&self) -> &str {
        self.0.split(';').next().unwrap_or_default().trim_end()
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split(';').map(str::trim)
    }
}

impl PartialEq for ContentType {
    fn eq(&self, other: &Self) -> bool {
        // A JSON stream is a JSON stream whatever charset a client library adds.
        (self.is_json() && other.is_json())
            || (self.parts().count() == other.parts().count()
                && self.parts().zip(other.parts()).all(|(a, b)| a.eq_ignore_ascii_case(b)))
    }
}

impl Eq for ContentType {}

impl FromStr for ContentType {
    type Err = BadContentType;

    fn from_str(text: &str) -> Result<Self, BadContentType> {
        let text = text.trim();
        let printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
        let essence = text.split(';').next().unwrap_or_default().trim_end();
        let named =
            essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub));
        if printable && named && text.len() <= CONTENT_TYPE_BYTES_MAX {
            Ok(Self(text.into()))
        } else {
            Err(BadContentType)
        }
    }
}

impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ContentType {
        text.parse().unwrap()
    }

    #[test]
    fn case_and_spacing_do_not_matter() {
        assert_eq!(parse("TEXT/plain; charset=utf-8"), parse("text/plain;charset=UTF-8"));
        assert_ne!(parse("text/plain; charset=utf-8"), parse("text/plain"));
        assert_eq!(parse("application/json; charset=utf-8"), parse("Application/JSON"));
    }

    #[test]
    fn json_and_text_are_told_apart() {
        assert!(parse("application/json;charset=utf-8").is_json());
        assert!(!parse("application/ndjson").is_json());
        assert!(parse("Text/HTML").is_text());
        assert!(!parse("image/png").is_text());
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in ["", "json", "a/", "/b", "a/b\r\nX: y", "a b/c", &"a/b".repeat(100)] {
            assert!(bad.parse::<ContentType>().is_err(), "{bad:?}");
        }
    }
}
