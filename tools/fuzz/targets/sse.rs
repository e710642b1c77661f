//! No message can forge an event: a reader gets back exactly one, with the message in it.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use wire::{Messages, sse};

fuzz_target!(|text: &str| {
    let Ok(message) = Messages::one(bytes::Bytes::copy_from_slice(text.as_bytes())) else { return };
    let mut frame = BytesMut::new();
    sse::write_data(&mut frame, sse::Encoding::Text, &[message]);
    let frame = std::str::from_utf8(&frame).expect("text stays text");
    let body = frame.strip_prefix("event: data\n").and_then(|rest| rest.strip_suffix("\n\n"));
    let lines = body.expect("one event").split('\n').map(|line| {
        let data = line.strip_prefix("data:").expect("only data lines");
        data.strip_prefix(' ').unwrap_or(data)
    });
    let read = lines.collect::<Vec<_>>().join("\n");
    assert!(!read.contains('\r'));
    assert_eq!(read, text.replace("\r\n", "\n").replace('\r', "\n"));
});
