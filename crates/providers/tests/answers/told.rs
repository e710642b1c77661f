//! What a decoder told, in one line for each event.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use chat::{Block, BlockKind, ModelError, ModelErrorKind, ModelEvent};
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

/// Whatever comes in whatever order, what is told of it is balanced as far as it goes.
#[track_caller]
pub(crate) fn check_chance<D: Decoder>(decoder: impl Fn() -> D, frames: &[impl AsRef<str>]) {
    let mut wholes = 0;
    for seed in 1..=300_u64 {
        // A step of xorshift is chance enough here, and the same on every machine.
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut chosen = Vec::new();
        for _ in 0..24 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let index = usize::try_from(state % frames.len() as u64).unwrap();
            chosen.push(frames[index].as_ref());
            match catch_unwind(AssertUnwindSafe(|| read(decoder(), &chosen))) {
                Ok(Ok(_)) => wholes += 1,
                Ok(Err((events, error))) => {
                    balance(&events);
                    // What the wire refuses is left out, so that others can follow.
                    if error.kind != ModelErrorKind::Truncated {
                        chosen.pop();
                    }
                }
                Err(_) => panic!("seed {seed}: {chosen:#?}"),
            }
        }
    }
    assert!(wholes > 0, "no answer was whole");
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

/// Blocks all end, and the answer ends once.
fn assert_balanced(events: &[ModelEvent]) {
    let open = balance(events);
    assert!(open.is_empty(), "open at the end: {open:?}");
    let stops = events.iter().filter(|event| matches!(event, ModelEvent::Stop(_)));
    assert!(stops.count() <= 1, "{events:#?}");
}

/// Blocks open once and grow while they are open. Those that have not ended are returned.
fn balance(events: &[ModelEvent]) -> BTreeSet<Block> {
    let (mut open, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        match event {
            ModelEvent::Open { block, .. } => {
                assert!(seen.insert(*block), "{event:?}");
                open.insert(*block);
            }
            ModelEvent::More { block, .. }
            | ModelEvent::Sign { block, .. }
            | ModelEvent::ProviderResult { block, .. } => {
                assert!(open.contains(block), "{event:?}");
            }
            ModelEvent::Close { block } => assert!(open.remove(block), "{event:?}"),
            _ => {}
        }
    }
    open
}
