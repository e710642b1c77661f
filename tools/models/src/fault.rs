//! What becomes of an answer on its way: cut, garbled, in pieces of one byte.

use std::{io, iter};

use bytes::Bytes;
use serde_json::Value;

use crate::{
    Scenario, Wire,
    caps::{HUGE_BYTES, HUGE_EVENT_BYTES},
    script::script,
    wire::{Frame, Letters},
};

/// The pieces of a body; an error breaks the connection.
pub(crate) type Pieces = Box<dyn Iterator<Item = io::Result<Bytes>> + Send>;

/// How many bytes a piece has where letters shall be cut: fewer than the longest letters.
const CUT_BYTES: usize = 3;

/// The body of an answer.
pub(crate) fn answer(scenario: Scenario, wire: Wire, request: &Value) -> Pieces {
    if scenario == Scenario::HugeFrame {
        return endless_frame(wire);
    }
    let script = script(scenario, wire);
    let mut writer = wire.writer(request);
    let begin = writer.begin();
    if scenario == Scenario::Huge {
        let rest = script.steps.map(Some).chain([None]).flat_map(move |step| match step {
            Some(step) => writer.write(step),
            None => writer.end(script.end),
        });
        let frames = begin.into_iter().chain(rest);
        return Box::new(frames.map(move |frame| Ok(wire.frame(&frame, Letters::Plain))));
    }
    let mut frames = begin;
    script.steps.for_each(|step| frames.extend(writer.write(step)));
    let middle = frames.len().div_ceil(2);
    match scenario {
        Scenario::FailsMidway => {
            frames.truncate(middle);
            frames.push(writer.fail());
            return whole(bytes(wire, &frames));
        }
        Scenario::Malformed => {
            let garbled = frames[middle].clone().garbled();
            frames.insert(middle, garbled);
        }
        Scenario::EarlyEnd => {
            frames.truncate(middle);
            return whole(bytes(wire, &frames));
        }
        Scenario::Disconnect => {
            let mut pieces = bytes(wire, &frames[..=middle]);
            if let Some(last) = pieces.last_mut() {
                last.truncate(last.len() / 2);
            }
            let broken = Err(io::Error::other("cut as told"));
            return Box::new(pieces.into_iter().map(Ok).chain([broken]));
        }
        _ => {}
    }
    frames.extend(writer.end(script.end));
    let pieces = bytes_spelt(wire, &frames, scenario);
    match scenario {
        Scenario::SplitBytes => whole(cut(&pieces, 1)),
        Scenario::Unicode => whole(cut(&pieces, CUT_BYTES)),
        // Comments are what some compatible servers send to keep a connection open.
        Scenario::MissingFinish if wire == Wire::Chat => {
            whole([vec![Bytes::from_static(b": PROCESSING\n\n")], pieces].concat())
        }
        _ => whole(pieces),
    }
}

fn endless_frame(wire: Wire) -> Pieces {
    let start = match wire {
        Wire::Ollama => r#"{"model":""#,
        _ => r#"data: {"model":""#,
    };
    let letters = Bytes::from(vec![b'a'; HUGE_EVENT_BYTES]);
    let letters = iter::repeat_n(letters, HUGE_BYTES / HUGE_EVENT_BYTES);
    Box::new(iter::once(Bytes::from_static(start.as_bytes())).chain(letters).map(Ok))
}

fn bytes(wire: Wire, frames: &[Frame]) -> Vec<Bytes> {
    frames.iter().map(|frame| wire.frame(frame, Letters::Plain)).collect()
}

fn bytes_spelt(wire: Wire, frames: &[Frame], scenario: Scenario) -> Vec<Bytes> {
    let spelling = |at: usize| match scenario {
        Scenario::Unicode if at.is_multiple_of(2) => Letters::Escaped,
        _ => Letters::Plain,
    };
    frames.iter().enumerate().map(|(at, frame)| wire.frame(frame, spelling(at))).collect()
}

fn cut(pieces: &[Bytes], piece_bytes: usize) -> Vec<Bytes> {
    let whole = Bytes::from(pieces.concat());
    let starts = (0..whole.len()).step_by(piece_bytes);
    starts.map(|at| whole.slice(at..whole.len().min(at + piece_bytes))).collect()
}

fn whole(pieces: Vec<Bytes>) -> Pieces {
    Box::new(pieces.into_iter().map(Ok))
}
