//! Printing: messages as they are, results for people, or everything for programs.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use log::Freshness;
use serde::Serialize;
use serde_json::value::RawValue;

use super::target::Part;
use crate::{failure::Failure, output};

/// Who reads what we print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printer {
    People,
    Programs,
}

/// One message, for programs.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Shown<'a> {
    Message(&'a RawValue),
    Text(&'a str),
    Base64(String),
}

/// Where to go on after the messages before, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    next: String,
    up_to_date: bool,
    closed: bool,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        if json { Self::Programs } else { Self::People }
    }

    /// Prints what a command did: a sentence, or an object.
    pub(super) fn result(
        self,
        sentence: impl FnOnce() -> String,
        object: &impl Serialize,
    ) -> Result<(), Failure> {
        match self {
            Self::People => output::line(&sentence()),
            Self::Programs => output::json(object),
        }
    }

    /// Prints messages.
    pub(super) fn part(self, part: &Part) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        match self {
            Self::People if part.content_type.is_json() => write_lines(&mut bytes, part),
            Self::People => part.runs.iter().for_each(|run| bytes.extend_from_slice(run.data())),
            Self::Programs => write_objects(&mut bytes, part)?,
        }
        output::raw(&bytes)
    }
}

fn write_lines(bytes: &mut Vec<u8>, part: &Part) {
    for message in part.messages() {
        // JSON text holds line ends only between its tokens, where a space does as well.
        bytes.extend(message.iter().map(|byte| match byte {
            b'\n' | b'\r' => b' ',
            other => *other,
        }));
        bytes.push(b'\n');
    }
}

fn write_objects(bytes: &mut Vec<u8>, part: &Part) -> Result<(), Failure> {
    for message in part.messages() {
        let text = std::str::from_utf8(message).ok().filter(|_| part.content_type.is_text());
        match text {
            Some(text) if part.content_type.is_json() => {
                let text = text.replace(['\n', '\r'], " ");
                let raw: &RawValue = serde_json::from_str(&text).map_err(Failure::refused)?;
                write_object(bytes, &Shown::Message(raw))?;
            }
            Some(text) => write_object(bytes, &Shown::Text(text))?,
            None => write_object(bytes, &Shown::Base64(STANDARD.encode(message)))?,
        }
    }
    let place = Place {
        next: part.next.to_string(),
        up_to_date: part.freshness != Freshness::Behind,
        closed: part.freshness == Freshness::Closed,
    };
    write_object(bytes, &place)
}

fn write_object(bytes: &mut Vec<u8>, object: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(&mut *bytes, object).map_err(Failure::refused)?;
    bytes.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use wire::{Messages, Offset};

    use super::*;

    fn part(content_type: &str, messages: &[&[u8]]) -> Part {
        Part {
            content_type: content_type.parse().unwrap(),
            runs: vec![Messages::copied(messages.iter().copied()).unwrap()],
            next: Offset::START,
            freshness: Freshness::UpToDate,
        }
    }

    #[track_caller]
    fn check_object(content_type: &str, message: &[u8], expected: &str) {
        let mut bytes = Vec::new();
        write_objects(&mut bytes, &part(content_type, &[message])).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.lines().next(), Some(expected));
        assert!(text.lines().nth(1).unwrap().contains("\"upToDate\":true"), "{text}");
    }

    #[test]
    fn a_json_message_is_one_line() {
        let mut bytes = Vec::new();
        write_lines(&mut bytes, &part("application/json", &[b"{\r\n\"a\\n\":1}", b"2"]));
        assert_eq!(String::from_utf8(bytes).unwrap(), "{  \"a\\n\":1}\n2\n");
    }

    #[test]
    fn programs_are_told_what_a_message_is() {
        check_object("application/json", b"{\"a\":\n1}", "{\"message\":{\"a\": 1}}");
        check_object("text/plain", b"a\nb", "{\"text\":\"a\\nb\"}");
        check_object("text/plain", b"\xff", "{\"base64\":\"/w==\"}");
        check_object("image/png", b"a", "{\"base64\":\"YQ==\"}");
    }
}
