//! What the fuzz target may reach.

use crate::{message, schema::Columns, sse::Events};

/// Reads the messages of a body, as it is and as events cut at `at`, and their rows by a schema.
///
/// # Panics
/// If the events are others than those of the body in one piece.
pub fn read(schema: &str, body: &[u8], at: usize) {
    let columns = Columns::parse(schema).unwrap_or_default();
    let read = |message| {
        if let message::Message::Change(change) = message {
            let _ = columns.read(change.value);
        }
    };
    message::parse_all(body).into_iter().flatten().for_each(read);
    let whole = Events::default().push(body).ok();
    let (first, second) = body.split_at(at.min(body.len()));
    let mut events = Events::default();
    let pieces: Option<Vec<_>> =
        [first, second].map(|piece| events.push(piece).ok()).into_iter().collect();
    assert_eq!(whole, pieces.map(|pieces| pieces.concat()));
    let events = whole.into_iter().flatten();
    events.filter_map(|event| message::parse_one(&event).ok()).for_each(read);
}
