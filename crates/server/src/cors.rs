//! What browsers want to be told: who may read the answer, and how.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header, header::InvalidHeaderValue};

use crate::{
    names,
    response::{Audience, Body, Reply},
};

static ALLOW_METHODS: HeaderValue =
    HeaderValue::from_static("GET, POST, PUT, DELETE, HEAD, OPTIONS");
static ALLOW_HEADERS: HeaderValue = HeaderValue::from_static(
    "content-type, authorization, if-none-match, stream-seq, stream-expected-offset, stream-ttl, \
     stream-expires-at, stream-closed, stream-forked-from, stream-fork-offset, \
     stream-fork-sub-offset, stream-framing, producer-id, producer-epoch, producer-seq",
);
/// All of them: answers never depend on cookies, so browsers take the star at its word, and the
/// list of names would be longer than most answers.
static EXPOSE_HEADERS: HeaderValue = HeaderValue::from_static("*");
static DAY: HeaderValue = HeaderValue::from_static("86400");

/// The headers that every answer gets.
#[derive(Debug)]
pub(crate) struct Cors {
    as_set: Lines,
    same_origin: Lines,
}

#[derive(Debug)]
struct Lines {
    headers: HeaderMap,
    /// The same as they stand in HTTP/1.
    block: Vec<u8>,
}

impl Cors {
    pub(crate) fn new(origin: &str) -> Result<Self, InvalidHeaderValue> {
        let headers = HeaderMap::from_iter([
            (header::X_CONTENT_TYPE_OPTIONS, names::NOSNIFF.clone()),
            (names::CROSS_ORIGIN_RESOURCE_POLICY.clone(), names::CROSS_ORIGIN.clone()),
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.parse()?),
            (header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSE_HEADERS.clone()),
        ]);
        let same_origin =
            HeaderMap::from_iter([(header::X_CONTENT_TYPE_OPTIONS, names::NOSNIFF.clone())]);
        Ok(Self { as_set: Lines::of(headers), same_origin: Lines::of(same_origin) })
    }

    /// Answers a preflight.
    pub(crate) fn preflight(&self) -> Response<Body> {
        Reply::new(StatusCode::NO_CONTENT)
            .header(&header::ACCESS_CONTROL_ALLOW_METHODS, ALLOW_METHODS.clone())
            .header(&header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOW_HEADERS.clone())
            .header(&header::ACCESS_CONTROL_MAX_AGE, DAY.clone())
            .header(&names::EXTENSIONS, names::ALL_EXTENSIONS.clone())
            .into_response()
    }

    /// The headers, to be added to an answer that is not written by hand.
    pub(crate) fn headers(&self, audience: Audience) -> &HeaderMap {
        &self.lines(audience).headers
    }

    /// The headers as they stand in an answer of HTTP/1.
    pub(crate) fn block(&self, audience: Audience) -> &[u8] {
        &self.lines(audience).block
    }

    fn lines(&self, audience: Audience) -> &Lines {
        match audience {
            Audience::AsSet => &self.as_set,
            Audience::SameOrigin => &self.same_origin,
        }
    }
}

impl Lines {
    fn of(headers: HeaderMap) -> Self {
        let mut block = Vec::new();
        for (name, value) in &headers {
            block.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        Self { headers, block }
    }
}
