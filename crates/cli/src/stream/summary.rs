//! A stream in a few words, as a server lists it and as we print it.

use log::Head;
use serde::{Deserialize, Serialize};
use wire::{Expiry, StreamPath, Timestamp};

/// What is known of a stream. A server's list does not say everything that its HEAD says, and the
/// other way round.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) path: String,
    pub(super) content_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) earliest: Option<String>,
    pub(super) tail: String,
    pub(super) closed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created_at: Option<String>,
}

impl Summary {
    pub(super) fn new(path: &StreamPath, head: &Head) -> Self {
        let (ttl, expires_at) = match head.expiry {
            Expiry::Never => (None, None),
            Expiry::Sliding(ttl) => (Some(ttl.seconds()), None),
            Expiry::At(time) => (None, Some(time.to_string())),
        };
        Self {
            path: path.to_string(),
            content_type: head.content_type.to_string(),
            earliest: Some(head.earliest.to_string()),
            tail: head.tail.to_string(),
            closed: head.closed,
            ttl,
            expires_at,
            created_at: Some(Timestamp::from_unix_ms(head.created_at.get()).to_string()),
        }
    }

    /// One fact per line, for people.
    pub(super) fn describe(&self) -> String {
        let lifetime = match (self.ttl, &self.expires_at) {
            (Some(seconds), _) => format!("{seconds} s after its last use"),
            (None, Some(time)) => time.clone(),
            (None, None) => "never".to_owned(),
        };
        let state = if self.closed { "closed" } else { "open" };
        let mut rows = vec![
            ("path", self.path.as_str()),
            ("content type", &self.content_type),
            ("state", state),
            ("tail", &self.tail),
        ];
        rows.extend(self.earliest.as_deref().map(|offset| ("earliest", offset)));
        rows.extend(self.created_at.as_deref().map(|time| ("created", time)));
        rows.push(("expires", &lifetime));
        rows.iter().map(|(name, value)| format!("{name:<13} {value}\n")).collect()
    }
}
