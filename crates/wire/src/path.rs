//! Stream paths: what a user may name, what only we may name, and the address that is either.

use std::{fmt, str::FromStr, sync::Arc};

use crate::caps::{PATH_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENTS_MAX};

/// The first segment that the protocol keeps for its own APIs.
pub(crate) const RESERVED_SEGMENT: &str = "__ds";

/// The name of a stream: one or more segments between slashes, decoded, in canonical form.
///
/// ```
/// use wire::StreamPath;
///
/// assert!("chats/42/events".parse::<StreamPath>().is_ok());
/// assert!("chats/../secrets".parse::<StreamPath>().is_err());
/// let spaced = StreamPath::from_url("chats/a%20b").unwrap();
/// assert_eq!(spaced.as_str(), "chats/a b");
/// assert_eq!(spaced.to_url(), "chats/a%20b");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamPath(Arc<str>);

/// The name of a stream of our own: no stream API can address it, no glob or list shows it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemPath(Arc<str>);

/// What an engine stores a stream under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A user's stream.
    Stream(StreamPath),
    /// One of our own.
    System(SystemPath),
}

/// A path that names no stream, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPath {
    /// Nothing there.
    #[error("the stream path is empty; name the stream after /v1/stream/")]
    Empty,
    /// Too many bytes.
    #[error("the stream path is longer than {PATH_BYTES_MAX} bytes")]
    TooLong,
    /// Too many segments.
    #[error("the stream path has more than {SEGMENTS_MAX} segments")]
    TooDeep,
    /// A segment with too many bytes.
    #[error("a segment of the stream path is longer than {SEGMENT_BYTES_MAX} bytes")]
    SegmentTooLong,
    /// `a//b`, or a slash at either end.
    #[error("the stream path has an empty segment; remove the extra slash")]
    EmptySegment,
    /// `.` or `..`.
    #[error("the stream path has a . or .. segment; name the stream itself")]
    DotSegment,
    /// A control character or a backslash.
    #[error("the stream path has a control character or a backslash")]
    ForbiddenCharacter,
    /// A percent sign without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("the stream path has a percent escape that is not valid UTF-8 text")]
    BadEscape,
    /// `%2F`: two readers would disagree on where the segments end.
    #[error("the stream path escapes a slash; streams are named by plain segments")]
    EscapedSlash,
    /// The segment that belongs to the protocol.
    #[error("stream paths that begin with {RESERVED_SEGMENT} belong to the protocol")]
    Reserved,
}

impl StreamPath {
    /// Decodes the part of a URL path after the stream root, percent escapes and all.
    ///
    /// # Errors
    /// [`BadPath`] says which rule it breaks.
    pub fn from_url(raw: &str) -> Result<Self, BadPath> {
        if raw.len() > 3 * PATH_BYTES_MAX {
            return Err(BadPath::TooLong);
        }
        if raw.contains('%') { percent_decode(raw)?.parse() } else { raw.parse() }
    }

    /// The inverse of [`StreamPath::from_url`].
    #[must_use]
    pub fn to_url(&self) -> String {
        escape(&self.0, b"-._~/!$&'()*+,;=:@")
    }

    /// Where paths that begin with `prefix` begin in an ordered map; not a name to create.
    #[must_use]
    pub fn lower_bound(prefix: &str) -> Self {
        Self(prefix.into())
    }

    /// The decoded path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The segments, first to last.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

impl FromStr for StreamPath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        check(text)?;
        match text.split('/').next() {
            Some(RESERVED_SEGMENT) => Err(BadPath::Reserved),
            _ => Ok(Self(text.into())),
        }
    }
}

impl SystemPath {
    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SystemPath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        check(text).map(|()| Self(text.into()))
    }
}

impl Address {
    /// The user's path, if it is one.
    #[must_use]
    pub fn stream(&self) -> Option<&StreamPath> {
        match self {
            Self::Stream(path) => Some(path),
            Self::System(_) => None,
        }
    }
}

impl From<StreamPath> for Address {
    fn from(path: StreamPath) -> Self {
        Self::Stream(path)
    }
}

impl From<SystemPath> for Address {
    fn from(path: SystemPath) -> Self {
        Self::System(path)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(path) => path.fmt(f),
            Self::System(path) => write!(f, "(system) {path}"),
        }
    }
}

