//! Heads: from the bytes before a body to a request, or to the reason why they are none.
//!
//! What could mean one thing to a proxy and another to us is refused, never guessed: two lengths,
//! a length and chunks, codings we do not speak, line ends that are not CRLF.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, request::Parts,
    uri::Authority,
};
use httparse::Status;

use crate::problem::{Kind, Problem};

/// Header lines of one request.
const HEADERS_MAX: usize = 100;
/// Headers of a usual request; more would only reallocate.
const HEADERS_USUAL: usize = 8;

/// The first line of an HTTP/2 connection, which looks like a head of HTTP/1.
pub(super) const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// A request without its body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) parts: Parts,
    pub(crate) framing: Framing,
    pub(crate) version: Version,
    /// Whether the client may ask again on this connection.
    pub(crate) is_persistent: bool,
    /// Whether the client waits for a word before it sends the body.
    pub(crate) expects_continue: bool,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
}

/// What the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    Http11,
}

/// Where the head ends that `bytes` begin with; none if it is not complete. The first `searched`
/// bytes were looked at before.
pub(crate) fn end(bytes: &[u8], searched: usize) -> Result<Option<usize>, Problem> {
    for line_feed in memchr::memchr_iter(b'\n', &bytes[searched..]).map(|at| searched + at) {
        let before = &bytes[..line_feed];
        if before.last() != Some(&b'\r') {
            return Err(Problem::bad_request("lines of a request must end with CR LF"));
        }
        if before.ends_with(b"\r\n\r") {
            return Ok(Some(line_feed + 1));
        }
    }
    Ok(None)
}

/// Reads a complete head.
pub(crate) fn parse(bytes: &Bytes) -> Result<Head, Problem> {
    let mut room = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut lines = httparse::Request::new(&mut []);
    match lines.parse_with_uninit_headers(bytes, &mut room) {
        Ok(Status::Complete(len)) if len == bytes.len() => {}
        Ok(_) => return Err(Problem::bad_request("the head of the request has two ends")),
        Err(httparse::Error::TooManyHeaders) => {
            let detail = format!("a request may have {HEADERS_MAX} headers; send fewer");
            return Err(Problem::new(Kind::HeadersTooLarge, detail));
        }
        Err(error) => return Err(malformed(&error)),
    }
    let version = if lines.version == Some(0) { Version::Http10 } else { Version::Http11 };
    let headers = headers(bytes, lines.headers)?;
    check_host(&headers, version)?;
    Ok(Head {
        framing: framing(&headers, version)?,
        version,
        is_persistent: version == Version::Http11 && !asks_to_close(&headers),
        expects_continue: version == Version::Http11 && expects_continue(&headers)?,
        parts: parts(bytes, lines.method, lines.path, headers)?,
    })
}

impl Head {
    /// Whether it asks for what is not there yet.
    pub(crate) fn waits(&self) -> bool {
        self.parts.uri.query().is_some_and(|query| query.contains("live="))
    }
}

fn parts(
    bytes: &Bytes,
    method: Option<&str>,
    target: Option<&str>,
    headers: HeaderMap,
) -> Result<Parts, Problem> {
    let method = method.unwrap_or_default().as_bytes();
    let target = bytes.slice_ref(target.unwrap_or_default().as_bytes());
    // What comes after a # is not for servers, and readers differ in where it begins.
    if !target.is_ascii() || target.contains(&b'#') {
        return Err(Problem::bad_request("the target of the request must be ASCII without #"));
    }
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::from_bytes(method).map_err(|error| malformed(&error))?;
    parts.uri = Uri::from_maybe_shared(target).map_err(|error| malformed(&error))?;
    parts.headers = headers;
    Ok(parts)
}

fn headers(bytes: &Bytes, lines: &[httparse::Header<'_>]) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::with_capacity(lines.len().max(HEADERS_USUAL));
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        let name = name.map_err(|error| malformed(&error))?;
        let value = match line.value {
            [] => HeaderValue::from_static(""),
            text => HeaderValue::from_maybe_shared(bytes.slice_ref(text))
                .map_err(|error| malformed(&error))?,
        };
        headers.append(name, value);
    }
    Ok(headers)
}

fn malformed(error: &dyn std::error::Error) -> Problem {
    Problem::bad_request(format!("the request is not well-formed HTTP/1.1: {error}"))
}

fn check_host(headers: &HeaderMap, version: Version) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next(), version) {
        (Some(host), None, _) if is_host(host) => Ok(()),
        (Some(_), None, _) => Err(Problem::bad_request("the Host header is no host")),
        (None, _, Version::Http10) => Ok(()),
        (None, _, Version::Http11) => Err(Problem::bad_request("send a Host header")),
        (Some(_), Some(_), _) => {
            Err(Problem::bad_request("the header host is sent twice; send it once"))
        }
    }
}

fn is_host(value: &HeaderValue) -> bool {
    let authority = Authority::try_from(value.as_bytes());
    authority.is_ok_and(|authority| !authority.as_str().contains('@'))
}

