//! Messages of a shape's log.

use serde::Deserialize;
use serde_json::{Map, Value};

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// A row came, changed or went.
    Change(Change),
    /// That was all; the log had come to here.
    UpToDate { lsn: Option<u64> },
    /// The log is given up: everything is to be read again.
    MustRefetch,
    /// The rows of a snapshot end here.
    SnapshotEnd,
    /// Rows came or went because other tables changed, and it is for us to find out which.
    Moved,
    /// Something newer than we are, that is no change.
    Unknown,
}

/// What happened to a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// What the server calls the row.
    pub(crate) key: String,
    pub(crate) operation: Operation,
    /// All columns of a new row, the changed ones of another, the key of one that went; as texts.
    pub(crate) value: Map<String, Value>,
    /// The transactions that did it.
    pub(crate) txids: Vec<u64>,
    /// Where in the database's log it stands.
    pub(crate) lsn: Option<u64>,
}

/// What kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    Insert,
    Update,
    Delete,
}

/// A body that is no list of messages. It never holds what was in there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is no list of messages: {0}")]
pub(crate) struct BadMessages(String);

#[derive(Deserialize)]
struct Raw {
    key: Option<String>,
    value: Option<Map<String, Value>>,
    headers: Headers,
}

#[derive(Deserialize)]
struct Headers {
    operation: Option<Operation>,
    control: Option<String>,
    event: Option<String>,
    #[serde(default)]
    txids: Vec<u64>,
    lsn: Option<Number>,
    global_last_seen_lsn: Option<Number>,
}

/// Servers write these as texts, and wrote them as numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(u64),
    Text(String),
}

impl Number {
    fn get(&self) -> Option<u64> {
        match self {
            Self::Plain(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// All messages of a body. An empty body has none.
pub(crate) fn parse_all(body: &[u8]) -> Result<Vec<Message>, BadMessages> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let raw: Vec<Raw> = serde_json::from_slice(body).map_err(|error| BadMessages::of(&error))?;
    raw.into_iter().map(Message::new).collect()
}

/// The message of one event.
pub(crate) fn parse_one(event: &str) -> Result<Message, BadMessages> {
    let raw = serde_json::from_str(event).map_err(|error| BadMessages::of(&error))?;
    Message::new(raw)
}

impl BadMessages {
    pub(crate) fn number() -> Self {
        Self("what should be a number is none".to_owned())
    }

    pub(crate) fn of(error: &serde_json::Error) -> Self {
        // The text of the error may repeat what is in a row.
        let (line, column) = (error.line(), error.column());
        let what = match error.classify() {
            serde_json::error::Category::Eof => "it ends too soon",
            serde_json::error::Category::Data => "it has another form",
            _ => "it is no JSON",
        };
        Self(format!("{what}, at line {line}, column {column}"))
    }
}

impl Message {
    fn new(raw: Raw) -> Result<Self, BadMessages> {
        let Raw { key, value, headers } = raw;
        if let Some(operation) = headers.operation {
            let (Some(key), Some(value)) = (key, value) else {
                return Err(BadMessages("a change has no key or no value".to_owned()));
            };
            let lsn = headers.lsn.and_then(|lsn| lsn.get());
            return Ok(Self::Change(Change { key, operation, value, txids: headers.txids, lsn }));
        }
        Ok(match (headers.control.as_deref(), headers.event) {
            (Some("up-to-date"), _) => {
                Self::UpToDate { lsn: headers.global_last_seen_lsn.and_then(|lsn| lsn.get()) }
            }
            (Some("must-refetch"), _) => Self::MustRefetch,
            (Some("snapshot-end"), _) => Self::SnapshotEnd,
            (None, Some(_)) => Self::Moved,
            _ => Self::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(json: &str) -> Message {
        let listed = parse_all(format!("[{json}]").as_bytes()).unwrap();
        assert_eq!(listed, [parse_one(json).unwrap()], "{json}");
        listed.into_iter().next().unwrap()
    }

    #[test]
    fn changes() {
        for (word, operation) in [
            ("insert", Operation::Insert),
            ("update", Operation::Update),
            ("delete", Operation::Delete),
        ] {
            let json = format!(
                r#"{{"key":"\"public\".\"t\"/\"1\"","value":{{"id":"1","n":null}},
                    "old_value":{{"n":"2"}},"headers":{{"operation":"{word}","txids":[7,8],
                    "relation":["public","t"],"lsn":"99","op_position":2,"last":true}}}}"#
            );
            let Message::Change(change) = one(&json) else { panic!("{word}") };
            assert_eq!(change.operation, operation);
            assert_eq!(change.key, r#""public"."t"/"1""#);
            assert_eq!(change.txids, [7, 8]);
            assert_eq!(change.lsn, Some(99));
            assert_eq!(Value::Object(change.value), serde_json::json!({"id": "1", "n": null}));
        }
    }

    #[test]
    fn controls() {
        let control = |word: &str| one(&format!(r#"{{"headers":{{"control":"{word}"}}}}"#));
        assert_eq!(control("up-to-date"), Message::UpToDate { lsn: None });
        assert_eq!(control("must-refetch"), Message::MustRefetch);
        assert_eq!(control("snapshot-end"), Message::SnapshotEnd);
        assert_eq!(control("subset-end"), Message::Unknown);
        let told = r#"{"headers":{"control":"up-to-date","global_last_seen_lsn":"12"}}"#;
        assert_eq!(one(told), Message::UpToDate { lsn: Some(12) });
        let told = r#"{"headers":{"control":"up-to-date","global_last_seen_lsn":12}}"#;
        assert_eq!(one(told), Message::UpToDate { lsn: Some(12) });
        let moved = r#"{"headers":{"event":"move-out","patterns":[{"pos":0,"value":"x"}]}}"#;
        assert_eq!(one(moved), Message::Moved);
    }

    #[test]
    fn an_empty_body_has_no_messages() {
        assert_eq!(parse_all(b""), Ok(vec![]));
        assert_eq!(parse_all(b" \n"), Ok(vec![]));
        assert_eq!(parse_all(b"[]"), Ok(vec![]));
    }

    #[test]
    fn what_is_malformed_is_refused_and_not_repeated() {
        for body in [
            "{}",
            "[1]",
            "null",
            "[{}]",
            "[{\"headers\":{\"operation\":\"insert\"}}]",
            "[{\"key\":\"secret\",\"headers\":{\"operation\":\"insert\"}}]",
            "[{\"key\":\"k\",\"value\":\"secret\",\"headers\":{\"operation\":\"insert\"}}]",
            "[{\"headers\":{\"operation\":\"secret\"}}]",
            "[{\"headers\":{\"control\":\"up-to-date\"}}",
            "<html>secret</html>",
        ] {
            let refused = parse_all(body.as_bytes()).unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_body_that_was_cut_anywhere_is_no_other_body() {
        let body = r#"[{"key":"k","value":{"id":"1","t":"ü"},"headers":{"operation":"insert"}},
            {"headers":{"control":"up-to-date"}}]"#;
        assert_eq!(parse_all(body.as_bytes()).unwrap().len(), 2);
        for end in 1..body.len() {
            assert!(parse_all(&body.as_bytes()[..end]).is_err(), "{end}");
        }
    }
}
