//! Lines of JSON, cut out of bytes as they arrive.

use memchr::memchr;

use crate::{caps::FRAME_BYTES_MAX, sse::BadFrame};

/// Cuts bytes into lines.
#[derive(Debug, Default)]
pub struct Lines {
    /// The start of a line that has not ended.
    line: Vec<u8>,
}

impl Lines {
    /// Hands on every line that these bytes complete; blank ones are passed over.
    ///
    /// # Errors
    /// What `each` returns, or [`BadFrame`]. Nothing may be pushed after.
    pub fn push<E: From<BadFrame>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        while let Some(len) = memchr(b'\n', rest) {
            let line = &rest[..len];
            rest = &rest[len + 1..];
            if self.line.is_empty() {
                hand_on(line, &mut each)?;
            } else {
                self.hold(line)?;
                let mut line = std::mem::take(&mut self.line);
                hand_on(&line, &mut each)?;
                line.clear();
                self.line = line;
            }
        }
        Ok(self.hold(rest)?)
    }

    /// Hands on the last line if nothing ended it.
    ///
    /// # Errors
    /// What `each` returns, or [`BadFrame`].
    pub fn finish<E: From<BadFrame>>(
        &mut self,
        mut each: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        hand_on(&std::mem::take(&mut self.line), &mut each)
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), BadFrame> {
        if self.line.len() + bytes.len() > FRAME_BYTES_MAX {
            return Err(BadFrame::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }
}

fn hand_on<E: From<BadFrame>>(
    line: &[u8],
    each: &mut impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let line = str::from_utf8(line).map_err(|_| BadFrame::NotText)?.trim_ascii();
    match line.is_empty() {
        true => Ok(()),
        false => each(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> Result<Vec<String>, BadFrame> {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece, |line| {
                seen.push(line.to_owned());
                Ok::<_, BadFrame>(())
            })?;
        }
        lines.finish(|line| {
            seen.push(line.to_owned());
            Ok::<_, BadFrame>(())
        })?;
        Ok(seen)
    }

    #[test]
    fn lines_are_the_same_wherever_they_are_cut() {
        let input = "{\"a\":1}\n\r\n{\"ü\":2}\r\n\n{\"c\":3}".as_bytes();
        let expect = ["{\"a\":1}", "{\"ü\":2}", "{\"c\":3}"];
        for at in 0..=input.len() {
            assert_eq!(cut(&[&input[..at], &input[at..]]).unwrap(), expect, "cut at {at}");
        }
        assert_eq!(cut(&input.chunks(1).collect::<Vec<_>>()).unwrap(), expect);
    }

    #[test]
    fn what_is_too_long_or_no_text_is_refused() {
        let long = vec![b'x'; FRAME_BYTES_MAX];
        assert_eq!(cut(&[b"x", &long]), Err(BadFrame::TooLong));
        assert_eq!(cut(&[b"\xff\n"]), Err(BadFrame::NotText));
    }
}
