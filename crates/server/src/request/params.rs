//! Query parameters.

use std::borrow::Cow;

use http::request::Parts;
use log::{Delete, List};
use wake::SubscriptionId;
use wire::{Glob, Offset, ReadFrom, StreamPath, caps::LIST_PAGE_MAX};

use crate::{
    problem::Problem,
    request::{Framing, framing},
};

/// How a reader waits for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    /// Not at all.
    CatchUp,
    /// In one answer, once there is something.
    LongPoll,
    /// In one answer that goes on.
    Sse,
}

/// `?offset=&before=&live=&cursor=&bytes_max=`, and what the answer is to look like.
#[derive(Debug)]
pub(crate) struct ReadParams {
    pub(crate) from: ReadFrom,
    pub(crate) live: Live,
    pub(crate) cursor: Option<String>,
    pub(crate) framing: Framing,
    bytes_max: Option<usize>,
}

/// What a DELETE takes away: `?erase=true` or `?before=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The stream.
    Delete(Delete),
    /// Its messages before this offset.
    Trim(Offset),
}

impl ReadParams {
    pub(crate) fn parse(head: &Parts) -> Result<Self, Problem> {
        let framing = framing(&head.headers)?;
        Self::parse_query(head.uri.query(), framing)
    }

    pub(crate) fn parse_query(query: Option<&str>, framing: Framing) -> Result<Self, Problem> {
        let names = ["offset", "before", "live", "cursor", "bytes_max"];
        let [offset, before, live, cursor, bytes_max] = known(query, names)?;
        let bytes_max = bytes_max.map(|text| text.parse::<usize>()).transpose();
        let bytes_max =
            bytes_max.map_err(|_| Problem::bad_request("bytes_max must be a number"))?;
        let live = match live.as_deref() {
            None => Live::CatchUp,
            Some("long-poll") => Live::LongPoll,
            Some("sse") => Live::Sse,
            Some(_) => return Err(Problem::bad_request("live must be long-poll or sse")),
        };
        let from = match (offset.as_deref(), before.as_deref()) {
            (None, Some(token)) if live == Live::CatchUp => backwards(token)?,
            (_, Some(_)) => {
                let detail = "before reads backwards; send it without offset and live";
                return Err(Problem::bad_request(detail));
            }
            (Some(token), None) => token.parse().map_err(Problem::bad_request_from)?,
            (None, None) if live == Live::CatchUp => ReadFrom::Start,
            (None, None) => {
                let detail = "live reads need an offset; use -1, now, or a Stream-Next-Offset";
                return Err(Problem::bad_request(detail));
            }
        };
        Ok(Self { from, live, cursor: cursor.map(Cow::into_owned), framing, bytes_max })
    }

    /// Bytes that one answer may hold, if the server would give `most`.
    pub(crate) fn bytes_max(&self, most: usize) -> usize {
        self.bytes_max.map_or(most, |asked| asked.min(most))
    }
}

impl Removal {
    pub(crate) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let [erase, before] = known(query, ["erase", "before"])?;
        match (erase.as_deref(), before.as_deref()) {
            (None | Some("false"), None) => Ok(Self::Delete(Delete::Stream)),
            (Some("true"), None) => Ok(Self::Delete(Delete::Erase)),
            (None | Some("false"), Some(token)) => {
                token.parse().map(Self::Trim).map_err(Problem::bad_request_from)
            }
            (Some("true"), Some(_)) => {
                Err(Problem::bad_request("erase and before exclude each other; send one"))
            }
            (Some(_), _) => Err(Problem::bad_request("erase must be true or false")),
        }
    }
}

/// Where a read backwards begins: `?before=now`, or the `Stream-Start-Offset` of the page after it.
fn backwards(token: &str) -> Result<ReadFrom, Problem> {
    match token {
        "now" => Ok(ReadFrom::Last),
        offset => offset.parse().map(ReadFrom::Before).map_err(Problem::bad_request_from),
    }
}

/// Which streams to list: `?prefix=&after=&limit=`.
pub(crate) fn list(query: Option<&str>) -> Result<List, Problem> {
    let [prefix, after, limit] = known(query, ["prefix", "after", "limit"])?;
    let after = after.map(|path| path.parse::<StreamPath>()).transpose();
    Ok(List {
        prefix: prefix.map(Cow::into_owned).unwrap_or_default(),
        after: after.map_err(Problem::bad_request_from)?,
        limit: page_limit(limit.as_deref(), LIST_PAGE_MAX)?,
    })
}

/// Which subscriptions to list: `?after=&limit=`.
pub(crate) fn list_subscriptions(
    query: Option<&str>,
) -> Result<(Option<SubscriptionId>, usize), Problem> {
    let [after, limit] = known(query, ["after", "limit"])?;
    let after = after.map(|id| id.parse()).transpose().map_err(Problem::bad_request_from)?;
    Ok((after, page_limit(limit.as_deref(), wake::caps::LIST_PAGE_MAX)?))
}

