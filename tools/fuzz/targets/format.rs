//! No FORMAT file makes a start panic, and a whole first copy is enough, whatever
//! stands in the second.

#![no_main]

use libfuzzer_sys::fuzz_target;

/// A copy as it should be, and its salt.
const WHOLE: &[u8] = b"headwater log, format 1\nsalt 47329fd2\ncrc 08aed13f\n";
const SALT: u32 = 0x4732_9fd2;

fuzz_target!(|input: (Option<&[u8]>, Option<&[u8]>)| {
    let (first, second) = input;
    let _ = log::file::fuzzing::format(first, second);
    let beside = log::file::fuzzing::format(Some(WHOLE), first);
    assert_eq!(beside, Some(SALT), "a whole copy is not enough beside {first:?}");
});
