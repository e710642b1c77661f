//! Matching ends, whatever the stars, and a pattern without stars matches only itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Glob, StreamPath};

fuzz_target!(|input: (&str, &str)| {
    let (Ok(glob), Ok(path)) = (input.0.parse::<Glob>(), input.1.parse::<StreamPath>()) else {
        return;
    };
    let matches = glob.matches(&path);
    if !glob.as_str().contains('*') {
        assert_eq!(matches, glob.as_str() == path.as_str());
    }
    assert!(Glob::everything().matches(&path));
});
