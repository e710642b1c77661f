//! Input: from what is piped in to messages.

use std::io::{self, Read};

use serde_json::value::RawValue;
use sys::Sys;
use wire::{Messages, caps::APPEND_BYTES_MAX, json};

use crate::failure::Failure;

/// Bytes asked for at a time: what a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Every JSON value.
    Json,
    /// Every line that is not empty.
    Lines,
    /// Everything.
    Whole,
}

/// The standard input, cut into messages.
#[derive(Debug)]
pub(super) struct Input {
    sys: Sys,
    splitter: Splitter,
    end: End,
}

/// Whether more may follow what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Reached,
}

/// Bytes on their way to be messages.
#[derive(Debug)]
struct Splitter {
    shape: Shape,
    buffer: Vec<u8>,
    /// Messages so far, to tell where the input goes wrong.
    count: usize,
}

impl Input {
    pub(super) fn stdin(sys: &Sys, shape: Shape) -> Self {
        let splitter = Splitter { shape, buffer: Vec::new(), count: 0 };
        Self { sys: sys.clone(), splitter, end: End::Open }
    }

    /// The messages that have arrived since the last call, as soon as there are some; none at the
    /// end of the input.
    pub(super) async fn next(&mut self) -> Result<Option<Messages>, Failure> {
        while self.end == End::Open {
            self.receive().await?;
            let messages = self.splitter.split(self.end)?;
            if !messages.is_empty() {
                return Ok(Some(messages));
            }
        }
        Ok(None)
    }

    /// All messages up to the end of the input.
    pub(super) async fn all(mut self) -> Result<Messages, Failure> {
        while self.end == End::Open {
            self.receive().await?;
        }
        self.splitter.split(End::Reached)
    }

    async fn receive(&mut self) -> Result<(), Failure> {
        if self.splitter.buffer.len() > APPEND_BYTES_MAX {
            return Err(Failure::refused(wire::BadMessages::TooLarge));
        }
        let reading = self.sys.spawn.blocking(|| {
            let mut bytes = vec![0; READ_BYTES];
            let length = io::stdin().lock().read(&mut bytes)?;
            bytes.truncate(length);
            io::Result::Ok(bytes)
        });
        let bytes = reading.await.map_err(|error| Failure::about("the input", error))?;
        if bytes.is_empty() {
            self.end = End::Reached;
        }
        self.splitter.buffer.extend_from_slice(&bytes);
        Ok(())
    }
}

/// The messages in a text that was typed.
pub(super) fn typed(shape: Shape, text: &str) -> Result<Messages, Failure> {
    let mut splitter = Splitter { shape, buffer: text.as_bytes().to_vec(), count: 0 };
    splitter.split(End::Reached)
}

impl Splitter {
    /// Takes what is complete; the rest stays until more arrives.
    fn split(&mut self, end: End) -> Result<Messages, Failure> {
        let (messages, used) = match self.shape {
            Shape::Json => self.json_values(end)?,
            Shape::Lines => self.lines(end),
            Shape::Whole => self.whole(end),
        };
        let messages = Messages::copied(messages).map_err(Failure::refused)?;
        self.buffer.drain(..used);
        self.count += messages.len();
        match self.shape {
            Shape::Json => json_mode(&messages),
            Shape::Lines | Shape::Whole => Ok(messages),
        }
    }

    fn json_values(&self, end: End) -> Result<(Vec<&[u8]>, usize), Failure> {
        let mut found = Vec::new();
        let mut values =
            serde_json::Deserializer::from_slice(&self.buffer).into_iter::<&RawValue>();
        loop {
            let start = values.byte_offset();
            match values.next() {
                None => return Ok((found, self.buffer.len())),
                Some(Ok(value)) => {
                    let at_edge = values.byte_offset() == self.buffer.len();
                    if at_edge && end == End::Open && may_go_on(value.get()) {
                        return Ok((found, start));
                    }
                    found.push(value.get().as_bytes());
                }
                Some(Err(error)) if error.is_eof() && end == End::Open => {
                    return Ok((found, start));
                }
                Some(Err(error)) => {
                    let number = self.count + found.len() + 1;
                    let what = format!("message {number} of the input is not a JSON value");
                    return Err(Failure::about(what, error));
                }
            }
        }
    }

    fn lines(&self, end: End) -> (Vec<&[u8]>, usize) {
        let used = match end {
            End::Reached => self.buffer.len(),
            End::Open => self.buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        };
        let lines = self.buffer[..used].split(|byte| *byte == b'\n');
        (lines.filter(|line| !line.is_empty()).collect(), used)
    }

    fn whole(&self, end: End) -> (Vec<&[u8]>, usize) {
        match end {
            End::Open => (Vec::new(), 0),
            End::Reached if self.buffer.is_empty() => (Vec::new(), 0),
            End::Reached => (vec![&self.buffer], self.buffer.len()),
        }
    }
}

/// `12` may be the beginning of `123`; a value with an end of its own may not.
fn may_go_on(value: &str) -> bool {
    !value.ends_with(['}', ']', '"'])
}

/// Applies the rules that a server applies to the same messages.
fn json_mode(messages: &Messages) -> Result<Messages, Failure> {
    json::split(&json::join([messages])).map_err(Failure::refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of input that arrives in these pieces, batch by batch.
    #[track_caller]
    fn check(shape: Shape, pieces: &[&str], expected: &[&[&str]]) {
        let mut splitter = Splitter { shape, buffer: Vec::new(), count: 0 };
        let mut batches = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            splitter.buffer.extend_from_slice(piece.as_bytes());
            let end = if index + 1 == pieces.len() { End::Reached } else { End::Open };
            let batch = splitter.split(end).unwrap();
            let text = |message: &[u8]| String::from_utf8(message.to_vec()).unwrap();
            batches.push(batch.iter().map(text).collect::<Vec<_>>());
        }
        assert_eq!(batches, expected, "{pieces:?}");
    }

    #[test]
    fn json_values_are_messages_however_they_are_spaced() {
        check(Shape::Json, &["{\"a\":1}\n{\"b\":2}\n"], &[&["{\"a\":1}", "{\"b\":2}"]]);
        check(Shape::Json, &["1 2\t\"x\"[3]{}"], &[&["1", "2", "\"x\"", "[3]", "{}"]]);
        check(Shape::Json, &["  \n "], &[&[]]);
    }

    #[test]
    fn a_json_value_waits_for_its_end() {
        check(Shape::Json, &["{\"a\":", "1} 12", "3 ", ""], &[&[], &["{\"a\":1}"], &["123"], &[]]);
        check(Shape::Json, &["tr", "ue"], &[&[], &["true"]]);
        check(Shape::Json, &["\"a", "b\"", ""], &[&[], &["\"ab\""], &[]]);
    }

    #[test]
    fn lines_are_messages_without_their_ends() {
        check(Shape::Lines, &["a\nb", "c\n\nd"], &[&["a"], &["bc", "d"]]);
    }

    #[test]
    fn the_whole_input_is_one_message() {
        check(Shape::Whole, &["a\n", "b\n", ""], &[&[], &[], &["a\nb\n"]]);
        check(Shape::Whole, &[""], &[&[]]);
    }

    #[test]
    fn what_is_no_json_is_told_by_its_number() {
        let failure = typed(Shape::Json, "{\"a\":1} {b}").unwrap_err();
        let text = failure.text().unwrap();
        assert!(text.starts_with("message 2 of the input is not a JSON value: "), "{text}");
        assert!(typed(Shape::Json, "{\"a\":").is_err());
    }
}
