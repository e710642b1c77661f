//! Whatever stands on the disk is refused or read, and what is read is written back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| log::file::fuzzing::record(input));
