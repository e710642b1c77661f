//! Answers: a status, headers and a body, put together without ceremony.

mod body;
mod content;

use std::fmt::{self, Write as _};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use log::Freshness;
use wire::{ContentType, Offset};

pub(crate) use body::{Audience, Body, Frames, Load, Matter};
pub(crate) use content::Content;

use crate::names;

/// Headers of a usual answer; more would only reallocate.
const HEADERS_USUAL: usize = 7;

/// An answer in the making.
#[derive(Debug)]
#[must_use = "an answer is to be sent"]
pub(crate) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Matter,
}

impl Reply {
    pub(crate) fn new(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::with_capacity(HEADERS_USUAL), body: Matter::Empty }
    }

    pub(crate) fn header(mut self, name: &'static HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(crate) fn offset(self, name: &'static HeaderName, offset: Offset) -> Self {
        let token = HeaderValue::from_bytes(&offset.token()).expect("digits and an underscore");
        self.header(name, token)
    }

    pub(crate) fn number(self, name: &'static HeaderName, number: u64) -> Self {
        self.header(name, number.into())
    }

    /// Any text that the type of `value` keeps free of control characters.
    pub(crate) fn text(self, name: &'static HeaderName, value: impl fmt::Display) -> Self {
        self.header(name, header_value(value))
    }

    pub(crate) fn content_type(self, content_type: &ContentType) -> Self {
        let value = match content_type.as_str() {
            "application/json" => names::JSON.clone(),
            other => header_value(other),
        };
        let reply = self.header(&header::CONTENT_TYPE, value);
        match is_shown(content_type) {
            true => reply,
            false => reply.header(&header::CONTENT_DISPOSITION, names::ATTACHMENT.clone()),
        }
    }

    /// Says that the stream is closed, if it is.
    pub(crate) fn closed(self, closed: bool) -> Self {
        if closed { self.header(&names::CLOSED, names::TRUE.clone()) } else { self }
    }

    /// Says how far a reader has come.
    pub(crate) fn freshness(self, freshness: Freshness) -> Self {
        match freshness {
            Freshness::Behind => self,
            Freshness::UpToDate => self.header(&names::UP_TO_DATE, names::TRUE.clone()),
            Freshness::Closed => self.header(&names::UP_TO_DATE, names::TRUE.clone()).closed(true),
        }
    }

    pub(crate) fn bytes(self, bytes: Bytes) -> Self {
        self.body(Content::Whole(bytes))
    }

    pub(crate) fn body(mut self, body: impl Into<Matter>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body.into());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Whether a browser that is led to a stream of this type may show it, because it shows data and
/// runs nothing. It saves the rest to a file: documents that can carry scripts (HTML, SVG, XML),
/// and all that it may take for one some day.
fn is_shown(content_type: &ContentType) -> bool {
    let text = content_type.as_str();
    let essence = text.split(';').next().unwrap_or(text).trim().to_ascii_lowercase();
    match essence.split_once('/') {
        Some((_, subtype)) if subtype.contains("xml") => false,
        Some(("image" | "audio" | "video" | "font", _)) => true,
        Some(("text", subtype)) => matches!(subtype, "plain" | "csv" | "markdown" | "event-stream"),
        Some(("application", subtype)) => {
            let is_json = subtype == "json" || subtype.ends_with("+json");
            is_json || matches!(subtype, "x-ndjson" | "jsonl" | "octet-stream")
        }
        _ => false,
    }
}

/// A header value from text that may come from a client; what no header can carry becomes `?`.
pub(crate) fn header_value(value: impl fmt::Display) -> HeaderValue {
    let mut text = String::with_capacity(64);
    write!(text, "{value}").expect("writing to a string cannot fail");
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("?"))
}
