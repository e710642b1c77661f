//! What our own events say in their metadata, beyond what AG-UI has words for.
//!
//! All of it stands under one key. Readers that do not know it lose nothing but the grouping of
//! blocks into one message and the finer ends of a call.

use serde_json::{Map, Value};

use super::Event;

/// The key of `metadata` that everything else here stands under.
pub const KEY: &str = "headwater";
/// The message that a block belongs to, on the events that start a text or thoughts.
pub const MESSAGE_ID: &str = "messageId";
/// How a call ended, on its result: `failed`, `denied` or `cancelled`.
pub const END: &str = "end";
/// What the provider's wire says of a call that the provider ran, on the end of the call.
pub const PROVIDER_RESULT: &str = "providerResult";
/// Whether the provider keeps the thoughts to itself, on the start of their message.
pub const REDACTED: &str = "redacted";
/// The subagent that said it, on a message.
pub const SUBAGENT_RUN_ID: &str = "subagentRunId";
/// What the provider wants to see again, where a front end has no field for it.
pub const SIGNATURE: &str = "signature";
/// Who a message is by, where a front end knows fewer.
pub const ROLE: &str = "role";

/// The name of the custom event that tells of arguments that a person has changed:
/// `{ "toolCallId": .., "arguments": .. }`.
pub const EDITED: &str = "headwater.tool-call-edited";

/// What the metadata of an event says under one of the names above.
#[must_use]
pub fn get<'a>(event: &'a Event, name: &str) -> Option<&'a Value> {
    event.common.metadata.as_ref().and_then(|metadata| find(metadata, name))
}

/// The same for metadata of a message or a call.
#[must_use]
pub fn find<'a>(metadata: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    metadata.get(KEY)?.get(name)
}

/// Says it in metadata; what else stands there is kept.
pub fn set(metadata: &mut Map<String, Value>, name: &str, value: Value) {
    let ours = metadata.entry(KEY).or_insert_with(|| Value::Object(Map::new()));
    if !ours.is_object() {
        *ours = Value::Object(Map::new());
    }
    if let Value::Object(ours) = ours {
        ours.insert(name.to_owned(), value);
    }
}

/// Takes it out of metadata.
pub fn take(metadata: &mut Map<String, Value>, name: &str) -> Option<Value> {
    let Some(Value::Object(ours)) = metadata.get_mut(KEY) else { return None };
    let value = ours.remove(name);
    if ours.is_empty() {
        metadata.remove(KEY);
    }
    value
}

/// Says it in an event.
#[must_use]
pub fn with(mut event: Event, name: &str, value: Value) -> Event {
    set(event.common.metadata.get_or_insert_default(), name, value);
    event
}
