//! How a provider's API speaks: a request in, blocks out. Pure: no clock, no connection.

use std::fmt;

use bytes::Bytes;
use chat::{Id, ModelError, ModelErrorKind, ModelEvent, Request, ToolChoice};
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

/// Refuses a choice of tools that there are none for.
pub(crate) fn check_choice(provider: &Id, request: &Request) -> Result<(), ModelError> {
    let (ours, theirs) = (&request.tools, &request.settings.provider_tools);
    let is_there = |name: &Id| {
        ours.iter().any(|tool| tool.name == *name)
            || theirs.iter().any(|tool| tool["name"].as_str() == Some(name))
    };
    let why = match &request.choice {
        ToolChoice::Required if ours.is_empty() && theirs.is_empty() => {
            "a tool is required, but tools is empty; give tools or leave it to the model".to_owned()
        }
        ToolChoice::Tool(name) if ours.is_empty() && theirs.is_empty() => {
            format!(
                "{name:?} is to be called, but tools is empty; give it or leave it to the model"
            )
        }
        ToolChoice::Tool(name) if !is_there(name) => {
            format!("there is no tool {name:?}; name one of the tools")
        }
        _ => return Ok(()),
    };
    let message = format!("choice: {why}");
    Err(ModelError::new(provider.clone(), ModelErrorKind::Unsupported, message))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chat::{Settings, ToolSpec};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_choice_that_nothing_is_there_for_says_what_to_do() {
        let tool = Arc::new(ToolSpec::new("add", "Adds.", json!({ "type": "object" })));
        let theirs =
            Settings { provider_tools: vec![json!({ "name": "web" })], ..Settings::default() };
        let none = || Request::default();
        let one = || Request { tools: vec![tool.clone()], ..none() };
        let their = || Request { settings: theirs.clone(), ..none() };
        let named = |name: &str| ToolChoice::Tool(name.into());
        for (request, choice, expected) in [
            (none(), ToolChoice::Auto, None),
            (none(), ToolChoice::None, None),
            (none(), ToolChoice::Required, Some("give tools or leave it to the model")),
            (none(), named("add"), Some("give it or leave it to the model")),
            (one(), ToolChoice::Required, None),
            (one(), named("add"), None),
            (one(), named("sub"), Some("there is no tool \"sub\"; name one of the tools")),
            (their(), ToolChoice::Required, None),
            (their(), named("web"), None),
            (their(), named("add"), Some("there is no tool \"add\"")),
        ] {
            let request = Request { choice, ..request };
            let error = check_choice(&"p".into(), &request).err().map(|error| error.message);
            match (&error, expected) {
                (None, None) => {}
                (Some(why), Some(expected)) => assert!(why.contains(expected), "{why}"),
                _ => panic!("{:?}: {error:?}", request.choice),
            }
        }
    }
}
