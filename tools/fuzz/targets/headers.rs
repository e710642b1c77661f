//! Every header value is refused or understood; what is understood can be written back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{ContentType, Cursor, Expiry, Offset, Producer, ReadFrom, StreamSeq, SubOffset};

fuzz_target!(|input: (&str, Option<&str>, Option<&str>)| {
    let (first, second, third) = input;
    if let Ok(offset) = first.parse::<Offset>() {
        assert_eq!(offset.to_string(), first);
    }
    let _ = first.parse::<ReadFrom>();
    if let Ok(sub_offset) = first.parse::<SubOffset>() {
        assert_eq!(sub_offset.get().to_string(), first);
    }
    if let Ok(content_type) = first.parse::<ContentType>() {
        assert_eq!(content_type.to_string().parse::<ContentType>(), Ok(content_type));
    }
    if let Ok(seq) = first.parse::<StreamSeq>() {
        assert_eq!(seq.as_str(), first);
    }
    if let Ok(Some(producer)) = Producer::from_headers(Some(first), second, third) {
        assert_eq!(Some(producer.epoch.to_string().as_str()), second);
        assert_eq!(Some(producer.seq.to_string().as_str()), third);
    }
    if let Ok(Expiry::At(time)) = Expiry::from_headers(second, third) {
        assert_eq!(time.to_string().parse(), Ok(time));
    }
    let _ = Cursor::next(1_800_000_000_000, second, |bound| bound - 1).to_string();
});
