//! What the fuzz target may reach: every parser of what a client sends that is not `wire`'s.

use std::{
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr},
    pin::Pin,
    task::{Context, Poll},
};

use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, header, uri::Authority};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    Limits, auth,
    caps::{DECODED_BYTES_FREE, DECODED_RATIO_MAX},
    compression, etag, handlers, http1, names,
    request::{self, ReadParams, Removal},
    shares::{ClientKey, Resource, Shares},
};

/// Reads text as a query and as the value of each header that has a grammar of its own.
pub fn request(query: &str, value: &str) {
    let _ = ReadParams::parse_query(Some(query), request::Framing::Plain);
    let _ = Removal::parse(Some(query));
    let _ = request::list(Some(query));
    let Ok(value) = HeaderValue::from_str(value) else { return };
    let mut headers = HeaderMap::new();
    for name in [
        header::IF_NONE_MATCH,
        header::ACCEPT_ENCODING,
        header::CONTENT_TYPE,
        header::AUTHORIZATION,
    ] {
        headers.insert(name, value.clone());
    }
    etag::read_list(&headers);
    let _ = compression::accepts_gzip(&headers);
    let _ = request::content_type(&headers);
}

/// Reads text as a path below `__ds`, and bytes as each body that is sent there. A subscription
/// that is taken comes back as it went.
///
/// # Panics
/// If it does not.
pub fn subscription(rest: &str, body: &[u8]) {
    if let Some(config) = handlers::read_subscription(rest, body) {
        let text = serde_json::to_string(&config).expect("a config is plain data");
        let again: wake::Config = serde_json::from_str(&text).expect("what was written is read");
        assert_eq!(again, config);
    }
}

/// Reads text as a file of keys.
pub fn keys(text: &str) {
    let _ = auth::parse_keys(text);
}

/// Reads bytes as a body that was sent with `Content-Encoding: gzip`, as they are and packed.
///
/// # Panics
/// If it becomes larger than it may, something of it stays counted, or packing changed it.
pub fn gzip(body: &[u8]) {
    const BYTES_MAX: usize = 1024 * 1024;
    let shares = Shares::new(&Limits::default());
    let account = shares.account(ClientKey::ip(Ipv4Addr::LOCALHOST.into()));
    let unpacked = |bytes: Vec<u8>| {
        let share = account.share(Resource::Incoming);
        let unpacked = request::unpacked(share, bytes.into(), BYTES_MAX);
        assert_eq!(shares.held(Resource::Incoming), 0, "what was unpacked is gone, and counts");
        unpacked
    };
    if let Some(unpacked) = unpacked(body.to_vec()) {
        let most = (body.len() * DECODED_RATIO_MAX).max(DECODED_BYTES_FREE).min(BYTES_MAX);
        assert!(unpacked.len() <= most, "{} bytes of {}", unpacked.len(), body.len());
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).expect("memory takes all");
    let packed = encoder.finish().expect("memory takes all");
    assert!(unpacked(packed).is_some_and(|again| again == body), "packing changed it");
}

/// Asks a server of its own name, which trusts one origin, what it makes of a request.
///
/// # Panics
/// If it lets one in that another reading of the same headers calls a foreign one.
pub fn cross_site(host: &[u8], origin: Option<&str>, site: Option<&str>) {
    const OWN: &str = "own.example";
    const TRUSTED: [&str; 2] = ["https://own.example", "https://app.example:8080"];
    let trusted = TRUSTED[1].parse().expect("an origin");
    let known = auth::CrossSite::new(&[trusted], Some(TRUSTED[0]));
    let (mut head, ()) = http::Request::new(()).into_parts();
    let Ok(host) = HeaderValue::from_bytes(host) else { return };
    head.headers.insert(header::HOST, host.clone());
    for (name, value) in [(header::ORIGIN, origin), (names::SEC_FETCH_SITE.clone(), site)] {
        let value = value.map(HeaderValue::from_str);
        match value {
            None => {}
            Some(Ok(value)) => drop(head.headers.insert(name, value)),
            Some(Err(_)) => return,
        }
    }
    if known.check(&head).is_err() {
        return;
    }
    let host = host.to_str().expect("a name that can be read").to_ascii_lowercase();
    if let Ok(authority) = host.parse::<Authority>() {
        let name = authority.host().trim_matches(['[', ']']);
        let is_own = name == "localhost" || name == OWN || name.parse::<IpAddr>().is_ok();
        assert!(is_own, "{host:?} is not a name of the server");
    }
    let is_trusted = origin.is_some_and(|origin| TRUSTED.contains(&origin));
    if let Some(origin) = origin
        && !is_trusted
    {
        assert!(
            origin.to_ascii_lowercase().ends_with(&format!("://{host}")),
            "{origin:?}, {host:?}"
        );
    }
    assert!(is_trusted || matches!(site, None | Some("same-origin" | "none")), "{site:?}");
}

/// The requests that a client's bytes are, when they arrive in pieces of this size: method, target
/// and body of each. What follows the last one is incomplete, or refused.
pub fn http1(bytes: &[u8], piece: usize) -> Vec<(String, String, Vec<u8>)> {
    let client = Client { bytes: bytes.to_vec(), sent: 0, piece: piece.max(1) };
    http1::read_all(client)
}

/// A client that sends what it has, and never listens.
struct Client {
    bytes: Vec<u8>,
    sent: usize,
    piece: usize,
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &self.bytes[self.sent..];
        let piece = rest.len().min(self.piece).min(buffer.remaining());
        buffer.put_slice(&rest[..piece]);
        self.sent += piece;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
