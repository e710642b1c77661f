//! HTTP/2 as it stands on the wire, for clients that no library would let us be.

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM_AND_HEADERS: u8 = 5;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header that is in no table.
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// How a connection begins on which each answer may have this many bytes under way.
pub(crate) fn preface(window: u32) -> Vec<u8> {
    let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window.to_be_bytes()].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &setting)].concat()
}

/// A whole request.
pub(crate) fn get(stream: u32, target: &str) -> Vec<u8> {
    get_with(stream, target, &[])
}

/// The same with headers.
pub(crate) fn get_with(stream: u32, target: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let head = [
        literal(":method", "GET"),
        literal(":scheme", "http"),
        literal(":authority", "localhost"),
        literal(":path", target),
    ];
    let more = headers.iter().flat_map(|(name, value)| literal(name, value));
    let head: Vec<u8> = head.concat().into_iter().chain(more).collect();
    frame(HEADERS, END_STREAM_AND_HEADERS, stream, &head)
}
