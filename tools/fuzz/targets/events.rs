//! Wherever the bytes of an answer are cut, the same events and lines come out.

#![no_main]

use libfuzzer_sys::fuzz_target;
use providers::{
    lines::Lines,
    sse::{BadFrame, Sse},
};

type Events = Result<Vec<(Option<String>, String)>, BadFrame>;

fuzz_target!(|input: &[u8]| {
    let Some((size, bytes)) = input.split_first() else { return };
    let size = usize::from(*size).max(1);
    assert_eq!(events(bytes, size), events(bytes, bytes.len().max(1)));
    assert_eq!(lines(bytes, size), lines(bytes, bytes.len().max(1)));
});

fn events(bytes: &[u8], size: usize) -> Events {
    let (mut sse, mut seen) = (Sse::default(), Vec::new());
    for piece in bytes.chunks(size) {
        sse.push(piece, |name, data| {
            seen.push((name.map(str::to_owned), data.to_owned()));
            Ok::<_, BadFrame>(())
        })?;
    }
    Ok(seen)
}

fn lines(bytes: &[u8], size: usize) -> Events {
    let (mut lines, mut seen) = (Lines::default(), Vec::new());
    let mut each = |line: &str| {
        seen.push((None, line.to_owned()));
        Ok::<_, BadFrame>(())
    };
    for piece in bytes.chunks(size) {
        lines.push(piece, &mut each)?;
    }
    lines.finish(&mut each)?;
    Ok(seen)
}
