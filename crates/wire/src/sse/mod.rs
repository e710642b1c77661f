//! Server-sent events: data events, and the control event that follows each.

mod events;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{BufMut, BytesMut};

pub use events::{BadEvent, Event, EventReader};

use crate::{Cursor, Messages, Offset};

/// What a control event tells the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Where to resume.
    pub next: Offset,
    /// Where the reader stands.
    pub state: ReaderState,
}

/// Where a live reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderState {
    /// More follows at once.
    Behind(Cursor),
    /// At the tail of an open stream.
    UpToDate(Cursor),
    /// At the end of a closed stream; nothing will follow.
    Closed,
}

/// How the messages of a data event are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One JSON array.
    Json,
    /// The bytes as text.
    Text,
    /// The bytes in standard base64.
    Base64,
}

/// Writes one `data` event with all messages of `runs`.
pub fn write_data(frame: &mut BytesMut, encoding: Encoding, runs: &[Messages]) {
    frame.put_slice(b"event: data\n");
    match encoding {
        Encoding::Json => write_lines(frame, &String::from_utf8_lossy(&crate::json::join(runs))),
        Encoding::Text => write_text(frame, runs),
        Encoding::Base64 => {
            write_lines(frame, &STANDARD.encode(joined(runs)));
        }
    }
    frame.put_u8(b'\n');
}

/// Writes one `control` event.
pub fn write_control(frame: &mut BytesMut, control: &Control) {
    frame.put_slice(b"event: control\ndata:{\"streamNextOffset\":\"");
    frame.put_slice(&control.next.token());
    frame.put_u8(b'"');
    match control.state {
        ReaderState::Behind(cursor) => put_cursor(frame, cursor),
        ReaderState::UpToDate(cursor) => {
            put_cursor(frame, cursor);
            frame.put_slice(b",\"upToDate\":true");
        }
        ReaderState::Closed => frame.put_slice(b",\"upToDate\":true,\"streamClosed\":true"),
    }
    frame.put_slice(b"}\n\n");
}

/// A comment that keeps an idle connection open.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

fn put_cursor(frame: &mut BytesMut, cursor: Cursor) {
    frame.put_slice(b",\"streamCursor\":\"");
    frame.put_slice(cursor.to_string().as_bytes());
    frame.put_u8(b'"');
}

fn write_text(frame: &mut BytesMut, runs: &[Messages]) {
    match runs {
        [only] => write_lines(frame, &String::from_utf8_lossy(only.data())),
        several => write_lines(frame, &String::from_utf8_lossy(&joined(several))),
    }
}

fn joined(runs: &[Messages]) -> Vec<u8> {
    let runs: Vec<&[u8]> = runs.iter().map(|run| run.data().as_ref()).collect();
    runs.concat()
}

/// Splits at every line end a reader may know, so that no payload can forge an event.
fn write_lines(frame: &mut BytesMut, text: &str) {
    frame.reserve(text.len() + 16);
    let mut rest = text;
    loop {
        let end = rest.find(['\n', '\r']);
        let line = &rest[..end.unwrap_or(rest.len())];
        // Readers strip one space after the colon: only a line that begins with one needs it.
        frame.put_slice(if line.starts_with(' ') { b"data: " } else { b"data:" });
        frame.put_slice(line.as_bytes());
        frame.put_u8(b'\n');
        let Some(end) = end else { return };
        let width = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + width..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(encoding: Encoding, messages: &[&[u8]]) -> String {
        let mut frame = BytesMut::new();
        let runs = [Messages::copied(messages.iter().copied()).unwrap()];
        write_data(&mut frame, encoding, &runs);
        String::from_utf8(frame.to_vec()).unwrap()
    }

    /// What a reader that follows the standard makes of a frame.
    fn read(frame: &str) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let (mut kind, mut data) = (String::new(), Vec::new());
        for line in frame.replace("\r\n", "\n").replace('\r', "\n").lines() {
            match line.split_once(':') {
                None if line.is_empty() && !data.is_empty() => {
                    events.push((std::mem::take(&mut kind), data.join("\n")));
                    data.clear();
                }
                Some(("event", value)) => kind = value.trim().to_owned(),
                Some(("data", value)) => data.push(value.strip_prefix(' ').unwrap_or(value)),
                _ => {}
            }
        }
        events
    }

    #[test]
    fn each_encoding_has_its_form() {
        assert_eq!(frame(Encoding::Json, &[b"1", b"2"]), "event: data\ndata:[1,2]\n\n");
        assert_eq!(frame(Encoding::Base64, &[b"\0\xff"]), "event: data\ndata:AP8=\n\n");
        assert_eq!(frame(Encoding::Text, &[b" a\nb"]), "event: data\ndata:  a\ndata:b\n\n");
    }

    #[test]
    fn control_says_where_the_reader_stands() {
        let mut frame = BytesMut::new();
        let cursor = Cursor::next(0, Some("41"), |_| 0);
        for state in
            [ReaderState::Behind(cursor), ReaderState::UpToDate(cursor), ReaderState::Closed]
        {
            write_control(&mut frame, &Control { next: Offset::START, state });
        }
        let zero = Offset::START;
        let event = |rest: &str| {
            format!("event: control\ndata:{{\"streamNextOffset\":\"{zero}\",{rest}}}\n\n")
        };
        let expected = [
            event(r#""streamCursor":"42""#),
            event(r#""streamCursor":"42","upToDate":true"#),
            event(r#""upToDate":true,"streamClosed":true"#),
        ];
        assert_eq!(String::from_utf8(frame.to_vec()).unwrap(), expected.concat());
    }

    proptest! {
        #[test]
        fn no_payload_forges_an_event(
            text in "[ a:\\r\\n\u{2028}]{1,40}|event: control\\r?\\n?data: x(\\r|\\n|\\r\\n){0,3}",
        ) {
            let events = read(&frame(Encoding::Text, &[text.as_bytes()]));
            let as_lines = text.replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(events, [("data".to_owned(), as_lines)]);
        }
    }
}
