//! No file that claims to be a copy of rows makes its reader panic, also if its checksum is right.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| live::fuzzing::fuzz_copy(input));