fn page_limit(text: Option<&str>, most: usize) -> Result<usize, Problem> {
    match text.map(str::parse::<usize>) {
        None => Ok(most),
        Some(Ok(limit @ 1..)) => Ok(limit.min(most)),
        Some(_) => Err(Problem::bad_request("limit must be a whole number above 0")),
    }
}

/// The tail that somebody waits to be passed: `?after=`.
pub(crate) fn after(query: Option<&str>) -> Result<Option<Offset>, Problem> {
    let [after] = known(query, ["after"])?;
    after.map(|token| token.parse()).transpose().map_err(Problem::bad_request_from)
}

/// Which streams to watch: `?watch=`.
pub(crate) fn watched(query: Option<&str>) -> Result<Option<Glob>, Problem> {
    let [glob] = known(query, ["watch"])?;
    glob.map(|text| text.parse()).transpose().map_err(Problem::bad_request_from)
}

/// The values of the parameters we know; others are ignored, and none of ours may come twice.
fn known<'q, const N: usize>(
    query: Option<&'q str>,
    names: [&'static str; N],
) -> Result<[Option<Cow<'q, str>>; N], Problem> {
    let mut values = [const { None }; N];
    for pair in query.unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name)?;
        let Some(index) = names.iter().position(|known| *known == name) else { continue };
        if values[index].replace(decode(value)?).is_some() {
            return Err(Problem::bad_request(format!("the parameter {name} is sent twice")));
        }
    }
    Ok(values)
}

/// A part of a query, where a plus stands for a space.
fn decode(text: &str) -> Result<Cow<'_, str>, Problem> {
    match text.contains('+') {
        true => Ok(percent_decoded(&text.replace('+', " "))?.into_owned().into()),
        false => percent_decoded(text),
    }
}

/// A part of a URL, its percent escapes resolved.
pub(crate) fn percent_decoded(text: &str) -> Result<Cow<'_, str>, Problem> {
    if !text.contains('%') {
        return Ok(text.into());
    }
    let bad = || Problem::bad_request("the URL has a percent escape that is not UTF-8 text");
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = bytes.next().and_then(hex_digit).ok_or_else(bad)?;
                let low = bytes.next().and_then(hex_digit).ok_or_else(bad)?;
                high << 4 | low
            }
            plain => plain,
        });
    }
    String::from_utf8(decoded).map(Cow::from).map_err(|_| bad())
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| digit.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_read(query: &str, expected: Option<(ReadFrom, Live, Option<&str>)>) {
        let params = ReadParams::parse_query(Some(query), Framing::Plain).ok();
        let got = params.as_ref().map(|p| (p.from, p.live, p.cursor.as_deref()));
        assert_eq!(got, expected, "{query}");
    }

    #[test]
    fn reads_are_parsed_strictly() {
        let place = ReadFrom::At(Offset::new(1, 2));
        check_read("", Some((ReadFrom::Start, Live::CatchUp, None)));
        check_read("offset=-1&x=%zz&x=z", Some((ReadFrom::Start, Live::CatchUp, None)));
        check_read("offset=%2D1", Some((ReadFrom::Start, Live::CatchUp, None)));
        check_read("live=sse&offset=now", Some((ReadFrom::Now, Live::Sse, None)));
        let query = "cursor=7&live=long-poll&offset=0000000000000001_0000000000000002";
        check_read(query, Some((place, Live::LongPoll, Some("7"))));
        for bad in ["offset=", "offset", "offset=-1&offset=-1", "offset=1+2", "live=sse"] {
            check_read(bad, None);
        }
        check_read("before=now", Some((ReadFrom::Last, Live::CatchUp, None)));
        let query = "before=0000000000000001_0000000000000002&bytes_max=7";
        check_read(query, Some((ReadFrom::Before(Offset::new(1, 2)), Live::CatchUp, None)));
        for bad in ["before=", "before=-1", "before=now&offset=-1", "before=now&live=long-poll"] {
            check_read(bad, None);
        }
        for bad in ["offset=-1&live=", "offset=-1&live=SSE", "offset=%", "offset=%00"] {
            check_read(bad, None);
        }
    }

    #[test]
    fn a_delete_takes_one_thing_away() {
        let by = |query| Removal::parse(Some(query)).ok();
        assert_eq!(by(""), Some(Removal::Delete(Delete::Stream)));
        assert_eq!(by("erase=true"), Some(Removal::Delete(Delete::Erase)));
        assert_eq!(by("erase=yes"), None);
        let trim = by("before=0000000000000001_0000000000000002");
        assert_eq!(trim, Some(Removal::Trim(Offset::new(1, 2))));
        assert_eq!(by("before=0000000000000001_0000000000000002&erase=true"), None);
        assert_eq!(by("before=now"), None);
    }

    #[test]
    fn a_list_is_bounded() {
        let limit = |query| list(Some(query)).ok().map(|list| list.limit);
        assert_eq!(limit("limit=5"), Some(5));
        assert_eq!(limit(""), Some(LIST_PAGE_MAX));
        assert_eq!(limit("limit=999999"), Some(LIST_PAGE_MAX));
        assert_eq!(limit("limit=0"), None);
        assert_eq!(limit("limit=-1"), None);
    }
}
