//! No bytes in a checkpoint's place make recovery panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| log::file::fuzzing::checkpoint_entry(input));
