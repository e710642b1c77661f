//! Framed bodies and server-sent events as they are read: whatever comes is read or refused, in one
//! piece or in many, and what was read is written the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{framing, sse::EventReader};

const EVENT_BYTES_MAX: usize = 256;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(messages) = framing::split(bytes) {
        assert_eq!(&framing::join([&messages])[..], bytes);
    }
    let whole = read(bytes, bytes.len().max(1));
    let piece = bytes.first().map_or(1, |byte| usize::from(*byte % 7) + 1);
    let pieces = read(bytes, piece);
    // A piece may bring an error before the events that would have come with it.
    assert!(whole.starts_with(&pieces) || pieces.starts_with(&whole));
});

fn read(bytes: &[u8], piece: usize) -> Vec<(String, String)> {
    let mut reader = EventReader::new(EVENT_BYTES_MAX);
    let mut events = Vec::new();
    for piece in bytes.chunks(piece) {
        reader.push(piece);
        loop {
            match reader.next_event() {
                Ok(Some(event)) => events.push((event.kind, event.data)),
                Ok(None) => break,
                Err(_) => return events,
            }
        }
    }
    events
}
