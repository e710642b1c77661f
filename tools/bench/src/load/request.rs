//! The bytes of a request, built once and shared by every connection that sends them.

use std::fmt::Display;
use std::rc::Rc;

/// A whole request, head and body. Cloning it copies a pointer.
#[derive(Clone, Debug)]
pub(crate) struct Request(Rc<[u8]>);

impl Request {
    /// `PUT`: create an empty stream.
    pub(crate) fn create(stream: impl Display, content_type: &str) -> Self {
        Self::with_body("PUT", stream, content_type, b"")
    }

    /// `POST`: append one body.
    pub(crate) fn append(stream: impl Display, content_type: &str, body: &[u8]) -> Self {
        Self::with_body("POST", stream, content_type, body)
    }

    /// `GET`: read from an offset, once.
    pub(crate) fn read(stream: impl Display, offset: &str) -> Self {
        Self::without_body(&format!("/v1/stream/{stream}?offset={offset}"))
    }

    /// `GET`: follow a stream from its tail by server-sent events.
    pub(crate) fn subscribe(stream: impl Display) -> Self {
        Self::without_body(&format!("/v1/stream/{stream}?offset=now&live=sse"))
    }

    /// `PUT`: a subscription to a pattern, for workers that pull.
    pub(crate) fn follow(id: impl Display, pattern: &str) -> Self {
        let body =
            format!(r#"{{"type":"pull-wake","pattern":"{pattern}","wake_stream":"wake-stream"}}"#);
        let place = format_args!("__ds/subscriptions/{id}");
        Self::with_body("PUT", place, "application/json", body.as_bytes())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn with_body(method: &str, stream: impl Display, content_type: &str, body: &[u8]) -> Self {
        let length = body.len();
        let mut bytes = format!(
            "{method} /v1/stream/{stream} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
             Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        Self(bytes.into())
    }

    fn without_body(target: &str) -> Self {
        let text = format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        Self(text.into_bytes().into())
    }
}
