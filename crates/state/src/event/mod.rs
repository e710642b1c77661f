//! Events of the State Protocol: changes of rows, and controls.

mod decode;
mod draft;

use std::{borrow::Cow, fmt};

use serde_json::value::RawValue;
use wire::{Offset, Position};

pub use decode::decode;
pub use draft::{BadHeader, Draft, transaction};

/// What one message says, borrowed from its bytes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// Who, when, and as part of what. Empty if the message has no readable headers.
    pub headers: Headers<'a>,
    /// What happened.
    pub body: Body<'a>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// A row changed.
    Change(Change<'a>),
    /// The stream itself has something to say.
    Control(Control),
    /// Nothing that this fold understands. Later versions may, so the stream goes on.
    Skipped(Skip),
}

/// A change of one row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change<'a> {
    /// Its collection.
    pub type_name: Cow<'a, str>,
    /// Its key.
    pub key: Cow<'a, str>,
    /// What the writer meant to do.
    pub operation: Operation,
    /// The whole new row; none exactly if the operation is [`Operation::Delete`].
    pub value: Option<&'a RawValue>,
    /// The row before, as the writer saw it. The fold trusts its own memory instead.
    pub old_value: Option<&'a RawValue>,
}

/// The headers of an event.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Headers<'a> {
    /// The transaction. A txid that is empty, too long or no string counts as none.
    pub txid: Option<Cow<'a, str>>,
    /// When it happened, as the writer wrote it.
    pub timestamp: Option<Cow<'a, str>>,
    /// The offset that a server noted, or that a control refers to.
    pub offset: Option<Cow<'a, str>>,
    /// Where the message stood before a snapshot wrote it again; see [`Places`](crate::Places).
    pub position: Option<Position>,
    /// Where the row was made that a snapshot wrote again.
    pub inserted: Option<Position>,
    other: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Headers<'a> {
    /// A header that the protocol does not know, such as `from`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.other().rev().find_map(|(other, value)| (other == name).then_some(value))
    }

    /// All headers that the protocol does not know, in their order.
    pub fn other(&self) -> impl DoubleEndedIterator<Item = (&str, &'a RawValue)> {
        self.other.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

/// What a writer does to a row. To the fold the first three are one: the row is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The row is new.
    Insert,
    /// The row is replaced, not merged.
    Update,
    /// The row is new or replaced. The protocol's text lacks it, its implementations have it.
    Upsert,
    /// The row is gone.
    Delete,
}

/// A signal about the stream as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// All rows are void.
    Reset,
    /// A complete snapshot of the state begins; a hint, unless it says how far it reaches.
    SnapshotStart,
    /// It ends here; a hint, no more.
    SnapshotEnd,
}

/// Why a message was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Skip {
    /// Not JSON.
    #[error("the message is not JSON")]
    NotJson,
    /// JSON, but no object.
    #[error("the message is not a JSON object")]
    NotAnObject,
    /// Without `headers`, or they are no object.
    #[error("the message has no headers")]
    NoHeaders,
    /// Neither `headers.operation` nor `headers.control`.
    #[error("the message is neither a change nor a control")]
    NoKind,
    /// An operation of a later protocol, or none at all.
    #[error("the operation is not known")]
    UnknownOperation,
    /// A control of a later protocol, or none at all.
    #[error("the control is not known")]
    UnknownControl,
    /// `type` is missing, empty, too long or no string.
    #[error("the change has no usable type")]
    BadType,
    /// `key` is missing, empty, too long or no string.
    #[error("the change has no usable key")]
    BadKey,
    /// Everything but a delete needs a `value`.
    #[error("the change has no value")]
    NoValue,
}

impl Operation {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Upsert => "upsert",
            Self::Delete => "delete",
        }
    }

    fn from_wire(word: &str) -> Option<Self> {
        [Self::Insert, Self::Update, Self::Upsert, Self::Delete]
            .into_iter()
            .find(|operation| operation.as_str() == word)
    }
}

impl Control {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::SnapshotStart => "snapshot-start",
            Self::SnapshotEnd => "snapshot-end",
        }
    }

    /// The message that says so.
    #[must_use]
    pub fn encode(self) -> String {
        format!(r#"{{"headers":{{"control":"{self}"}}}}"#)
    }

    /// The message that says so of a place in the stream.
    #[must_use]
    pub fn encode_at(self, offset: Offset) -> String {
        format!(r#"{{"headers":{{"control":"{self}","offset":"{offset}"}}}}"#)
    }

    fn from_wire(word: &str) -> Option<Self> {
        [Self::Reset, Self::SnapshotStart, Self::SnapshotEnd]
            .into_iter()
            .find(|control| control.as_str() == word)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;
    use wire::Timestamp;

    use super::*;
    use crate::{Json, Key, TxId, TypeName, testing::any_json};

    #[test]
    fn controls_round_trip() {
        for control in [Control::Reset, Control::SnapshotStart, Control::SnapshotEnd] {
            let plain = control.encode();
            let event = decode(plain.as_bytes());
            assert!(matches!(event.body, Body::Control(read) if read == control), "{event:?}");
            assert_eq!(event.headers.offset, None);

            let placed = control.encode_at(Offset::new(3, 120));
            let event = decode(placed.as_bytes());
            assert!(matches!(event.body, Body::Control(read) if read == control), "{event:?}");
            assert_eq!(event.headers.offset.unwrap(), Offset::new(3, 120).to_string());
        }
    }

    proptest! {
        #[test]
        fn changes_round_trip(
            (type_name, key, txid) in (".{1,9}", ".{1,9}", ".{1,9}"),
            (value, old, from) in (any_json(), any_json(), ".{0,9}"),
            unix_ms in 0..4_000_000_000_000u64,
            which in 0..6,
        ) {
            let name = TypeName::new(&type_name).unwrap();
            let row_key = Key::new(&key).unwrap();
            let row = Json::of(&value).unwrap();
            let before = Json::of(&old).unwrap();
            let draft = match which {
                0 => Draft::insert(name, row_key, row),
                1 => Draft::update(name, row_key, row),
                2 => Draft::update_from(name, row_key, before, row),
                3 => Draft::upsert(name, row_key, row),
                4 => Draft::delete(name, row_key),
                _ => Draft::delete_of(name, row_key, before),
            };
            let time = Timestamp::from_unix_ms(unix_ms);
            let message = draft
                .txid(TxId::new(&txid).unwrap())
                .timestamp(time)
                .header("from", &from)
                .unwrap()
                .encode();
            let Event { headers, body: Body::Change(change) } = decode(message.as_bytes()) else {
                return Err(TestCaseError::fail(message));
            };
            let parse = |raw: Option<&RawValue>| {
                raw.map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap())
            };
            prop_assert_eq!((&*change.type_name, &*change.key), (&*type_name, &*key));
            prop_assert_eq!(parse(change.value), (which < 4).then_some(value));
            prop_assert_eq!(parse(change.old_value), matches!(which, 2 | 5).then_some(old));
            prop_assert_eq!(&*headers.txid.clone().unwrap(), &txid);
            prop_assert_eq!(headers.timestamp.clone().unwrap().parse(), Ok(time));
            prop_assert_eq!(parse(headers.get("from")), Some(Value::from(from)));
        }
    }
}
