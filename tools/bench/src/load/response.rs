//! Reads HTTP/1.1 responses as their bytes arrive, keeping only what the rows ask for.

use anyhow::{Context, Result, bail, ensure};

const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// What the rows want to know of a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// `Stream-Next-Offset`; empty when absent.
    pub(crate) next_offset: String,
    /// `Stream-Up-To-Date: true`.
    pub(crate) up_to_date: bool,
    /// Length of the body, without its framing.
    pub(crate) body_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Partial,
    Complete,
}

/// Reads one response after another from the same connection.
#[derive(Debug, Default)]
pub(crate) struct ResponseReader {
    response: Response,
    state: State,
    /// The start of a head that did not arrive in one piece; usually empty.
    head: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Sized {
        remaining: u64,
    },
    ChunkSize {
        size: u64,
        in_extension: bool,
    },
    ChunkData {
        remaining: u64,
    },
    /// The line end after a chunk's data.
    ChunkEnd,
    /// The lines after the last chunk; an empty one ends the response.
    Trailer {
        line_is_empty: bool,
    },
    /// Neither sized nor chunked: the body lasts as long as the connection.
    UntilClosed,
    Complete,
}

impl ResponseReader {
    /// Forgets the last response; the next byte starts a new one.
    pub(crate) fn restart(&mut self) {
        self.state = State::Head;
        self.head.clear();
    }

    /// The response read so far; whole once `feed` said so.
    pub(crate) fn response(&self) -> &Response {
        &self.response
    }

    /// Takes the next bytes, handing those of the body to `on_body`.
    ///
    /// # Errors
    /// When the bytes are not HTTP/1.1, or go on after the end of the response.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut on_body: impl FnMut(&[u8]),
    ) -> Result<Progress> {
        while !bytes.is_empty() {
            let used = match self.state {
                State::Head => self.take_head(bytes)?,
                State::Sized { remaining } | State::ChunkData { remaining } => {
                    let used = remaining.min(bytes.len() as u64) as usize;
                    self.take_body(&bytes[..used], &mut on_body);
                    self.state = self.state.after_body(remaining - used as u64);
                    used
                }
                State::UntilClosed => {
                    self.take_body(bytes, &mut on_body);
                    bytes.len()
                }
                State::ChunkSize { .. } | State::ChunkEnd | State::Trailer { .. } => {
                    self.state = self.state.after_framing(bytes[0])?;
                    1
                }
                State::Complete => bail!("the server sent more than it was asked for"),
            };
            bytes = &bytes[used..];
        }
        Ok(match self.state {
            State::Complete => Progress::Complete,
            _ => Progress::Partial,
        })
    }

    fn take_body(&mut self, bytes: &[u8], on_body: &mut impl FnMut(&[u8])) {
        self.response.body_bytes += bytes.len() as u64;
        on_body(bytes);
    }

    /// Returns how many of the bytes belong to the head.
    fn take_head(&mut self, bytes: &[u8]) -> Result<usize> {
        // Almost every head arrives whole and is parsed where it lies.
        if self.head.is_empty()
            && let Some(end) = head_end(bytes)
        {
            self.state = parse_head(&bytes[..end], &mut self.response)?;
            return Ok(end);
        }
        let held_before = self.head.len();
        self.head.extend_from_slice(bytes);
        let Some(end) = head_end(&self.head) else {
            ensure!(self.head.len() <= HEAD_BYTES_MAX, "the response head does not end");
            return Ok(bytes.len());
        };
        self.state = parse_head(&self.head[..end], &mut self.response)?;
        self.head.clear();
        Ok(end - held_before)
    }
}

impl State {
    fn after_body(self, remaining: u64) -> Self {
        match (self, remaining) {
            (Self::Sized { .. }, 0) => Self::Complete,
            (Self::Sized { .. }, _) => Self::Sized { remaining },
            (_, 0) => Self::ChunkEnd,
            (_, _) => Self::ChunkData { remaining },
        }
    }

    fn after_framing(self, byte: u8) -> Result<Self> {
        Ok(match (self, byte) {
            (Self::ChunkSize { size: 0, .. }, b'\n') => Self::Trailer { line_is_empty: true },
            (Self::ChunkSize { size, .. }, b'\n') => Self::ChunkData { remaining: size },
            (Self::ChunkSize { size, .. }, b';' | b'\r') => {
                Self::ChunkSize { size, in_extension: true }
            }
            (Self::ChunkSize { in_extension: true, .. }, _) => self,
            (Self::ChunkSize { size, .. }, digit) => {
                let digit = char::from(digit).to_digit(16).context("bad chunk size")?;
                let size = size.checked_mul(16).context("chunk too large")? + u64::from(digit);
                Self::ChunkSize { size, in_extension: false }
            }
            (Self::ChunkEnd, b'\n') => Self::ChunkSize { size: 0, in_extension: false },
            (Self::ChunkEnd, b'\r') => self,
            (Self::Trailer { line_is_empty: true }, b'\n') => Self::Complete,
            (Self::Trailer { .. }, b'\n') => Self::Trailer { line_is_empty: true },
            (Self::Trailer { .. }, b'\r') => self,
            (Self::Trailer { .. }, _) => Self::Trailer { line_is_empty: false },
            _ => bail!("bad chunk framing"),
        })
    }
}

