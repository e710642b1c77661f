//! Compression: gzip for readers who ask for it, where it pays.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, header};

use crate::{etag::Tag, names, response::Reply, service::Call};

/// Below this a compressed answer is hardly smaller.
const BYTES_MIN: usize = 1024;
/// Above this compression takes long enough to hold up other connections of the thread.
const INLINE_BYTES_MAX: usize = 16 * 1024;

/// Puts the bytes into the reply, compressed if the client wants that.
pub(crate) async fn apply(call: &Call<'_>, reply: Reply, bytes: Bytes) -> Reply {
    let reply = reply.header(&header::VARY, names::ACCEPT_ENCODING.clone());
    match compressed(call, &bytes).await {
        Some(smaller) => encoded(reply, smaller),
        None => reply.bytes(bytes),
    }
}

/// The same for bytes with a tag: the compressed ones are another representation.
pub(crate) async fn apply_tagged(call: &Call<'_>, reply: Reply, bytes: Bytes, tag: &Tag) -> Reply {
    match compressed(call, &bytes).await {
        Some(smaller) => encoded(reply, smaller).header(&header::ETAG, tag.compressed()),
        None => reply.bytes(bytes),
    }
}

fn encoded(reply: Reply, bytes: Bytes) -> Reply {
    reply.header(&header::CONTENT_ENCODING, names::GZIP.clone()).bytes(bytes)
}

async fn compressed(call: &Call<'_>, bytes: &Bytes) -> Option<Bytes> {
    if bytes.len() < BYTES_MIN || !accepts_gzip(&call.head.headers) {
        return None;
    }
    let smaller = if bytes.len() <= INLINE_BYTES_MAX {
        gzip(bytes)
    } else {
        let bytes = bytes.clone();
        call.service.sys.spawn.blocking(move || gzip(&bytes)).await
    };
    smaller.filter(|smaller| smaller.len() < bytes.len())
}

fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// True if `Accept-Encoding` names gzip, or everything, and does not weigh it zero.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut by_star = false;
    for coding in lists.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(',')) {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let wanted = !is_zero(parameters);
        match name.trim() {
            "*" => by_star = wanted,
            name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => {
                return wanted;
            }
            _ => {}
        }
    }
    by_star
}

/// `q=0`, `q=0.0` and so on.
fn is_zero(parameters: &str) -> bool {
    let weight = parameters.trim().strip_prefix(['q', 'Q']).map(str::trim_start);
    let weight = weight.and_then(|rest| rest.strip_prefix('=')).map(str::trim);
    weight.is_some_and(|weight| weight.parse() == Ok(0.0))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[track_caller]
    fn check(lists: &[&'static str], expected: bool) {
        let mut headers = HeaderMap::new();
        for list in lists {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(list));
        }
        assert_eq!(accepts_gzip(&headers), expected, "{lists:?}");
    }

    #[test]
    fn the_client_decides() {
        check(&[], false);
        check(&["br, deflate"], false);
        check(&["br, gzip"], true);
        check(&["br", "GZIP;q=0.5"], true);
        check(&["*"], true);
        check(&["gzip;q=0, *"], false);
        check(&["*;q=0, gzip; q=1"], true);
        check(&["gzip; q=0.000"], false);
        check(&["identity"], false);
    }
}
