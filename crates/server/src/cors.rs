//! What browsers want to be told: who may read the answer, and how.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};

use crate::{
    auth::Origin,
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
    /// Pages of these origins may read answers; all if it names none.
    named: Vec<(HeaderValue, Lines)>,
    /// Whether pages that do not say who they are may read the answer, too.
    is_open: bool,
    all_pages: Lines,
    own_pages: Lines,
    neighbour: Lines,
}

#[derive(Debug)]
struct Lines {
    headers: HeaderMap,
    /// The same as they stand in HTTP/1.
    block: Vec<u8>,
}

impl Cors {
    pub(crate) fn new(origins: &[Origin], is_open: bool) -> Self {
        let named = origins.iter().map(|origin| {
            let origin = origin.header();
            (origin.clone(), Lines::of(shared(inert(is_open), origin)))
        });
        let neighbour = [(header::X_CONTENT_TYPE_OPTIONS, names::NOSNIFF.clone())];
        Self {
            named: named.collect(),
            is_open,
            all_pages: Lines::of(shared(inert(is_open), HeaderValue::from_static("*"))),
            own_pages: Lines::of(inert(is_open)),
            neighbour: Lines::of(HeaderMap::from_iter(neighbour)),
        }
    }

    /// Says which pages may read the answer to this request.
    ///
    /// An open server knows its pages by their origin, so an answer to a request without one is for
    /// no other page, or one could read from the browser's cache what it may not ask for.
    pub(crate) fn address(&self, response: &mut Response<Body>, head: &Parts) {
        let audience = &mut response.body_mut().audience;
        if *audience == Audience::Neighbour {
            return;
        }
        let origin = head.headers.get(header::ORIGIN);
        let place =
            origin.and_then(|origin| self.named.iter().position(|(named, _)| named == origin));
        *audience = match place {
            Some(place) => Audience::Named(place),
            None if !self.named.is_empty() => Audience::OwnPages,
            None if self.is_open && origin.is_none() => Audience::OwnPages,
            None => Audience::AllPages,
        };
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
            Audience::OwnPages => &self.own_pages,
            Audience::AllPages => &self.all_pages,
            Audience::Named(place) => self.named.get(place).map_or(&self.own_pages, |(_, it)| it),
            Audience::Neighbour => &self.neighbour,
        }
    }
}

/// What keeps content from acting: a browser that is led to a stream runs nothing of it, and takes
/// it for no page of this address.
fn inert(is_open: bool) -> HeaderMap {
    let policy = if is_open { &names::SAME_ORIGIN } else { &names::CROSS_ORIGIN };
    HeaderMap::from_iter([
        (header::X_CONTENT_TYPE_OPTIONS, names::NOSNIFF.clone()),
        (header::CONTENT_SECURITY_POLICY, names::INERT.clone()),
        (names::CROSS_ORIGIN_RESOURCE_POLICY.clone(), policy.clone()),
    ])
}

fn shared(mut headers: HeaderMap, origin: HeaderValue) -> HeaderMap {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSE_HEADERS.clone());
    headers
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
