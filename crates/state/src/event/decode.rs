//! Reading a message: whatever its bytes are, there is an answer.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use wire::Position;

use super::{Body, Change, Control, Event, Headers, Operation, Skip};
use crate::{json::Text, name, place};

/// Reads one message of a stream.
///
/// It takes what other writers send beyond the protocol's text (`upsert`, more headers, more
/// fields) and never fails: what it cannot use is [`Body::Skipped`] with the reason. Headers are
/// read even then, so that an event of a later protocol still belongs to its transaction. Of a
/// field that comes twice the last one counts. Values are checked to be JSON and not looked into.
///
/// ```
/// use state::{Body, Skip, decode};
///
/// let event = decode(br#"{"headers":{"operation":"increment","txid":"t1"}}"#);
/// assert!(matches!(event.body, Body::Skipped(Skip::UnknownOperation)));
/// assert_eq!(event.headers.txid.as_deref(), Some("t1"));
/// ```
#[must_use]
pub fn decode(message: &[u8]) -> Event<'_> {
    match parse(message) {
        Ok(envelope) => envelope.into_event(),
        Err(reason) => Event { headers: Headers::default(), body: Body::Skipped(reason) },
    }
}

fn parse(message: &[u8]) -> Result<Envelope<'_>, Skip> {
    let text = std::str::from_utf8(message).map_err(|_| Skip::NotJson)?;
    if text.trim_ascii_start().starts_with('{') {
        // Headers are all that is asked to have a shape.
        return serde_json::from_str(text)
            .map_err(|error| if error.is_data() { Skip::NoHeaders } else { Skip::NotJson });
    }
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Err(Skip::NotAnObject),
        Err(_) => Err(Skip::NotJson),
    }
}

/// The fields of a message before they are judged.
#[derive(Default)]
struct Envelope<'a> {
    type_name: Option<&'a RawValue>,
    key: Option<&'a RawValue>,
    value: Option<&'a RawValue>,
    old_value: Option<&'a RawValue>,
    headers: Option<RawHeaders<'a>>,
}

#[derive(Default)]
struct RawHeaders<'a> {
    operation: Option<&'a RawValue>,
    control: Option<&'a RawValue>,
    headers: Headers<'a>,
}

impl<'a> Envelope<'a> {
    fn into_event(mut self) -> Event<'a> {
        let Some(raw) = self.headers.take() else {
            return Event { headers: Headers::default(), body: Body::Skipped(Skip::NoHeaders) };
        };
        let body = match (raw.operation, raw.control) {
            (Some(operation), _) => self.change(operation).map(Body::Change),
            (None, Some(control)) => read_control(control).map(Body::Control),
            (None, None) => Err(Skip::NoKind),
        };
        Event { headers: raw.headers, body: body.unwrap_or_else(Body::Skipped) }
    }

    fn change(self, operation: &'a RawValue) -> Result<Change<'a>, Skip> {
        let operation = string(operation)
            .and_then(|word| Operation::from_wire(&word))
            .ok_or(Skip::UnknownOperation)?;
        let value = match operation {
            Operation::Delete => None,
            _ => Some(self.value.ok_or(Skip::NoValue)?),
        };
        Ok(Change {
            type_name: self.type_name.and_then(checked_name).ok_or(Skip::BadType)?,
            key: self.key.and_then(checked_name).ok_or(Skip::BadKey)?,
            operation,
            value,
            old_value: self.old_value,
        })
    }
}

fn read_control(raw: &RawValue) -> Result<Control, Skip> {
    string(raw).and_then(|word| Control::from_wire(&word)).ok_or(Skip::UnknownControl)
}

fn checked_name(raw: &RawValue) -> Option<Cow<'_, str>> {
    string(raw).filter(|text| name::check(text).is_ok())
}

fn position(raw: &RawValue) -> Option<Position> {
    string(raw).and_then(|text| place::read(&text))
}

