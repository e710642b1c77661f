//! What a decoder told, in one line for each event.

use std::collections::BTreeSet;

use chat::{BlockKind, ModelError, ModelErrorKind, ModelEvent};
use providers::Decoder;

/// Reads an answer. `Err` is the first failure, with what was told before it.
pub(crate) fn read(
    mut decoder: impl Decoder,
    frames: &[impl AsRef<str>],
) -> Result<Vec<ModelEvent>, (Vec<ModelEvent>, ModelError)> {
    let mut events = Vec::new();
    for frame in frames {
        if let Err(error) = decoder.push(None, frame.as_ref(), &mut events) {
            return Err((events, error));
        }
    }
    match decoder.finish(&mut events) {
        Ok(()) => {
            assert_balanced(&events);
            Ok(events)
        }
        Err(error) => Err((events, error)),
    }
}

/// Reads a whole answer, and compares what was told.
#[track_caller]
pub(crate) fn check(decoder: impl Decoder, frames: &[impl AsRef<str>], expected: &[&str]) {
    let events = read(decoder, frames).unwrap_or_else(|(_, error)| panic!("{error}"));
    assert_eq!(lines(&events), expected);
}

/// Reads an answer that fails.
#[track_caller]
pub(crate) fn check_failure(
    decoder: impl Decoder,
    frames: &[impl AsRef<str>],
    kind: ModelErrorKind,
    message: &str,
) {
    let (_, error) = read(decoder, frames).expect_err("a failure");
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(message), "{error}");
}

/// Every start of an answer that is not all of it is a failure, and told so.
#[track_caller]
pub(crate) fn check_cuts<D: Decoder>(
    decoder: impl Fn() -> D,
    frames: &[impl AsRef<str>],
    whole_from: usize,
) {
    for end in 0..frames.len() {
        let cut = read(decoder(), &frames[..end]);
        match end < whole_from {
            true => assert_eq!(cut.expect_err("cut").1.kind, ModelErrorKind::Truncated, "{end}"),
            false => assert!(cut.is_ok(), "whole from {end}"),
        }
    }
}

/// All the text of the blocks, by their number.
pub(crate) fn grown(events: &[ModelEvent], number: u32) -> String {
    let deltas = events.iter().filter_map(|event| match event {
        ModelEvent::More { block, delta } if block.0 == number => Some(delta.as_str()),
        _ => None,
    });
    deltas.collect()
}

/// One line for each event.
pub(crate) fn lines(events: &[ModelEvent]) -> Vec<String> {
    events.iter().map(line).collect()
}

fn line(event: &ModelEvent) -> String {
    match event {
        ModelEvent::Answering { model } => format!("model {model}"),
        ModelEvent::Open { block, kind } => format!("open {} {}", block.0, kind_line(kind)),
        ModelEvent::More { block, delta } => format!("more {} {delta}", block.0),
        ModelEvent::Sign { block, signature } => format!("sign {} {signature}", block.0),
        ModelEvent::ProviderResult { block, result } => format!("result {} {result}", block.0),
        ModelEvent::Close { block } => format!("close {}", block.0),
        ModelEvent::Usage(usage) => format!("usage {}", serde_json::to_string(usage).unwrap()),
        ModelEvent::Stop(reason) => format!("stop {reason:?}"),
        ModelEvent::Note { name, value } => format!("note {name} {value}"),
        other => format!("{other:?}"),
    }
}

fn kind_line(kind: &BlockKind) -> String {
    let or_none = |id: &Option<chat::Id>| id.clone().unwrap_or_else(|| "-".into());
    match kind {
        BlockKind::Text => "text".to_owned(),
        BlockKind::Thinking => "thinking".to_owned(),
        BlockKind::RedactedThinking => "redacted".to_owned(),
        BlockKind::Call { id, name } => format!("call {} {name}", or_none(id)),
        BlockKind::ProviderCall { id, name } => format!("provider-call {} {name}", or_none(id)),
        other => format!("{other:?}"),
    }
}

/// Blocks open once, grow while they are open, and all end.
fn assert_balanced(events: &[ModelEvent]) {
    let mut open = BTreeSet::new();
    for event in events {
        match event {
            ModelEvent::Open { block, .. } => assert!(open.insert(*block), "{event:?}"),
            ModelEvent::More { block, .. } | ModelEvent::Sign { block, .. } => {
                assert!(open.contains(block), "{event:?}");
            }
            ModelEvent::Close { block } => assert!(open.remove(block), "{event:?}"),
            _ => {}
        }
    }
    assert!(open.is_empty(), "open at the end: {open:?}");
}
