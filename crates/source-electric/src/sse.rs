//! Server-sent events, as far as shapes use them: the data of each event.

use crate::caps::EVENT_BYTES_MAX;

/// Takes pieces of a body, cut anywhere, and gives the data of whole events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The bytes of a line that has not ended.
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// A line feed after this is no line of its own.
    ended_by_return: bool,
}

/// An event that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadEvent {
    #[error("an event has more than {EVENT_BYTES_MAX} bytes")]
    TooLong,
    #[error("an event is no UTF-8")]
    NoText,
}

impl Events {
    /// The data of the events that end in this piece.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Vec<String>, BadEvent> {
        let mut events = Vec::new();
        for byte in piece {
            let follows_return = std::mem::take(&mut self.ended_by_return);
            match byte {
                b'\n' if follows_return => {}
                b'\n' | b'\r' => {
                    self.ended_by_return = *byte == b'\r';
                    events.extend(self.end_line()?);
                }
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return Err(BadEvent::TooLong);
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Result<Option<String>, BadEvent> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            if !std::mem::take(&mut self.has_data) {
                return Ok(None);
            }
            return String::from_utf8(data).map(Some).map_err(|_| BadEvent::NoText);
        }
        // Names, ids, comments and whatever else there is tell nothing about shapes.
        if let Some(data) = line.strip_prefix(b"data:") {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.has_data = true;
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut events = Events::default();
        pieces.into_iter().flat_map(|piece| events.push(piece).unwrap()).collect()
    }

    #[test]
    fn events_are_the_same_wherever_the_body_is_cut() {
        let body = "data: {\"a\":\"ü\"}\n\n: keep-alive\n\ndata:one\r\ndata: two\r\n\r\nid: 7\r\r\
                    event: x\ndata: last\n\ndata: half";
        let whole = read([body.as_bytes()]);
        assert_eq!(whole, ["{\"a\":\"ü\"}", "one\ntwo", "last"]);
        for at in 0..=body.len() {
            let (first, second) = body.as_bytes().split_at(at);
            assert_eq!(read([first, second]), whole, "cut at {at}");
        }
        assert_eq!(read(body.as_bytes().chunks(1)), whole);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert_eq!(Events::default().push(b"data: \xff\n\n"), Err(BadEvent::NoText));
    }
}
