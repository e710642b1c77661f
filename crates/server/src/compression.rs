//! Compression: gzip for readers who ask for it, where it pays.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, header};

use crate::{
    call::Call,
    etag::Tag,
    names,
    response::{Content, Reply},
};

/// Below this a compressed answer is hardly smaller.
const BYTES_MIN: usize = 1024;
/// Above this compression takes long enough to hold up other connections of the thread.
const INLINE_BYTES_MAX: usize = 16 * 1024;

/// Puts the bytes into the reply, compressed if the client wants that.
pub(crate) async fn apply(call: &Call<'_>, reply: Reply, content: Content) -> Reply {
    let reply = reply.header(&header::VARY, names::ACCEPT_ENCODING.clone());
    match compressed(call, &content).await {
        Some(smaller) => encoded(reply, smaller),
        None => reply.body(content),
    }
}

/// The same for bytes with a tag: the compressed ones are another representation.
pub(crate) async fn apply_tagged(
    call: &Call<'_>,
    reply: Reply,
    content: Content,
    tag: &Tag,
) -> Reply {
    let reply = reply.header(&header::VARY, names::WHAT_READS_VARY_BY.clone());
    match compressed(call, &content).await {
        Some(smaller) => encoded(reply, smaller).header(&header::ETAG, tag.compressed()),
        None => reply.body(content).header(&header::ETAG, tag.plain()),
    }
}

fn encoded(reply: Reply, bytes: Bytes) -> Reply {
    reply.header(&header::CONTENT_ENCODING, names::GZIP.clone()).bytes(bytes)
}

/// None if the content had better be sent as it is.
async fn compressed(call: &Call<'_>, content: &Content) -> Option<Bytes> {
    if content.len() < BYTES_MIN || !accepts_gzip(&call.head.headers) {
        return None;
    }
    let (len, content) = (content.len(), content.clone());
    let smaller = if len <= INLINE_BYTES_MAX {
        gzip(content)
    } else {
        // Boxed, because hardly any answer comes this way and all would carry the room for it.
        Box::pin(gzip_elsewhere(call, content)).await
    };
    smaller.filter(|smaller| smaller.len() < len)
}

/// Threads that compress are threads that read, and other clients need some.
async fn gzip_elsewhere(call: &Call<'_>, content: Content) -> Option<Bytes> {
    let turn = call.account.heavy_turn().await;
    let compressing = move || {
        let _turn = turn;
        gzip(content)
    };
    call.service.sys.spawn.blocking(compressing).await
}

fn gzip(content: Content) -> Option<Bytes> {
    let room = Vec::with_capacity(content.len() / 4);
    let mut encoder = GzEncoder::new(room, Compression::fast());
    content.pieces().try_for_each(|piece| encoder.write_all(&piece)).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// True if `Accept-Encoding` names gzip, or everything, and does not weigh it zero.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
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
