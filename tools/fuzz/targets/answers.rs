//! Whatever a provider says, no decoder panics, and the blocks of a whole answer are balanced.
//!
//! The first byte says which decoder; each line after it is one event.

#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use providers::{
    Decoder,
    anthropic::AnthropicDecoder,
    gemini::GeminiDecoder,
    ollama::OllamaDecoder,
    openai::{ChatDecoder, ResponsesDecoder},
};

fuzz_target!(|input: &str| {
    let Some(which) = input.chars().next() else { return };
    let events = &input[which.len_utf8()..];
    match which {
        'a' => check(AnthropicDecoder::default(), events),
        'c' => check(ChatDecoder::new("c".into()), events),
        'g' => check(GeminiDecoder::default(), events),
        'r' => check(ResponsesDecoder::new("r".into()), events),
        _ => check(OllamaDecoder::new("o".into()), events),
    }
});

fn check(mut decoder: impl Decoder, events: &str) {
    let mut out = Vec::new();
    for data in events.lines() {
        if decoder.push(None, data, &mut out).is_err() {
            return balanced(&out, false);
        }
        if decoder.is_done() {
            break;
        }
    }
    let is_whole = decoder.finish(&mut out).is_ok();
    balanced(&out, is_whole);
}

fn balanced(events: &[chat::ModelEvent], is_whole: bool) {
    let mut open = BTreeSet::new();
    for event in events {
        match event {
            chat::ModelEvent::Open { block, .. } => {
                assert!(open.insert(*block), "two open blocks have one number");
            }
            chat::ModelEvent::More { block, .. }
            | chat::ModelEvent::Sign { block, .. }
            | chat::ModelEvent::ProviderResult { block, .. } => assert!(open.contains(block)),
            chat::ModelEvent::Close { block } => assert!(open.remove(block)),
            _ => {}
        }
    }
    assert!(!is_whole || open.is_empty(), "a whole answer leaves a block open");
}
