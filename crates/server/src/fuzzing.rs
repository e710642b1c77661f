//! What the fuzz target may reach: every parser of what a client sends that is not `wire`'s.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderMap, HeaderValue, header};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    auth, compression, etag, handlers, http1,
    request::{self, ReadParams, Removal},
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
