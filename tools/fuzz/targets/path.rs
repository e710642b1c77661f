//! No URL names a stream outside its root, and every name has one URL that leads back to it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::StreamPath;

fuzz_target!(|raw: &str| {
    let Ok(path) = StreamPath::from_url(raw) else { return };
    assert!(path.segments().all(|s| !s.is_empty() && s != "." && s != ".."), "{path}");
    assert!(!path.as_str().contains(['\0', '\\', '\n', '\r']), "{path}");
    assert!(path.segments().next() != Some("__ds"), "{path}");
    assert_eq!(StreamPath::from_url(&path.to_url()).as_ref(), Ok(&path));
});
