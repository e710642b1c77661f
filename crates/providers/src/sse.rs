//! Server-sent events, cut out of bytes as they arrive.
//!
//! An event whose data is one line of one piece of input is handed on as it lies there. What is cut
//! is kept, never more than the cap.

use memchr::memchr2;

use crate::caps::FRAME_BYTES_MAX;

/// Cuts bytes into events.
#[derive(Debug, Default)]
pub struct Sse {
    /// The start of a line that has not ended.
    line: Vec<u8>,
    /// The data of an event that has not ended, if it has any.
    data: Option<Vec<u8>>,
    name: Option<String>,
    /// A line ended with a carriage return; a line feed right after it belongs to it.
    is_after_cr: bool,
    /// A byte order mark may stand only before the first line.
    is_begun: bool,
}

/// Bytes that are no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// One is too long.
    #[error("an event has more than {FRAME_BYTES_MAX} bytes")]
    TooLong,
    /// One is no text.
    #[error("an event is not UTF-8")]
    NotText,
}

impl Sse {
    /// Hands on every event that these bytes complete: its name, if it has one, and its data.
    ///
    /// An event that has not ended when the input does never happened, by the rules of SSE.
    ///
    /// # Errors
    /// What `each` returns, or [`BadFrame`]. Nothing may be pushed after.
    pub fn push<E: From<BadFrame>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Option<&str>, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        // The data of the event, as long as it is one line of this input.
        let mut inside: Option<&[u8]> = None;
        let mut rest = bytes;
        loop {
            if self.is_after_cr && !rest.is_empty() {
                self.is_after_cr = false;
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            let Some(len) = memchr2(b'\n', b'\r', rest) else { break };
            let (line, after) = rest.split_at(len);
            self.is_after_cr = after[0] == b'\r';
            rest = &after[1..];
            match self.whole_line(line, &mut inside)? {
                Line::End => {
                    let name = self.name.take();
                    let kept = self.data.take();
                    if let Some(data) = inside.take().or(kept.as_deref()) {
                        let data = str::from_utf8(data).map_err(|_| BadFrame::NotText)?;
                        each(name.as_deref(), data)?;
                    }
                }
                Line::Data(data) if self.data.is_none() && inside.is_none() => inside = Some(data),
                Line::Data(data) => self.keep(inside.take(), data)?,
                Line::Name(name) => self.name = Some(text(name)?),
                Line::Other => {}
            }
        }
        if let Some(data) = inside {
            self.keep(None, data)?;
        }
        Ok(self.hold(rest)?)
    }

    /// What a line says that ends with these bytes. If it began in an earlier input, what it says
    /// is kept already, unless it is the end of an event.
    fn whole_line<'a>(
        &mut self,
        end: &'a [u8],
        inside: &mut Option<&'a [u8]>,
    ) -> Result<Line<'a>, BadFrame> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if self.line.is_empty() {
            return Ok(Line::read(end, is_first));
        }
        self.hold(end)?;
        let mut line = std::mem::take(&mut self.line);
        let said = match Line::read(&line, is_first) {
            Line::End => Line::End,
            Line::Data(data) => {
                self.keep(inside.take(), data)?;
                Line::Other
            }
            Line::Name(name) => {
                self.name = Some(text(name)?);
                Line::Other
            }
            Line::Other => Line::Other,
        };
        line.clear();
        self.line = line;
        Ok(said)
    }

    /// Keeps the start of a line.
    fn hold(&mut self, bytes: &[u8]) -> Result<(), BadFrame> {
        if self.line.len() + bytes.len() > FRAME_BYTES_MAX {
            return Err(BadFrame::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Keeps lines of data.
    fn keep(&mut self, first: Option<&[u8]>, line: &[u8]) -> Result<(), BadFrame> {
        for line in first.into_iter().chain([line]) {
            let data = match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data
                }
                none => none.insert(Vec::new()),
            };
            if data.len() + line.len() > FRAME_BYTES_MAX {
                return Err(BadFrame::TooLong);
            }
            data.extend_from_slice(line);
        }
        Ok(())
    }
}

/// What a line says.
enum Line<'a> {
    Data(&'a [u8]),
    Name(&'a [u8]),
    /// The event is whole.
    End,
    /// Comments, ids and pauses mean nothing here.
    Other,
}

impl<'a> Line<'a> {
    fn read(mut line: &'a [u8], is_first: bool) -> Self {
        if is_first {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        let value = |rest: &'a [u8]| match rest {
            [] => Some(rest),
            [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
            _ => None,
        };
        if line.is_empty() {
            return Self::End;
        }
        if let Some(data) = line.strip_prefix(b"data").and_then(value) {
            return Self::Data(data);
        }
        line.strip_prefix(b"event").and_then(value).map_or(Self::Other, Self::Name)
    }
}

fn text(bytes: &[u8]) -> Result<String, BadFrame> {
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| BadFrame::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Events = Vec<(Option<String>, String)>;

    fn cut(pieces: &[&[u8]]) -> Result<Events, BadFrame> {
        let (mut sse, mut events) = (Sse::default(), Events::new());
        for piece in pieces {
            sse.push(piece, |name, data| {
                events.push((name.map(str::to_owned), data.to_owned()));
                Ok::<_, BadFrame>(())
            })?;
        }
        Ok(events)
    }

    /// Whole, cut in two at every byte, and byte by byte: always the same events.
    #[track_caller]
    fn check(input: &str, expect: &[(Option<&str>, &str)]) {
        let owned =
            |(name, data): &(Option<&str>, &str)| (name.map(str::to_owned), data.to_string());
        let expect: Events = expect.iter().map(owned).collect();
        let bytes = input.as_bytes();
        assert_eq!(cut(&[bytes]).unwrap(), expect);
        for at in 0..=bytes.len() {
            assert_eq!(cut(&[&bytes[..at], &bytes[at..]]).unwrap(), expect, "cut at {at}");
        }
        let singles: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(cut(&singles).unwrap(), expect, "byte by byte");
    }

    #[test]
    fn events_are_the_same_wherever_they_are_cut() {
        check("data: a\n\ndata: b\n\n", &[(None, "a"), (None, "b")]);
        check("data: a\r\n\r\ndata: ü€\r\n\r\n", &[(None, "a"), (None, "ü€")]);
        check("data: a\r\rdata: b\r\r", &[(None, "a"), (None, "b")]);
        check("event: x\ndata: a\n\ndata:b\n\n", &[(Some("x"), "a"), (None, "b")]);
        check("data: a\nevent: x\ndata: b\ndata:  c\n\n", &[(Some("x"), "a\nb\n c")]);
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[(None, "a")]);
        check(": ping\n\nid: 4\nretry: 5\ndata: a\n\n", &[(None, "a")]);
        check("data\n\ndata:\n\nevent: x\n\ndataset: 1\n\n", &[(None, ""), (None, "")]);
        check("\n\n\ndata: a\n\ndata: unfinished\n", &[(None, "a")]);
    }

    #[test]
    fn what_is_too_long_or_no_text_is_refused() {
        let long = vec![b'x'; FRAME_BYTES_MAX + 1];
        assert_eq!(cut(&[b"data: ", &long]), Err(BadFrame::TooLong));
        let half = vec![b'x'; FRAME_BYTES_MAX / 2 + 1];
        assert_eq!(cut(&[b"data: ", &half, b"\ndata:", &half, b"\n"]), Err(BadFrame::TooLong));
        assert_eq!(cut(&[b"data: \xff\n\n"]), Err(BadFrame::NotText));
    }
}
