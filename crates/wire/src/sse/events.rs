//! Reading server-sent events: bytes as they come, events as they are complete.

use std::str;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its name; empty if it has none.
    pub kind: String,
    /// Its lines, joined by line feeds.
    pub data: String,
}

/// Bytes that are no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadEvent {
    /// It does not end.
    #[error("an event is larger than {0} bytes")]
    TooLarge(usize),
    /// It is no text.
    #[error("an event is not UTF-8 text")]
    NotText,
}

/// Takes bytes and gives events. It holds at most one event that is not complete.
#[derive(Debug)]
pub struct EventReader {
    bytes_max: usize,
    unread: Vec<u8>,
    /// How much of `unread` was taken.
    taken: usize,
    /// How far no line end was found.
    searched: usize,
    /// Whether a line feed would belong to the line end before it.
    after_return: bool,
    kind: String,
    data: Option<String>,
}

impl EventReader {
    /// A reader of events of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            unread: Vec::new(),
            taken: 0,
            searched: 0,
            after_return: false,
            kind: String::new(),
            data: None,
        }
    }

    /// Takes more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.unread.extend_from_slice(bytes);
    }

    /// The next event, if it is complete.
    ///
    /// # Errors
    /// [`BadEvent`] if it is too large or no text; nothing that follows can be trusted.
    pub fn next_event(&mut self) -> Result<Option<Event>, BadEvent> {
        while let Some(line) = self.next_line()? {
            if line.is_empty() {
                let kind = std::mem::take(&mut self.kind);
                // An event without data is none, says the standard.
                if let Some(data) = self.data.take() {
                    return Ok(Some(Event { kind, data }));
                }
            } else {
                self.field(&line)?;
            }
        }
        Ok(None)
    }

    fn field(&mut self, line: &str) -> Result<(), BadEvent> {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.kind),
            "data" => match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            },
            // Comments and fields of no use to us.
            _ => {}
        }
        match self.data.as_ref().map_or(0, String::len) > self.bytes_max {
            true => Err(BadEvent::TooLarge(self.bytes_max)),
            false => Ok(()),
        }
    }

    fn next_line(&mut self) -> Result<Option<String>, BadEvent> {
        if let Some(next) = self.unread.get(self.taken).filter(|_| self.after_return) {
            self.taken += usize::from(*next == b'\n');
            self.after_return = false;
        }
        self.searched = self.searched.max(self.taken);
        let rest = &self.unread[self.searched..];
        let Some(found) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            self.searched = self.unread.len();
            return match self.unread.len() - self.taken > self.bytes_max {
                true => Err(BadEvent::TooLarge(self.bytes_max)),
                false => Ok(None),
            };
        };
        let end = self.searched + found;
        let line = str::from_utf8(&self.unread[self.taken..end]).map_err(|_| BadEvent::NotText)?;
        let line = line.to_owned();
        self.after_return = self.unread[end] == b'\r';
        self.taken = end + 1;
        self.searched = self.taken;
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Messages,
        sse::{Encoding, write_data},
    };

    /// What a reader makes of bytes that come in pieces of this size.
    fn read(bytes: &[u8], piece: usize) -> Vec<Event> {
        let mut reader = EventReader::new(1000);
        let mut events = Vec::new();
        for piece in bytes.chunks(piece) {
            reader.push(piece);
            while let Some(event) = reader.next_event().unwrap() {
                events.push(event);
            }
        }
        events
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        for piece in 1..=text.len().max(1) {
            let events = read(text.as_bytes(), piece);
            let events: Vec<_> =
                events.iter().map(|e| (e.kind.as_str(), e.data.as_str())).collect();
            assert_eq!(events, expected, "{text:?} in pieces of {piece}");
        }
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        check("", &[]);
        check("data: a\n\n", &[("", "a")]);
        check("event: data\ndata:a\ndata: b\n\n", &[("data", "a\nb")]);
        check("event:x\r\ndata:a\r\n\r\ndata:b\r\n\r\n", &[("x", "a"), ("", "b")]);
        check("data:a\rdata:b\r\rdata:c\r\r", &[("", "a\nb"), ("", "c")]);
        check(": keep-alive\n\ndata:  a\n\n", &[("", " a")]);
        check("event: none\n\ndata:a\n\n", &[("", "a")]);
        check("data\n\nid: 7\nretry: 1\ndata:✓\n\n", &[("", ""), ("", "✓")]);
        check("data: not complete\n", &[]);
        check("data:a\r\n\ndata:b\r\n\r\n", &[("", "a"), ("", "b")]);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let mut reader = EventReader::new(8);
        reader.push(b"data: 123456789");
        assert_eq!(reader.next_event(), Err(BadEvent::TooLarge(8)));
        let mut reader = EventReader::new(8);
        reader.push(b"data:12345\ndata:12345\n");
        assert_eq!(reader.next_event(), Err(BadEvent::TooLarge(8)));
        let mut reader = EventReader::new(8);
        reader.push(b"data:\xff\n\n");
        assert_eq!(reader.next_event(), Err(BadEvent::NotText));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            texts in prop::collection::vec("[ a:\\n✓]{1,40}", 1..5),
            piece in 1..50usize,
        ) {
            let mut bytes = BytesMut::new();
            for text in &texts {
                let run = Messages::copied([text.as_bytes()]).unwrap();
                write_data(&mut bytes, Encoding::Text, &[run]);
            }
            let events = read(&bytes, piece);
            let data: Vec<_> = events.iter().map(|event| event.data.as_str()).collect();
            prop_assert_eq!(data, texts);
        }

        #[test]
        fn pieces_do_not_matter(bytes in "[data: event\\r\\n]{0,60}", piece in 1..9usize) {
            prop_assert_eq!(read(bytes.as_bytes(), piece), read(bytes.as_bytes(), 1000));
        }
    }
}
