//! Writing an event: what can be drafted is valid.

use serde_json::Value;
use wire::{BadMessages, Messages, Timestamp};

use super::Operation;
use crate::{BadPatch, Json, Key, TxId, TypeName, place};

/// A change event on its way to a stream.
///
/// ```
/// use state::{Draft, Json, Key, TxId, TypeName};
///
/// let ada: Json = r#"{"a":36}"#.parse()?;
/// let draft = Draft::insert(TypeName::new("user")?, Key::new("1")?, ada);
/// assert_eq!(
///     draft.txid(TxId::new("t")?).encode(),
///     r#"{"type":"user","key":"1","value":{"a":36},"headers":{"operation":"insert","txid":"t"}}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Draft {
    type_name: TypeName,
    key: Key,
    operation: Operation,
    value: Option<Json>,
    old_value: Option<Json>,
    txid: Option<TxId>,
    timestamp: Option<Timestamp>,
    headers: Vec<(Box<str>, Box<str>)>,
}

/// A header that a draft sets by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header {0:?} is not free: the protocol gives it a meaning")]
pub struct BadHeader(pub String);

const RESERVED: [&str; 7] =
    ["operation", "control", "txid", "timestamp", "offset", place::POSITION, place::INSERTED];

impl Draft {
    /// A new row.
    pub fn insert(type_name: TypeName, key: Key, value: Json) -> Self {
        Self::new(type_name, key, Operation::Insert, Some(value), None)
    }

    /// A row that replaces the one of the same key.
    pub fn update(type_name: TypeName, key: Key, value: Json) -> Self {
        Self::new(type_name, key, Operation::Update, Some(value), None)
    }

    /// An update that also says what it replaces, for audits.
    pub fn update_from(type_name: TypeName, key: Key, old: Json, new: Json) -> Self {
        Self::new(type_name, key, Operation::Update, Some(new), Some(old))
    }

    /// A row that is new or replaces the one of the same key. Readers that go by the letter of the
    /// protocol refuse it; prefer insert or update if you know which it is.
    pub fn upsert(type_name: TypeName, key: Key, value: Json) -> Self {
        Self::new(type_name, key, Operation::Upsert, Some(value), None)
    }

    /// The end of a row.
    pub fn delete(type_name: TypeName, key: Key) -> Self {
        Self::new(type_name, key, Operation::Delete, None, None)
    }

    /// A delete that also says what it ends, for audits.
    pub fn delete_of(type_name: TypeName, key: Key, old: Json) -> Self {
        Self::new(type_name, key, Operation::Delete, None, Some(old))
    }

    /// An update made by merging a patch into the row as it is ([`Json::merge`]): fields that the
    /// patch does not name, known or not, survive.
    ///
    /// # Errors
    /// If the patch cannot be applied.
    pub fn patch(
        type_name: TypeName,
        key: Key,
        row: &Json,
        patch: &Json,
    ) -> Result<Self, BadPatch> {
        Ok(Self::update(type_name, key, row.merge(patch)?))
    }

    fn new(
        type_name: TypeName,
        key: Key,
        operation: Operation,
        value: Option<Json>,
        old_value: Option<Json>,
    ) -> Self {
        let headers = Vec::new();
        Self { type_name, key, operation, value, old_value, txid: None, timestamp: None, headers }
    }

    /// Makes it part of a transaction.
    pub fn txid(mut self, txid: TxId) -> Self {
        self.txid = Some(txid);
        self
    }

    /// Says when it happened.
    pub fn timestamp(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Adds a header of your own, or replaces it. Readers that go by the letter of the protocol
    /// refuse any, so prefer a field of the row.
    ///
    /// # Errors
    /// If the protocol gives the header a meaning.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, BadHeader> {
        if RESERVED.contains(&name) {
            return Err(BadHeader(name.into()));
        }
        self.headers.retain(|(other, _)| &**other != name);
        self.headers.push((name.into(), value.into()));
        Ok(self)
    }

    /// The row it is about.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The collection of that row.
    #[must_use]
    pub fn type_name(&self) -> &TypeName {
        &self.type_name
    }

    /// The message.
    #[must_use]
    pub fn encode(&self) -> String {
        let values =
            [&self.value, &self.old_value].map(|v| v.as_ref().map_or(0, |v| v.as_str().len()));
        let mut out = String::with_capacity(values.iter().sum::<usize>() + 160);
        out.push_str("{\"type\":");
        push_string(&mut out, self.type_name.as_str());
        out.push_str(",\"key\":");
        push_string(&mut out, self.key.as_str());
        for (field, value) in [(",\"value\":", &self.value), (",\"old_value\":", &self.old_value)] {
            if let Some(value) = value {
                out.push_str(field);
                out.push_str(value.as_str());
            }
        }
        out.push_str(",\"headers\":{\"operation\":");
        push_string(&mut out, self.operation.as_str());
        if let Some(txid) = &self.txid {
            push_header(&mut out, "txid", txid.as_str());
        }
        if let Some(timestamp) = self.timestamp {
            push_header(&mut out, "timestamp", &timestamp.to_string());
        }
        for (name, value) in &self.headers {
            push_header(&mut out, name, value);
        }
        out.push_str("}}");
        out
    }
}

/// Encodes drafts as one transaction: all with this txid, to be appended at once, so that every
/// reader sees them as one tick.
///
/// # Errors
/// If they do not fit one append.
pub fn transaction(
    txid: &TxId,
    drafts: impl IntoIterator<Item = Draft>,
) -> Result<Messages, BadMessages> {
    let messages: Vec<String> =
        drafts.into_iter().map(|draft| draft.txid(txid.clone()).encode()).collect();
    Messages::copied(messages.iter().map(String::as_bytes))
}

fn push_header(out: &mut String, name: &str, value: &str) {
    out.push(',');
    push_string(out, name);
    out.push(':');
    push_string(out, value);
}

fn push_string(out: &mut String, text: &str) {
    let plain = text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    if plain {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> Draft {
        Draft::delete("a".parse().unwrap(), "b".parse().unwrap())
    }

    #[test]
    fn strict_drafts_hold_nothing_but_the_protocol() {
        assert_eq!(draft().encode(), r#"{"type":"a","key":"b","headers":{"operation":"delete"}}"#);
    }

    #[test]
    fn reserved_headers_are_refused() {
        for name in RESERVED {
            assert_eq!(draft().header(name, "x").unwrap_err(), BadHeader(name.into()));
        }
        let twice = draft().header("from", "x").unwrap().header("from", "\"\u{1}").unwrap();
        assert!(twice.encode().ends_with(r#""delete","from":"\"\u0001"}}"#), "{twice:?}");
    }

    #[test]
    fn a_patch_is_an_update_with_the_whole_row() {
        let row: Json = r#"{"known":1,"unknown":2.0}"#.parse().unwrap();
        let patch: Json = r#"{"known":3}"#.parse().unwrap();
        let draft = Draft::patch("a".parse().unwrap(), "b".parse().unwrap(), &row, &patch).unwrap();
        let expected = r#""value":{"known":3,"unknown":2.0},"headers":{"operation":"update"}"#;
        assert!(draft.encode().contains(expected), "{draft:?}");
    }

    #[test]
    fn a_transaction_is_one_append_of_one_txid() {
        let txid = TxId::new("t").unwrap();
        let messages = transaction(&txid, [draft(), draft().txid("u".parse().unwrap())]).unwrap();
        for message in messages.iter() {
            assert_eq!(super::super::decode(message).headers.txid.as_deref(), Some("t"));
        }
        assert_eq!(messages.len(), 2);
    }
}
