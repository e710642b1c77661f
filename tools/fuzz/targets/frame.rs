//! No bytes in a frame's place make recovery panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| log::file::fuzzing::frame(input));
