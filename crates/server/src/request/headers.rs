//! Request headers that may be sent once.

use std::{fmt, str::FromStr};

use http::{HeaderMap, HeaderName, header, request::Parts, uri::Authority};
use log::Closing;
use wire::ContentType;

use crate::{names, problem::Problem};

/// The value of a header that may be sent at most once.
///
/// Two values are refused even if they are equal: the next hop might pick the other one.
pub(crate) fn single<'a>(
    headers: &'a HeaderMap,
    name: &'static HeaderName,
) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::bad_request(format!("the header {name} is sent twice; send it once")));
    }
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => Ok(Some(text.trim())),
        Err(_) => Err(Problem::bad_request(format!("the header {name} is not UTF-8 text"))),
    }
}

/// The same, parsed.
pub(crate) fn parsed<T>(
    headers: &HeaderMap,
    name: &'static HeaderName,
) -> Result<Option<T>, Problem>
where
    T: FromStr<Err: fmt::Display>,
{
    single(headers, name)?
        .map(|text| text.parse().map_err(|error| Problem::bad_request(format!("{name}: {error}"))))
        .transpose()
}

/// The host that the client believes to talk to, as it stands in the request.
pub(crate) fn host(head: &Parts) -> Option<&str> {
    let authority = head.uri.authority().map(Authority::as_str);
    authority.or_else(|| head.headers.get(header::HOST)?.to_str().ok())
}

pub(crate) fn content_type(headers: &HeaderMap) -> Result<Option<ContentType>, Problem> {
    parsed(headers, &header::CONTENT_TYPE)
}

/// How the messages of a body are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// As the protocol says: values of a JSON array, or not at all.
    Plain,
    /// By their lengths.
    Length,
}

/// What `Stream-Framing` says of the body, or asks of the answer's.
pub(crate) fn framing(headers: &HeaderMap) -> Result<Framing, Problem> {
    match single(headers, &names::FRAMING)? {
        None => Ok(Framing::Plain),
        Some(wire::framing::LENGTH) => Ok(Framing::Length),
        Some(_) => Err(Problem::bad_request("Stream-Framing must be length, or not be sent")),
    }
}

/// What `Stream-Closed` asks for; any value but `true` asks for nothing.
pub(crate) fn closing(headers: &HeaderMap) -> Result<Closing, Problem> {
    Ok(match single(headers, &names::CLOSED)? {
        Some(value) if wire::headers::is_closed(value) => Closing::Close,
        _ => Closing::LeaveOpen,
    })
}
