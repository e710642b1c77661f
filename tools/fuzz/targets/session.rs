//! No snapshot of a session and no page of its ids makes a start panic, and what is read is what
//! was written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    agent::fuzzing::fuzz_snapshot(input);
    agent::fuzzing::fuzz_page(input);
});