/// The length of the head including its empty line, if it ends within the bytes.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let start = bytes.windows(HEAD_END.len()).position(|window| window == HEAD_END)?;
    Some(start + HEAD_END.len())
}

/// Fills the response from its head and says how the body is framed.
fn parse_head(head: &[u8], response: &mut Response) -> Result<State> {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let status_line = lines.next().context("no status line")?;
    response.status = parse_status(status_line)?;
    response.next_offset.clear();
    response.up_to_date = false;
    response.body_bytes = 0;

    let mut framing = State::UntilClosed;
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            framing = State::Sized { remaining: parse_decimal(value)? };
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            framing = State::ChunkSize { size: 0, in_extension: false };
        } else if name.eq_ignore_ascii_case(b"stream-next-offset") {
            response.next_offset.push_str(std::str::from_utf8(value)?);
        } else if name.eq_ignore_ascii_case(b"stream-up-to-date") {
            response.up_to_date = value.eq_ignore_ascii_case(b"true");
        }
    }
    let has_no_body = matches!(response.status, 204 | 304);
    match framing {
        _ if has_no_body => Ok(State::Complete),
        State::Sized { remaining: 0 } => Ok(State::Complete),
        framing => Ok(framing),
    }
}

fn parse_status(line: &[u8]) -> Result<u16> {
    let text = std::str::from_utf8(line)?;
    let digits = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let digits = digits.with_context(|| format!("not an HTTP/1.1 status line: {text:?}"))?;
    Ok(digits.parse()?)
}

fn parse_decimal(value: &[u8]) -> Result<u64> {
    Ok(std::str::from_utf8(value)?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the text in pieces of every size: the result may not depend on how it arrives.
    fn check(text: &str, status: u16, body: &str, progress: Progress) -> Response {
        for piece_bytes in 1..=text.len() {
            let mut reader = ResponseReader::default();
            let mut seen = Vec::new();
            let mut last = Progress::Partial;
            for piece in text.as_bytes().chunks(piece_bytes) {
                last = reader.feed(piece, |bytes| seen.extend_from_slice(bytes)).unwrap();
            }
            assert_eq!(last, progress, "pieces of {piece_bytes}");
            assert_eq!(reader.response().status, status);
            assert_eq!(String::from_utf8_lossy(&seen), body);
            assert_eq!(reader.response().body_bytes, body.len() as u64);
        }
        let mut reader = ResponseReader::default();
        reader.feed(text.as_bytes(), |_| ()).unwrap();
        reader.response().clone()
    }

    #[test]
    fn a_sized_body_ends_with_its_last_byte() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nstream-up-to-date: true\r\n\
                    Stream-Next-Offset: 7_9\r\n\r\nhello";
        let response = check(text, 200, "hello", Progress::Complete);
        assert!(response.up_to_date);
        assert_eq!(response.next_offset, "7_9");
    }

    #[test]
    fn a_response_without_content_ends_with_its_head() {
        check("HTTP/1.1 204 No Content\r\nx: y\r\n\r\n", 204, "", Progress::Complete);
        check("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n", 201, "", Progress::Complete);
    }

    #[test]
    fn chunks_are_joined() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let whole = format!("{head}3\r\nabc\r\nA;note=1\r\n0123456789\r\n0\r\n\r\n");
        check(&whole, 200, "abc0123456789", Progress::Complete);
        let with_trailer = format!("{head}1\r\nx\r\n0\r\nDigest: z\r\n\r\n");
        check(&with_trailer, 200, "x", Progress::Complete);
        let open = format!("{head}3\r\nabc\r\n");
        check(&open, 200, "abc", Progress::Partial);
    }

    #[test]
    fn an_unframed_body_lasts_until_the_connection_closes() {
        check("HTTP/1.1 200 OK\r\n\r\nabc", 200, "abc", Progress::Partial);
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |text: &str| {
            assert!(ResponseReader::default().feed(text.as_bytes(), |_| ()).is_err(), "{text}");
        };
        refused("SSH-2.0-x\r\n\r\n");
        refused("HTTP/1.1 204 No Content\r\n\r\nmore");
        refused("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n");
    }
}
