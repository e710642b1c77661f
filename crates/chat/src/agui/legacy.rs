//! What the versions before 1.0 wrote otherwise.

use serde_json::{Map, Value};

use crate::Id;

use super::{
    Event, EventKind, ReasoningEnd, ReasoningMessageContent, ReasoningMessageEnd,
    ReasoningMessageStart, ReasoningStart,
};

/// Mends what can be mended without knowing the events before.
pub(super) fn mend(name: &str, fields: &mut Map<String, Value>) {
    // Thoughts were once by the assistant.
    if name == "REASONING_MESSAGE_START" {
        let role = fields.get("role").and_then(Value::as_str);
        if matches!(role, None | Some("assistant")) {
            fields.insert("role".into(), "reasoning".into());
        }
    }
}

/// Reads the `THINKING_*` events of the versions before 1.0 as thoughts.
///
/// Those events name no message, so the thoughts are counted: `thinking-0`, `thinking-1`. The title
/// of thoughts stays among the unknown fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upgrade {
    spans: u64,
    messages: u64,
}

impl Upgrade {
    /// The event in the words of 1.0; `None` if it is in them already, or nobody knows it.
    pub fn read(&mut self, event: &Event) -> Option<Event> {
        let EventKind::Unknown(name) = &event.kind else { return None };
        let mut common = event.common.clone();
        common.others.remove("messageId");
        let kind = match name.as_str() {
            "THINKING_START" => {
                self.spans += 1;
                EventKind::ReasoningStart(ReasoningStart { message_id: named("span", self.spans) })
            }
            "THINKING_END" => {
                EventKind::ReasoningEnd(ReasoningEnd { message_id: named("span", self.spans) })
            }
            "THINKING_TEXT_MESSAGE_START" => {
                self.messages += 1;
                common.others.remove("role");
                EventKind::ReasoningMessageStart(ReasoningMessageStart {
                    message_id: named("thinking", self.messages),
                    role: "reasoning".into(),
                })
            }
            "THINKING_TEXT_MESSAGE_CONTENT" => {
                let Some(Value::String(delta)) = common.others.remove("delta") else { return None };
                let message_id = named("thinking", self.messages);
                EventKind::ReasoningMessageContent(ReasoningMessageContent { message_id, delta })
            }
            "THINKING_TEXT_MESSAGE_END" => EventKind::ReasoningMessageEnd(ReasoningMessageEnd {
                message_id: named("thinking", self.messages),
            }),
            _ => return None,
        };
        Some(Event { kind, common })
    }
}

/// The name of what is the latest of so many.
fn named(what: &str, count: u64) -> Id {
    Id::from(format!("{what}-{}", count.saturating_sub(1)))
}
