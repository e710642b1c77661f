//! No JSON makes the readers of AG-UI panic; what they read they write so that it reads the same;
//! and no events, one in a line, make the checks of their order or the fold of them panic.

#![no_main]

use chat::{
    Transcript, Verifier,
    agui::{Capabilities, Event, Message, RunInput},
    convert, ui,
};
use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let (mut verifier, mut transcript) = (Verifier::new(), Transcript::new());
    for line in input.split(|byte| *byte == b'\n') {
        if let Some(event) = again::<Event>(line) {
            let _ = verifier.push(&event);
            let _ = transcript.push(&event);
        }
        if let Some(message) = again::<Message>(line) {
            let _ = convert::from_agui([&message]);
        }
        if let Some(message) = again::<ui::UiMessage>(line) {
            let _ = ui::from_ui([&message]);
        }
        again::<RunInput>(line);
        again::<Capabilities>(line);
    }
    let messages = transcript.into_messages();
    let _ = convert::from_agui(&convert::to_agui(&messages));
    let _ = ui::from_ui(&ui::to_ui(&messages));
});

/// What was read; written and read again it is the same.
fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(line: &[u8]) -> Option<T> {
    // A field that is there twice is there once.
    let json: Value = serde_json::from_slice(line).ok()?;
    let value: T = serde_json::from_value(json).ok()?;
    let written = serde_json::to_string(&value).expect("it was read from JSON");
    assert_eq!(serde_json::from_str::<T>(&written).expect("it was written"), value);
    Some(value)
}
