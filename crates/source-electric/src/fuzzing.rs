//! What the fuzz target may reach.

use serde_json::Value;

use crate::{message, schema::Columns, sse::Events};

/// The messages of a body, as it is and as events cut at `at`, and their rows by a schema.
pub fn read(schema: &str, body: &[u8], at: usize) {
    let columns = Columns::parse(schema).unwrap_or_default();
    for message in message::parse_all(body).into_iter().flatten() {
        if let message::Message::Change(change) = message {
            let again = columns.read(change.value);
            assert!(again.is_ok_and(|row| row.values().all(is_finite)) || !schema.is_empty());
        }
    }
    let whole = Events::default().push(body);
    let (first, second) = body.split_at(at.min(body.len()));
    let mut events = Events::default();
    let pieces = [events.push(first), events.push(second)];
    let pieces: Result<Vec<_>, _> = pieces.into_iter().collect();
    assert_eq!(whole.ok(), pieces.ok().map(|pieces| pieces.concat()));
    for event in Events::default().push(body).into_iter().flatten() {
        let _ = message::parse_one(&event);
    }
}

fn is_finite(value: &Value) -> bool {
    value.as_f64().is_none_or(f64::is_finite)
}
