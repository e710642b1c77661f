//! No query, header or file of keys makes the server panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (first, second) = input;
    server::fuzzing::request(first, second);
    server::fuzzing::keys(second);
});
