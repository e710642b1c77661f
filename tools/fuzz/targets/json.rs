//! JSON mode accepts exactly what a JSON parser accepts, and gives back the same values.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    let body = bytes::Bytes::copy_from_slice(input);
    let Ok(messages) = wire::json::split(&body) else { return };
    let joined = wire::json::join([&messages]);
    let again = wire::json::split(&joined).expect("what was split can be joined");
    assert_eq!(messages, again, "a round trip changed the messages");
    // The oracle has its own depth limit, so it may refuse what is valid; never the other way.
    if let Ok(value) = serde_json::from_slice::<Value>(input) {
        let count = value.as_array().map_or(1, Vec::len);
        assert_eq!(messages.len(), count, "one message for each value");
    }
});
