//! No path, body or token below `__ds` makes the server panic; what is taken comes back from the
//! diary as it went, and a token that was tampered with opens no other wake.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let (path, body) = input.split_once('\n').unwrap_or((input, ""));
    server::fuzzing::subscription(path, body.as_bytes());
    wake::fuzzing::diary(body.as_bytes());
    let _ = wake::fuzzing::open(path);
    let generation = body.len() as u64;
    let mut token = wake::fuzzing::token(generation).into_bytes();
    let at = path.len() % token.len();
    token[at] = path.bytes().next().unwrap_or(b'0');
    if let Ok(token) = std::str::from_utf8(&token) {
        let opened = wake::fuzzing::open(token);
        assert!(opened.is_none_or(|opened| opened == generation), "{token} opens {opened:?}");
    }
});