/// The text of a JSON string; none if the value is something else or no Unicode text.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a change or a control")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(Text(field)) = map.next_key()? {
            match &*field {
                "type" => envelope.type_name = Some(map.next_value()?),
                "key" => envelope.key = Some(map.next_value()?),
                "value" => envelope.value = Some(map.next_value()?),
                "old_value" => envelope.old_value = Some(map.next_value()?),
                "headers" => envelope.headers = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(envelope)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawHeaders<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = RawHeaders<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeaders<'de>, A::Error> {
        let mut raw = RawHeaders::default();
        while let Some(Text(name)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            match &*name {
                "operation" => raw.operation = Some(value),
                "control" => raw.control = Some(value),
                "txid" => raw.headers.txid = checked_name(value),
                "timestamp" => raw.headers.timestamp = string(value),
                "offset" => raw.headers.offset = string(value),
                place::POSITION => raw.headers.position = position(value),
                place::INSERTED => raw.headers.inserted = position(value),
                _ => raw.headers.other.push((name, value)),
            }
        }
        Ok(raw)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::caps::NAME_BYTES_MAX;

    /// What a message comes to, in short.
    fn gist(message: &str) -> String {
        match decode(message.as_bytes()).body {
            Body::Change(change) => {
                let value = change.value.map_or("-", RawValue::get);
                format!("{} {}/{} {value}", change.operation, change.type_name, change.key)
            }
            Body::Control(control) => control.to_string(),
            Body::Skipped(reason) => format!("{reason:?}"),
        }
    }

    #[test]
    fn the_protocols_own_examples_are_understood() {
        let rows = [
            (
                r#"{"type":"user","key":"user:123","value":{"name":"Alice"},
                    "headers":{"operation":"insert","timestamp":"2025-01-15T10:30:00Z"}}"#,
                r#"insert user/user:123 {"name":"Alice"}"#,
            ),
            (
                r#"{"type":"user","key":"user:123","value":{"n":2},"old_value":{"n":1},
                    "headers":{"operation":"update"}}"#,
                r#"update user/user:123 {"n":2}"#,
            ),
            (
                r#"{"type":"user","key":"1","old_value":{},"headers":{"operation":"delete"}}"#,
                "delete user/1 -",
            ),
            (
                r#"{"type":"user","key":"1","value":null,"headers":{"operation":"delete"}}"#,
                "delete user/1 -",
            ),
            (
                r#"{"type":"config","key":"theme","value":"dark",
                    "headers":{"operation":"insert"}}"#,
                r#"insert config/theme "dark""#,
            ),
            (r#"{"headers":{"control":"snapshot-start","offset":"1_0"}}"#, "snapshot-start"),
            (r#"{"headers":{"control":"snapshot-end","offset":"1_7"}}"#, "snapshot-end"),
            (r#"{"headers":{"control":"reset","offset":"1_0"}}"#, "reset"),
            (r#"{"headers":{"control":"reset"}}"#, "reset"),
        ];
        for (message, expected) in rows {
            assert_eq!(gist(message), expected, "{message}");
        }
    }

    #[test]
    fn more_than_the_protocol_is_tolerated() {
        let rows = [
            // An operation and headers that its implementations have and its text lacks.
            (
                r#"{"type":"a","key":"b","value":1,
                    "headers":{"operation":"upsert","from":"x","offset":"1_0","new":{"a":[1]}}}"#,
                "upsert a/b 1",
            ),
            // Fields that it does not know.
            (
                r#"{"v":2,"type":"a","key":"b","value":1,"headers":{"operation":"insert"},"z":[]}"#,
                "insert a/b 1",
            ),
            // Any order, any escapes, any value.
            (
                r#"{"headers":{"operation":"\u0069nsert"},
                    "value":null,"\u006bey":"\"","type":"a"}"#,
                "insert a/\" null",
            ),
            // The last of two counts.
            (
                r#"{"type":"a","type":"z","key":"b","value":1,"headers":{"operation":"insert"}}"#,
                "insert z/b 1",
            ),
            // A txid and a timestamp that break the rules do not cost us the row.
            (
                r#"{"type":"a","key":"b","value":1,
                    "headers":{"operation":"update","txid":"","timestamp":5}}"#,
                "update a/b 1",
            ),
            // A change that also names a control is a change.
            (
                r#"{"type":"a","key":"b","headers":{"operation":"delete","control":"reset"}}"#,
                "delete a/b -",
            ),
        ];
        for (message, expected) in rows {
            assert_eq!(gist(message), expected, "{message}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_skipped_with_a_reason() {
        let change = |fields: &str| format!(r#"{{{fields},"headers":{{"operation":"insert"}}}}"#);
        let long = "k".repeat(NAME_BYTES_MAX + 1);
        let rows = [
            (String::new(), "NotJson"),
            ("{".into(), "NotJson"),
            (r#"{"headers":{}} 1"#.into(), "NotJson"),
            (r#"{"headers":{"a":}}"#.into(), "NotJson"),
            ("nul".into(), "NotJson"),
            ("[1]".into(), "NotAnObject"),
            (" \"text\" ".into(), "NotAnObject"),
            ("null".into(), "NotAnObject"),
            ("{}".into(), "NoHeaders"),
            (r#"{"headers":null}"#.into(), "NoHeaders"),
            (r#"{"headers":[]}"#.into(), "NoHeaders"),
            (r#"{"headers":"insert"}"#.into(), "NoHeaders"),
            (r#"{"type":"a","key":"b","value":1,"headers":{}}"#.into(), "NoKind"),
            (r#"{"headers":{"operation":"merge"}}"#.into(), "UnknownOperation"),
            (r#"{"headers":{"operation":"INSERT"}}"#.into(), "UnknownOperation"),
            (r#"{"headers":{"operation":null}}"#.into(), "UnknownOperation"),
            (r#"{"headers":{"control":"up-to-date"}}"#.into(), "UnknownControl"),
            (r#"{"headers":{"control":7}}"#.into(), "UnknownControl"),
            (change(r#""key":"b","value":1"#), "BadType"),
            (change(r#""type":"","key":"b","value":1"#), "BadType"),
            (change(r#""type":5,"key":"b","value":1"#), "BadType"),
            (change(r#""type":"a","value":1"#), "BadKey"),
            (change(r#""type":"a","key":"","value":1"#), "BadKey"),
            (change(r#""type":"a","key":["b"],"value":1"#), "BadKey"),
            (change(r#""type":"a","key":"\ud800","value":1"#), "BadKey"),
            (change(&format!(r#""type":"a","key":"{long}","value":1"#)), "BadKey"),
            (change(r#""type":"a","key":"b""#), "NoValue"),
        ];
        for (message, expected) in rows {
            assert_eq!(gist(&message), expected, "{message}");
        }
        assert!(matches!(decode(b"{\"a\":\"\xff\"}").body, Body::Skipped(Skip::NotJson)));
    }

    #[test]
    fn headers_survive_a_body_that_is_skipped() {
        let event = decode(br#"{"headers":{"operation":"?","txid":"t","from":"x","from":"y"}}"#);
        assert_eq!(event.headers.txid.as_deref(), Some("t"));
        assert_eq!(event.headers.get("from").unwrap().get(), "\"y\"");
        assert_eq!(event.headers.other().count(), 2);
        assert!(event.headers.get("operation").is_none());
    }

    #[test]
    fn depth_does_not_matter() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        for fields in [
            format!(r#""value":{deep}"#),
            format!(r#""value":1,"extra":{deep}"#),
            format!(r#""value":1,"old_value":{deep}"#),
        ] {
            let message =
                format!(r#"{{"type":"a","key":"b",{fields},"headers":{{"operation":"insert"}}}}"#);
            assert!(matches!(decode(message.as_bytes()).body, Body::Change(_)));
        }
        assert_eq!(gist(&deep), "NotAnObject");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn any_damage_is_answered(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut message = br#"{"type":"a","key":"b\n","value":{"c":[1,"\u00e9"]},"old_value":1,
                "headers":{"operation":"update","txid":"t","offset":"1_0","x":2}}"#.to_vec();
            let at = at.index(message.len());
            message[at] = byte;
            let _ = decode(&message);
            let _ = decode(&message[..at]);
        }
    }
}
