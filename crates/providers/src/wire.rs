//! How a provider's API speaks: a request in, blocks out. Pure: no clock, no connection.

use std::fmt;

use bytes::Bytes;
use chat::{ModelError, ModelErrorKind, ModelEvent, Request};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::caps::QUOTE_CHARS_MAX;

/// How one provider's API speaks.
pub(crate) trait Wire: Send + Sync + fmt::Debug + 'static {
    /// What reads an answer.
    type Decoder: Decoder + 'static;

    /// The request in the provider's words.
    ///
    /// # Errors
    /// `Unsupported` if it has no words for something; the message names the field and the remedy.
    fn encode(&self, request: &Request) -> Result<Outgoing, ModelError>;

    /// How an answer is cut into events.
    fn framing(&self) -> Framing;

    /// Reads one answer.
    fn decoder(&self) -> Self::Decoder;

    /// What an answer that is no 2xx means, in the provider's words where it gave any.
    fn failure(&self, status: StatusCode, body: &[u8]) -> ModelError;
}

/// Reads one answer, event by event. Pure.
pub trait Decoder: Send + fmt::Debug {
    /// One event: `name` is the `event:` field of SSE, `data` its data, or one line.
    ///
    /// # Errors
    /// If the wire does not allow it, or if it tells of a failure. Nothing may be pushed after.
    fn push(
        &mut self,
        name: Option<&str>,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError>;

    /// The answer has ended.
    ///
    /// # Errors
    /// `Truncated` unless the wire said that it was whole.
    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;

    /// Whether the wire said that nothing follows. A connection that stays open is not waited for
    /// then.
    fn is_done(&self) -> bool {
        false
    }
}

/// A request in a provider's words. It is always a POST of JSON.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// What follows the base URL, starting with a slash.
    pub path_and_query: String,
    /// Headers beyond those of HTTP; those that hold secrets are marked as sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: Bytes,
}

/// How an answer is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value on each line.
    Lines,
}

/// What a status that is no 2xx means, where the body does not say more.
pub(crate) fn kind_of(status: StatusCode) -> ModelErrorKind {
    match status.as_u16() {
        401 | 403 => ModelErrorKind::Unauthorized,
        404 => ModelErrorKind::UnknownModel,
        408 => ModelErrorKind::TimedOut,
        429 => ModelErrorKind::RateLimited,
        // A conflict is about a lock of the provider's, not about what was asked.
        409 | 500.. => ModelErrorKind::Unavailable,
        _ => ModelErrorKind::BadRequest,
    }
}

/// The start of what a provider said, fit for an error.
pub(crate) fn quote(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
