//! Chunked bodies: what is framing, and what is data.

/// Bytes of one size line, extensions included.
const LINE_BYTES_MAX: usize = 256;
/// Bytes of all trailers, which nobody reads.
const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Digits of a size; more would not fit 64 bits.
const SIZE_DIGITS_MAX: usize = 15;

/// Where a chunked body stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunked {
    at: At,
    /// Bytes of the line, or of the trailers, so far.
    framing: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the digits of a size.
    Size(u64),
    /// After the digits, in what a sender may add to them.
    Extension(u64),
    /// Before the line feed that ends the size.
    SizeEnd(u64),
    /// This many bytes before the end of a chunk.
    Data(u64),
    /// Before the carriage return after a chunk's data.
    DataEnd,
    /// Before the line feed after a chunk's data.
    ChunkEnd,
    /// At the start of a trailer line, or of the last, empty one.
    TrailerStart,
    /// In the name of a trailer.
    TrailerName,
    /// In the value of a trailer.
    Trailer,
    /// Before the line feed that ends a trailer line.
    TrailerEnd,
    /// Before the very last line feed.
    LastEnd,
    Done,
}

/// The next part of the input: framing to skip, then data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) framing: usize,
    pub(crate) data: usize,
}

/// The bytes are no chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chunks of the body are malformed")]
pub(crate) struct BadChunks;

impl Chunked {
    pub(crate) fn new() -> Self {
        Self { at: At::Size(0), framing: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.at == At::Done
    }

    /// Steps over framing, and over the data that follows it. A part without data means that the
    /// input or the body is at its end.
    pub(crate) fn next_part(&mut self, input: &[u8]) -> Result<Part, BadChunks> {
        for (framing, byte) in input.iter().enumerate() {
            match self.at {
                At::Data(left) => {
                    let there = input.len() - framing;
                    let data = usize::try_from(left).unwrap_or(usize::MAX).min(there);
                    let left = left - data as u64;
                    self.at = if left == 0 { At::DataEnd } else { At::Data(left) };
                    return Ok(Part { framing, data });
                }
                At::Done => return Ok(Part { framing, data: 0 }),
                _ => self.step(*byte)?,
            }
        }
        Ok(Part { framing: input.len(), data: 0 })
    }

    /// Takes one byte of framing.
    fn step(&mut self, byte: u8) -> Result<(), BadChunks> {
        self.framing += 1;
        self.at = match (self.at, byte) {
            (At::Size(size), _) if byte.is_ascii_hexdigit() && self.framing <= SIZE_DIGITS_MAX => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                At::Size(size << 4 | u64::from(digit))
            }
            (At::Size(size), b'\r') if self.framing > 1 => At::SizeEnd(size),
            (At::Size(size), b';') if self.framing > 1 => At::Extension(size),
            (At::Extension(size), b'\r') => At::SizeEnd(size),
            (At::Extension(size), _) if is_text(byte) && self.framing < LINE_BYTES_MAX => {
                At::Extension(size)
            }
            (At::SizeEnd(0), b'\n') => self.begin(At::TrailerStart),
            (At::SizeEnd(size), b'\n') => self.begin(At::Data(size)),
            (At::DataEnd, b'\r') => At::ChunkEnd,
            (At::ChunkEnd, b'\n') => self.begin(At::Size(0)),
            (At::TrailerStart, b'\r') => At::LastEnd,
            (At::TrailerStart | At::TrailerName, _)
                if is_name(byte) && self.framing < TRAILER_BYTES_MAX =>
            {
                At::TrailerName
            }
            (At::TrailerName, b':') => At::Trailer,
            (At::Trailer, _) if is_text(byte) && self.framing < TRAILER_BYTES_MAX => At::Trailer,
            (At::Trailer, b'\r') => At::TrailerEnd,
            (At::TrailerEnd, b'\n') => At::TrailerStart,
            (At::LastEnd, b'\n') => At::Done,
            _ => return Err(BadChunks),
        };
        Ok(())
    }

    fn begin(&mut self, at: At) -> At {
        self.framing = 0;
        at
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of a body that comes in pieces of this size, and what follows it.
    fn decode(input: &str, piece: usize) -> Option<(String, String)> {
        let (mut chunked, mut data, mut used) = (Chunked::new(), Vec::new(), 0);
        for piece in input.as_bytes().chunks(piece) {
            let mut rest = piece;
            while !rest.is_empty() && !chunked.is_done() {
                let part = chunked.next_part(rest).ok()?;
                data.extend(&rest[part.framing..part.framing + part.data]);
                rest = &rest[part.framing + part.data..];
            }
            used += piece.len() - rest.len();
        }
        chunked.is_done().then(|| (String::from_utf8(data).unwrap(), input[used..].to_owned()))
    }

    #[track_caller]
    fn check(input: &str, expected: Option<(&str, &str)>) {
        let expected = expected.map(|(data, rest)| (data.to_owned(), rest.to_owned()));
        for piece in 1..=input.len() {
            assert_eq!(decode(input, piece), expected, "{input:?} in pieces of {piece}");
        }
    }

    #[test]
    fn chunks_are_joined_however_they_arrive() {
        check("0\r\n\r\n", Some(("", "")));
        check("5\r\nhello\r\n0\r\n\r\nGET", Some(("hello", "GET")));
        check("5\r\nhello\r\n01\r\n!\r\n000\r\n\r\n", Some(("hello!", "")));
        check("A;name=value\r\n0123456789\r\n0\r\nx: y\r\nz: \r\n\r\n", Some(("0123456789", "")));
    }

    #[test]
    fn anything_else_is_refused() {
        for input in [
            "\r\n\r\n",
            ";\r\n\r\n",
            "-1\r\n\r\n",
            "0 \r\n\r\n",
            "0x1\r\na\r\n0\r\n\r\n",
            "1\na\n0\n\n",
            "1\r\nab\r\n0\r\n\r\n",
            "1\r\na0\r\n\r\n",
            "1\r\na\r0\r\n\r\n",
            "0\r\n\n",
            "0\r\n\r\r\n",
            "1;\n\r\na\r\n0\r\n\r\n",
            "0\r\nx\ny\r\n\r\n",
            "0\r\nno colon\r\n\r\n",
            "0\r\n: nameless\r\n\r\n",
            "0\r\nx: y\r\n folded\r\n\r\n",
            "1000000000000000\r\n",
        ] {
            check(input, None);
        }
        check(&format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(LINE_BYTES_MAX)), None);
        let trailers = "x: y\r\n".repeat(TRAILER_BYTES_MAX / 6 + 1);
        assert_eq!(decode(&format!("0\r\n{trailers}\r\n"), 4096), None);
    }
}
