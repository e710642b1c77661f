//! The wires of the providers: one file for each.

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod responses;

use std::fmt;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    caps::REPEATED_BYTES_MAX,
    script::{End, FIRST_HALF, SECOND_HALF, Step},
};

/// A way to ask a model over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wire {
    /// Chat completions of OpenAI and of everybody who is compatible with it.
    Chat,
    /// Responses of OpenAI.
    Responses,
    /// Messages of Anthropic.
    Anthropic,
    /// Contents of Gemini.
    Gemini,
    /// Chats of Ollama.
    Ollama,
}

impl Wire {
    /// All of them.
    pub const ALL: &[Self] =
        &[Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// What it is called in lines of output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Whether the parts of several calls may be mixed.
    pub(crate) const fn interleaves(self) -> bool {
        matches!(self, Self::Chat | Self::Responses)
    }

    /// What its answers are.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Ollama => "application/x-ndjson",
            _ => "text/event-stream; charset=utf-8",
        }
    }

    /// Puts one answer into its words.
    pub(crate) fn writer(self, request: &Value) -> Box<dyn Writer> {
        match self {
            Self::Chat => Box::new(chat::Chat::new(request)),
            Self::Responses => Box::new(responses::Responses::default()),
            Self::Anthropic => Box::new(anthropic::Anthropic::default()),
            Self::Gemini => Box::new(gemini::Gemini::default()),
            Self::Ollama => Box::new(ollama::Ollama::default()),
        }
    }

    /// The bytes of one frame.
    pub(crate) fn frame(self, frame: &Frame, letters: Letters) -> Bytes {
        let data = match &frame.data {
            Data::Json(value) => spell(&value.to_string(), letters),
            Data::Raw(text) => (*text).to_owned(),
        };
        Bytes::from(match (self, frame.event) {
            (Self::Ollama, _) => format!("{data}\n"),
            // The service ends its lines like this.
            (Self::Gemini, _) => format!("data: {data}\r\n\r\n"),
            (_, Some(event)) => format!("event: {event}\ndata: {data}\n\n"),
            (_, None) => format!("data: {data}\n\n"),
        })
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Puts one answer into the words of a wire, frame by frame.
pub(crate) trait Writer: Send {
    fn begin(&mut self) -> Vec<Frame>;
    fn write(&mut self, step: Step) -> Vec<Frame>;
    fn end(&mut self, end: End) -> Vec<Frame>;
    /// What the provider says when it fails in the middle.
    fn fail(&mut self) -> Frame;
}

/// One frame of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    event: Option<&'static str>,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    Json(Value),
    Raw(&'static str),
}

impl Frame {
    fn json(value: Value) -> Self {
        Self { event: None, data: Data::Json(value) }
    }

    fn named(event: &'static str, value: Value) -> Self {
        Self { event: Some(event), data: Data::Json(value) }
    }

    fn raw(text: &'static str) -> Self {
        Self { event: None, data: Data::Raw(text) }
    }

    /// The same frame, but nobody can read it.
    pub(crate) fn garbled(self) -> Self {
        Self { event: self.event, data: Data::Raw(r#"{"this": is no JSON"#) }
    }
}

/// How letters beyond ASCII are written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    Plain,
    Escaped,
}

/// Only strings of JSON have letters beyond ASCII, so they can be escaped without reading it.
fn spell(json: &str, letters: Letters) -> String {
    let mut spelt = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            FIRST_HALF => spelt.push_str(r"\ud83d"),
            SECOND_HALF => spelt.push_str(r"\ude00"),
            letter if letters == Letters::Escaped && !letter.is_ascii() => {
                for half in letter.encode_utf16(&mut [0; 2]) {
                    spelt.push_str(&format!("\\u{half:04x}"));
                }
            }
            letter => spelt.push(letter),
        }
    }
    spelt
}

/// Text that a later frame repeats, up to a bound.
fn keep(kept: &mut String, text: &str) {
    if kept.len() + text.len() <= REPEATED_BYTES_MAX {
        kept.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_escaped_as_pairs() {
        assert_eq!(spell("\"aü😀\"", Letters::Escaped), r#""a\u00fc\ud83d\ude00""#);
        assert_eq!(spell("\"ü\"", Letters::Plain), "\"ü\"");
        let halves = format!("{FIRST_HALF}{SECOND_HALF}");
        assert_eq!(spell(&halves, Letters::Plain), r"\ud83d\ude00");
    }

    #[test]
    fn lines_end_as_on_each_wire() {
        let frame = Frame::named("ping", serde_json::json!({}));
        let bytes = |wire: Wire| wire.frame(&frame, Letters::Plain);
        assert_eq!(bytes(Wire::Anthropic), "event: ping\ndata: {}\n\n");
        assert_eq!(bytes(Wire::Gemini), "data: {}\r\n\r\n");
        assert_eq!(bytes(Wire::Ollama), "{}\n");
    }
}