macro_rules! shown_as_text {
    ($($path:ty),*) => {$(
        impl fmt::Display for $path {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $path {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}

shown_as_text!(StreamPath, SystemPath);

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn check(text: &str) -> Result<(), BadPath> {
    match text.len() {
        0 => return Err(BadPath::Empty),
        n if n > PATH_BYTES_MAX => return Err(BadPath::TooLong),
        _ => {}
    }
    if text.chars().any(|c| c.is_control() || c == '\\') {
        return Err(BadPath::ForbiddenCharacter);
    }
    if text.split('/').count() > SEGMENTS_MAX {
        return Err(BadPath::TooDeep);
    }
    text.split('/').try_for_each(check_segment)
}

fn check_segment(segment: &str) -> Result<(), BadPath> {
    match segment {
        "" => Err(BadPath::EmptySegment),
        "." | ".." => Err(BadPath::DotSegment),
        long if long.len() > SEGMENT_BYTES_MAX => Err(BadPath::SegmentTooLong),
        _ => Ok(()),
    }
}

/// Decodes exactly once: what still looks like an escape afterwards is plain text.
/// Text as one segment of a URL's path, or as one part of its query.
///
/// ```
/// assert_eq!(wire::escaped("a/b c"), "a%2Fb%20c");
/// ```
#[must_use]
pub fn escaped(text: &str) -> String {
    escape(text, b"-._~")
}

/// Escapes all but letters, digits and what is `plain`.
fn escape(text: &str, plain: &[u8]) -> String {
    let mut url = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push('%');
            url.push(char::from(HEX[usize::from(byte >> 4)]));
            url.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    url
}

fn percent_decode(raw: &str) -> Result<String, BadPath> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let high = bytes.next().and_then(hex_digit).ok_or(BadPath::BadEscape)?;
        let low = bytes.next().and_then(hex_digit).ok_or(BadPath::BadEscape)?;
        match high << 4 | low {
            b'/' => return Err(BadPath::EscapedSlash),
            byte => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).map_err(|_| BadPath::BadEscape)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: Result<&str, BadPath>) {
        let parsed = StreamPath::from_url(raw);
        assert_eq!(parsed.as_ref().map(StreamPath::as_str).map_err(|e| *e), expected, "{raw:?}");
    }

    #[test]
    fn urls_name_streams() {
        check("a", Ok("a"));
        check("a/b.c/~d", Ok("a/b.c/~d"));
        check("a%20b", Ok("a b"));
        check("%E2%9C%93", Ok("✓"));
        check("%252e%252e", Ok("%2e%2e"));
        check("a__ds/x", Ok("a__ds/x"));
        check("", Err(BadPath::Empty));
        check("/a", Err(BadPath::EmptySegment));
        check("a/", Err(BadPath::EmptySegment));
        check("a//b", Err(BadPath::EmptySegment));
        check("..", Err(BadPath::DotSegment));
        check("a/%2e%2E/b", Err(BadPath::DotSegment));
        check("a%2Fb", Err(BadPath::EscapedSlash));
        check("a%00", Err(BadPath::ForbiddenCharacter));
        check("a%5Cb", Err(BadPath::ForbiddenCharacter));
        check("a%0a", Err(BadPath::ForbiddenCharacter));
        check("a%", Err(BadPath::BadEscape));
        check("a%4", Err(BadPath::BadEscape));
        check("a%zz", Err(BadPath::BadEscape));
        check("%ff", Err(BadPath::BadEscape));
        check("%c0%af", Err(BadPath::BadEscape));
        check("__ds/subscriptions", Err(BadPath::Reserved));
        check("%5F_ds", Err(BadPath::Reserved));
        check(&"a".repeat(256), Err(BadPath::SegmentTooLong));
        check(&"a/".repeat(600), Err(BadPath::TooLong));
        check(&vec!["a"; 33].join("/"), Err(BadPath::TooDeep));
    }

    proptest! {
        #[test]
        fn urls_round_trip(text in "[a-zA-Z0-9 %._~é✓-]{1,40}(/[a-zA-Z0-9 %é-]{1,20}){0,3}") {
            if let Ok(path) = text.parse::<StreamPath>() {
                prop_assert_eq!(StreamPath::from_url(&path.to_url()).unwrap(), path);
            }
        }
    }
}