fn framing(headers: &HeaderMap, version: Version) -> Result<Framing, Problem> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let coding = codings.next();
    let length = lengths.next();
    if coding.is_some() && length.is_some() {
        let detail = "Content-Length and Transfer-Encoding exclude each other; send one";
        return Err(Problem::bad_request(detail));
    }
    if codings.next().is_some() || lengths.next().is_some() {
        return Err(Problem::bad_request("the length of the body is given twice; give it once"));
    }
    match (coding, length) {
        (None, None) => Ok(Framing::Length(0)),
        (None, Some(length)) => body_length(length).map(Framing::Length),
        (Some(coding), _) if version == Version::Http11 && is_chunked(coding) => {
            Ok(Framing::Chunked)
        }
        (Some(_), _) => {
            let detail = "the only Transfer-Encoding here is chunked, and only in HTTP/1.1";
            Err(Problem::new(Kind::Unsupported, detail))
        }
    }
}

/// Digits and nothing else: a sign or a space is where parsers begin to differ.
fn body_length(value: &HeaderValue) -> Result<u64, Problem> {
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = text.and_then(|text| text.parse().ok());
    length.ok_or_else(|| Problem::bad_request("Content-Length must be a whole number of bytes"))
}

fn is_chunked(value: &HeaderValue) -> bool {
    value.as_bytes().eq_ignore_ascii_case(b"chunked")
}

fn asks_to_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("close"))
}

fn expects_continue(headers: &HeaderMap) -> Result<bool, Problem> {
    let mut expectations = headers.get_all(header::EXPECT).iter();
    match (expectations.next(), expectations.next()) {
        (None, _) => Ok(false),
        (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(b"100-continue") => Ok(true),
        (Some(_), _) => Err(Problem::bad_request("the only Expect here is 100-continue")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str) -> Result<Head, Problem> {
        parse(&Bytes::copy_from_slice(head.as_bytes()))
    }

    #[test]
    fn an_end_is_found_wherever_the_search_goes_on() {
        let bytes = b"GET / HTTP/1.1\r\nhost: x\r\n\r\nrest";
        for searched in 0..27 {
            assert_eq!(end(bytes, searched).unwrap(), Some(27), "{searched}");
        }
        for len in 0..27 {
            assert_eq!(end(&bytes[..len], 0).unwrap(), None, "{len}");
        }
        assert!(end(b"GET / HTTP/1.1\nhost: x\n\n", 0).is_err());
        assert!(end(b"GET / HTTP/1.1\r\nhost: x\n\r\n", 0).is_err());
    }

    #[test]
    fn a_head_is_what_it_says() {
        let head = read(
            "POST /v1/stream/a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\
             Expect: 100-Continue\r\nX-Empty:\r\nX-Y: \tspaced \t\r\n\r\n",
        );
        let head = head.unwrap();
        assert_eq!((head.parts.method, head.parts.uri.path()), (Method::POST, "/v1/stream/a"));
        assert_eq!(head.parts.uri.query(), Some("b=c"));
        assert_eq!(head.parts.headers["x-empty"], "");
        assert_eq!(head.parts.headers["x-y"], "spaced");
        assert_eq!((head.framing, head.version), (Framing::Length(12), Version::Http11));
        assert!(head.is_persistent && head.expects_continue);
    }

    #[test]
    fn a_connection_lasts_unless_somebody_says_otherwise() {
        let lasts = |head| read(head).unwrap().is_persistent;
        assert!(lasts("GET / HTTP/1.1\r\nhost: x\r\nconnection: keep-alive\r\n\r\n"));
        assert!(!lasts("GET / HTTP/1.1\r\nhost: x\r\nconnection: x, Close\r\n\r\n"));
        assert!(!lasts("GET / HTTP/1.0\r\n\r\n"));
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        let post = "POST / HTTP/1.1\r\nhost: x\r\n";
        for lines in [
            "content-length: 1\r\ncontent-length: 1\r\n",
            "content-length: 1, 1\r\n",
            "content-length: +1\r\n",
            "content-length: -1\r\n",
            "content-length: 0x1\r\n",
            "content-length:\r\n",
            "content-length: 99999999999999999999\r\n",
            "content-length: 1\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: chunked, identity\r\n",
            "transfer-encoding: \u{b}chunked\r\n",
            "transfer-encoding : chunked\r\n",
            "host: y\r\n",
            "expect: 100-continue\r\nexpect: 100-continue\r\n",
            "x: y\r\n folded\r\n",
            "expect: 200-ok\r\n",
            "x: a\rb\r\n",
            "x: a\0b\r\n",
            "no colon\r\n",
        ] {
            assert!(read(&format!("{post}{lines}\r\n")).is_err(), "{lines:?}");
        }
        for head in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/2.0\r\nhost: x\r\n\r\n",
            "GET  / HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET /a b HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET /a#b HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET /\u{e4} HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: u@a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost:\r\n\r\n",
            "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
        ] {
            assert!(read(head).is_err(), "{head:?}");
        }
        let many = "x: y\r\n".repeat(HEADERS_MAX);
        let refused = read(&format!("{post}{many}\r\n")).unwrap_err();
        assert_eq!(refused.kind(), Kind::HeadersTooLarge);
    }
}
