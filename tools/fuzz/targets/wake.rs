//! A wake that cannot be read is refused and nothing else; one that can is within its bounds. No
//! signature is right by chance.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sys::{Chance, UnixMs};
use wake::{Announcement, Keys, WakeNotice, caps};

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (header, body) = (&input[..end], &input[(end + 1).min(input.len())..]);
    if let Ok(header) = std::str::from_utf8(header) {
        let (keys, now) = (Keys::generate(&Chance::seeded(1)), UnixMs::new(1_000));
        let keys: Vec<_> = keys.published(now).cloned().collect();
        assert!(wake::verify(header, body, &keys, now, caps::SIGNATURE_TOLERANCE).is_err());
    }
    if let Ok(notice) = WakeNotice::parse(body) {
        assert!(notice.streams.len() <= caps::STREAMS_PER_WAKE_MAX);
        assert!((1..=caps::WAKE_ID_BYTES_MAX).contains(&notice.wake_id.len()));
        assert!(notice.callback_token.len() <= caps::TOKEN_BYTES_MAX);
    }
    let _ = Announcement::parse(body);
});
