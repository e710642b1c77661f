//! A side with a known fault, to see that it is found.

use anyhow::Result;
use serde_json::Value;

use super::side::{Conversation, Side};

/// Answers like another side, but loses a row of every live query that has three.
#[derive(Debug)]
pub(super) struct Liar<S>(pub(super) S);

impl<S: Side> Side for Liar<S> {
    fn converse(&mut self, lines: &[String]) -> Result<Conversation> {
        let mut conversation = self.0.converse(lines)?;
        for reply in &mut conversation.replies {
            if let Ok(mut json) = serde_json::from_str(reply)
                && lose_a_row(&mut json)
            {
                *reply = json.to_string();
            }
        }
        Ok(conversation)
    }
}

fn lose_a_row(reply: &mut Value) -> bool {
    let dumps = reply.get_mut("rows").and_then(Value::as_object_mut).into_iter().flatten();
    let queries = dumps.filter(|(name, _)| name.starts_with('q'));
    let results = queries.filter_map(|(_, rows)| rows.as_array_mut());
    let mut lost = results.filter(|rows| rows.len() == 3).map(Vec::pop);
    lost.next().is_some()
}
