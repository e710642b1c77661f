//! No body that is sent as gzip makes the server panic or hold more than it may, and one that was
//! packed comes out as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| server::fuzzing::gzip(input));
