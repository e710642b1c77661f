//! No body that claims to be a shape's log makes its reader panic, and events are the same wherever
//! they are cut. The first line is the schema.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let line = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (schema, body) = input.split_at(line);
    let body = body.strip_prefix(b"\n").unwrap_or(body);
    let at = body.first().map_or(0, |byte| usize::from(*byte));
    source_electric::fuzzing::read(&String::from_utf8_lossy(schema), body, at);
});
