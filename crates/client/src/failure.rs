//! Failures: what a server did not do, and whether to ask again.

use http::{HeaderMap, HeaderName, StatusCode};
use log::{MessagesDamaged, Unavailable};
use serde::Deserialize;
use thiserror::Error;
use wire::headers;

/// Why a request came to nothing.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// No answer came, so what was asked may have happened.
    #[error("the server did not answer: {0}")]
    Unreachable(String),
    /// No connection could be made, so nothing happened.
    #[error("the server cannot be reached: {0}")]
    NotConnected(String),
    /// The server refused.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The answer means nothing to us.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    /// The request could not be made from what was given.
    #[error("the request cannot be made: {0}")]
    Unaskable(String),
}

/// A server's no.
#[derive(Clone, Debug, Error)]
#[error("{status} from {asked}: {detail}")]
pub struct Refusal {
    /// What was asked: the method and the path.
    pub asked: String,
    /// The status.
    pub status: StatusCode,
    /// What it says of itself.
    pub headers: HeaderMap,
    /// The name of the problem, if the server has one for it.
    pub code: String,
    /// What people should know.
    pub detail: String,
    /// Whether an earlier attempt got no answer, and may have done what was asked.
    pub is_repeated: bool,
    pub(crate) facts: Facts,
}

/// What a problem says beyond its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    pub(crate) differs_in: String,
    pub(crate) content_type: String,
    pub(crate) last: String,
    pub(crate) offset: String,
    pub(crate) stream: String,
    pub(crate) reason: String,
    pub(crate) error: ErrorFacts,
}

/// The same, as the APIs of subscriptions write it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorFacts {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) current_holder: String,
    pub(crate) generation: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    code: String,
    detail: String,
    #[serde(flatten)]
    facts: Facts,
}

impl Failure {
    /// The same, if an earlier attempt may have done what this one was refused.
    pub(crate) fn in_doubt(refusal: &Refusal) -> Self {
        Self::Unreachable(format!("an earlier attempt may have been heard, and then: {refusal}"))
    }

    /// True if there is nothing where an earlier attempt, whose answer was lost, may have taken
    /// it away.
    pub(crate) fn is_own_delete(&self) -> bool {
        matches!(self, Self::Refused(refusal)
            if refusal.is_repeated && matches!(refusal.status.as_u16(), 404 | 410))
    }

    /// True if the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::NotConnected(_) => true,
            Self::Refused(refusal) => refusal.is_retryable(),
            Self::Unreadable(_) | Self::Unaskable(_) => false,
        }
    }

    /// The status, if the server answered.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }

    /// As every operation of a log may fail.
    pub(crate) fn into_unavailable(self) -> Unavailable {
        match self {
            Self::Unreachable(why) => Unavailable::Unreachable(why),
            Self::NotConnected(why) => Unavailable::Unreachable(why),
            Self::Unreadable(why) | Self::Unaskable(why) => Unavailable::Unreadable(why),
            Self::Refused(refusal) => match (refusal.code.as_str(), refusal.status.as_u16()) {
                ("poisoned", _) => Unavailable::Poisoned(refusal.detail),
                ("disk-full", _) => Unavailable::DiskFull(refusal.detail),
                ("messages-damaged", _) => refusal.damage().map_or_else(
                    || Unavailable::Unreadable(refusal.to_string()),
                    Unavailable::Damaged,
                ),
                (_, 429 | 503) => Unavailable::Overloaded,
                (_, 401 | 403) => Unavailable::Denied(refusal.detail),
                (_, 500..) => Unavailable::Unreachable(refusal.to_string()),
                _ => Unavailable::Unreadable(refusal.to_string()),
            },
        }
    }
}

impl Refusal {
    pub(crate) fn new(asked: String, status: StatusCode, headers: HeaderMap, body: &[u8]) -> Self {
        let document: Document = serde_json::from_slice(body).unwrap_or_default();
        let mut detail = document.detail.clone();
        if detail.is_empty() {
            detail.clone_from(&document.facts.error.message);
        }
        if detail.is_empty() {
            detail = String::from_utf8_lossy(body).into_owned();
        }
        if detail.is_empty() {
            status.canonical_reason().unwrap_or("it does not say why").clone_into(&mut detail);
        }
        let Document { code, facts, .. } = document;
        Self { asked, status, headers, code, detail, is_repeated: false, facts }
    }

    fn is_retryable(&self) -> bool {
        // Neither is over after a moment, however often it is tried.
        let is_lasting = matches!(self.code.as_str(), "poisoned" | "too-many-producers");
        !is_lasting && matches!(self.status.as_u16(), 429 | 500 | 502 | 503 | 504 | 507)
    }

    /// Which messages cannot be read, if it says so.
    fn damage(&self) -> Option<MessagesDamaged> {
        let from = self.facts.offset.parse().ok()?;
        let until = self.header(headers::NEXT_OFFSET)?;
        Some(MessagesDamaged { stream: self.facts.stream.clone(), from, until })
    }

    /// A header, if it is text that parses.
    pub(crate) fn header<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        parsed(&self.headers, name)
    }
}

/// A header, if it is text that parses.
pub(crate) fn parsed<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}
