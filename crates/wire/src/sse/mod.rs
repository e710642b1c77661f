//! Server-sent events: data events, and the control event that follows each.

mod events;

use std::{borrow::Cow, ops::Range};

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
    write_event(frame, encoding, runs);
}

/// Writes only what lies in this part of the bytes that [`write_data`] would write, for events too
/// large to be held. Each part costs a look at all messages, so there should be few.
pub fn write_data_part(
    frame: &mut BytesMut,
    encoding: Encoding,
    runs: &[Messages],
    part: Range<usize>,
) {
    write_event(&mut Part { frame, part, at: 0 }, encoding, runs);
}

/// Bytes that [`write_data`] writes: several times those of the messages, if they have many lines.
#[must_use]
pub fn data_len(encoding: Encoding, runs: &[Messages]) -> usize {
    let mut length = Length(0);
    write_event(&mut length, encoding, runs);
    length.0
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

/// Where an event goes: to a frame, or just to its length.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

/// The length of what was put.
struct Length(usize);

/// A part of what was put.
struct Part<'a> {
    frame: &'a mut BytesMut,
    part: Range<usize>,
    /// Bytes that were put, in the part or not.
    at: usize,
}

impl Sink for Part<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let within = |place: usize| place.clamp(self.at, self.at + bytes.len()) - self.at;
        self.frame.put_slice(&bytes[within(self.part.start)..within(self.part.end)]);
        self.at += bytes.len();
    }
}

impl Sink for BytesMut {
    fn put(&mut self, bytes: &[u8]) {
        self.put_slice(bytes);
    }
}

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Nothing is copied on the way but small runs of text, so that an event costs its frame only.
fn write_event(sink: &mut impl Sink, encoding: Encoding, runs: &[Messages]) {
    sink.put(b"event: data\n");
    let mut lines = Lines { sink, is_at_start: true, ends_with_return: false };
    match encoding {
        Encoding::Json => write_array(&mut lines, runs),
        Encoding::Text => write_text(&mut lines, &joined(runs)),
        Encoding::Base64 => write_base64(&mut lines, &joined(runs)),
    }
    lines.finish();
    sink.put(b"\n");
}

fn write_array(lines: &mut Lines<'_, impl Sink>, runs: &[Messages]) {
    let mut mark = "[";
    for message in runs.iter().flat_map(Messages::iter) {
        lines.put(mark);
        write_text(lines, message);
        mark = ",";
    }
    lines.put(if mark == "[" { "[]" } else { "]" });
}

fn write_text(lines: &mut Lines<'_, impl Sink>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        lines.put(chunk.valid());
        if !chunk.invalid().is_empty() {
            lines.put("\u{FFFD}");
        }
    }
}

fn write_base64(lines: &mut Lines<'_, impl Sink>, bytes: &[u8]) {
    // Only the last group of three may be incomplete.
    let mut encoded = [0; 4096];
    for group in bytes.chunks(encoded.len() / 4 * 3) {
        let written = STANDARD.encode_slice(group, &mut encoded).expect("four bytes for three");
        lines.put(std::str::from_utf8(&encoded[..written]).expect("base64 is ASCII"));
    }
}

/// The bytes end to end, where they stand if there is one run only: a character or a group of three
/// may begin in one run and end in the next.
fn joined(runs: &[Messages]) -> Cow<'_, [u8]> {
    match runs {
        [only] => Cow::Borrowed(only.data()),
        several => {
            let runs: Vec<&[u8]> = several.iter().map(|run| run.data().as_ref()).collect();
            Cow::Owned(runs.concat())
        }
    }
}

/// Text as the lines of an event. It is split at every line end that a reader may know, so that no
/// payload can forge an event.
struct Lines<'a, S> {
    sink: &'a mut S,
    is_at_start: bool,
    /// A line feed that comes next belongs to the end of the line before it.
    ends_with_return: bool,
}

impl<S: Sink> Lines<'_, S> {
    fn put(&mut self, text: &str) {
        let mut rest = text.as_bytes();
        if self.ends_with_return && !rest.is_empty() {
            self.ends_with_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.put_in_line(&rest[..end]);
            self.end_line();
            let after = &rest[end + 1..];
            rest = match (rest[end], after) {
                (b'\r', []) => {
                    self.ends_with_return = true;
                    after
                }
                (b'\r', [b'\n', after @ ..]) => after,
                _ => after,
            };
        }
        if !rest.is_empty() {
            self.put_in_line(rest);
        }
    }

    fn put_in_line(&mut self, text: &[u8]) {
        if self.is_at_start && !text.is_empty() {
            self.is_at_start = false;
            // Readers strip one space after the colon: only a line that begins with one needs it.
            self.sink.put(if text[0] == b' ' { b"data: " } else { b"data:" });
        }
        self.sink.put(text);
    }

    fn end_line(&mut self) {
        self.sink.put(if self.is_at_start { b"data:\n" } else { b"\n" });
        self.is_at_start = true;
    }

    fn finish(mut self) {
        self.end_line();
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

    /// What is written does not depend on where messages and runs end, and is as long as was said.
    #[track_caller]
    fn check(encoding: Encoding, runs: &[&[&[u8]]], expected: &str) {
        let runs: Vec<Messages> =
            runs.iter().map(|run| Messages::copied(run.iter().copied()).unwrap()).collect();
        let mut frame = BytesMut::new();
        write_data(&mut frame, encoding, &runs);
        assert_eq!(String::from_utf8_lossy(&frame), expected);
        assert_eq!(data_len(encoding, &runs), frame.len(), "{expected}");
        for step in [1, 7, frame.len()] {
            let mut parts = BytesMut::new();
            for from in (0..frame.len()).step_by(step) {
                write_data_part(&mut parts, encoding, &runs, from..frame.len().min(from + step));
            }
            assert!(parts == frame, "in parts of {step}: {parts:?}");
        }
    }

    #[test]
    fn lines_and_characters_may_go_on_in_the_next_run() {
        let event = |data: &str| format!("event: data\n{data}\n");
        check(Encoding::Text, &[&[b"a\r"], &[b"\nb"]], &event("data:a\ndata:b\n"));
        check(Encoding::Text, &[&[b"\r", b"\r\n", b"\n"]], &event(&"data:\n".repeat(4)));
        check(Encoding::Text, &[&[b"\xe2\x82"], &[b"\xac\xff"]], &event("data:\u{20ac}\u{fffd}\n"));
        check(Encoding::Json, &[&[b"[1,\n 2]"], &[b"3"]], &event("data:[[1,\ndata:  2],3]\n"));
        check(Encoding::Base64, &[&[b"\0"], &[b"\0\0\0"]], &event("data:AAAAAA==\n"));
        let long = vec![0; 10_000];
        let expected = event(&format!("data:{}\n", STANDARD.encode(&long)));
        check(Encoding::Base64, &[&[&long]], &expected);
        let newlines = vec![b'\n'; 1000];
        check(Encoding::Text, &[&[&newlines]], &event(&"data:\n".repeat(1001)));
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
            let event = frame(Encoding::Text, &[text.as_bytes()]);
            let runs = [Messages::one(text.clone().into_bytes()).unwrap()];
            prop_assert_eq!(data_len(Encoding::Text, &runs), event.len());
            let events = read(&event);
            let as_lines = text.replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(events, [("data".to_owned(), as_lines)]);
        }
    }
}
