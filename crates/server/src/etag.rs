//! Entity tags: which life of the stream, from where to where, and whether it ended there.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderValue, header};
use log::{Chunk, Freshness, Incarnation};
use wire::Offset;

/// Room for the incarnation, two offsets and what surrounds them.
const TAG_BYTES_USUAL: usize = 96;
/// What the tag of the end of a closed stream ends with.
const CLOSED_SUFFIX: &str = ":c";
/// What the tag of a compressed answer ends with, before the closing quote.
const GZIP_SUFFIX: &str = ":gz";

/// The tag of a chunk; the bytes it stands for never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    incarnation: Incarnation,
    start: Offset,
    end: Offset,
    closed: bool,
}

impl Tag {
    pub(crate) fn of(chunk: &Chunk) -> Self {
        Self {
            incarnation: chunk.incarnation,
            start: chunk.start,
            end: chunk.next,
            closed: chunk.freshness == Freshness::Closed,
        }
    }

    pub(crate) fn plain(&self) -> HeaderValue {
        self.quoted("")
    }

    pub(crate) fn compressed(&self) -> HeaderValue {
        self.quoted(GZIP_SUFFIX)
    }

    fn quoted(&self, suffix: &str) -> HeaderValue {
        let mut quoted = String::with_capacity(TAG_BYTES_USUAL);
        quoted.push('"');
        self.write(&mut quoted);
        quoted.push_str(suffix);
        quoted.push('"');
        HeaderValue::try_from(quoted).expect("digits and punctuation")
    }

    /// What stands between the quotes.
    fn write(&self, tag: &mut String) {
        write!(tag, "{}", self.incarnation.get()).expect("writing to a string cannot fail");
        for offset in [self.start, self.end] {
            tag.push(':');
            tag.push_str(str::from_utf8(&offset.token()).expect("digits and an underscore"));
        }
        if self.closed {
            tag.push_str(CLOSED_SUFFIX);
        }
    }

    /// True if `If-None-Match` says that the client has these bytes, in either encoding.
    pub(crate) fn is_known_to(&self, headers: &HeaderMap) -> bool {
        let mut lists = headers.get_all(header::IF_NONE_MATCH).iter().peekable();
        if lists.peek().is_none() {
            return false;
        }
        let mut own = String::with_capacity(TAG_BYTES_USUAL);
        self.write(&mut own);
        lists.filter_map(|list| list.to_str().ok()).flat_map(tags).any(|tag| match tag {
            Listed::Any => true,
            Listed::Opaque(opaque) => opaque.strip_suffix(GZIP_SUFFIX).unwrap_or(opaque) == own,
        })
    }
}

/// Reads `If-None-Match` to its end.
#[cfg(fuzzing)]
pub(crate) fn read_list(headers: &HeaderMap) {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter();
    let _ = lists.filter_map(|list| list.to_str().ok()).flat_map(tags).count();
}

/// One member of an `If-None-Match` list.
#[derive(Debug, PartialEq, Eq)]
enum Listed<'a> {
    /// `*`
    Any,
    /// What stands between the quotes; weak or strong makes no difference to a GET.
    Opaque(&'a str),
}

/// The members of a list, up to the first that is malformed. A comma within quotes is part of a
/// tag.
fn tags(list: &str) -> impl Iterator<Item = Listed<'_>> {
    let mut rest = list;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(after) = rest.strip_prefix('*') {
            rest = after;
            return Some(Listed::Any);
        }
        let quoted = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (opaque, after) = quoted.split_once('"')?;
        rest = after;
        Some(Listed::Opaque(opaque))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, expected: &[Listed<'_>]) {
        assert_eq!(tags(list).collect::<Vec<_>>(), expected, "{list}");
    }

    #[test]
    fn lists_are_read_as_the_rfc_says() {
        use Listed::{Any, Opaque};
        check("", &[]);
        check("*", &[Any]);
        check("\"a\"", &[Opaque("a")]);
        check("W/\"a\"", &[Opaque("a")]);
        check("\"a\", W/\"b,c\" ,, \"\"", &[Opaque("a"), Opaque("b,c"), Opaque("")]);
        check("\"a\", b", &[Opaque("a")]);
        check("\"unfinished", &[]);
    }
}
