//! What a client's bytes mean does not depend on how they arrive, nor on who reads them: whatever
//! we take for a request, hyper takes for the same one.

#![no_main]

use std::{
    cell::RefCell,
    convert::Infallible,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, Response,
    body::Incoming,
    rt::{Read, ReadBufCursor, Write},
    server::conn::http1,
    service::service_fn,
};
use libfuzzer_sys::fuzz_target;

/// Far more than any input here needs.
const TURNS_MAX: usize = 10_000;

type Asked = (String, String, Vec<u8>);

fuzz_target!(|input: (usize, &[u8])| {
    let (piece, bytes) = input;
    let ours = server::fuzzing::http1(bytes, usize::MAX);
    assert_eq!(server::fuzzing::http1(bytes, piece % 64), ours, "in pieces");
    let theirs = by_hyper(bytes);
    assert!(theirs.starts_with(&ours), "ours: {ours:?}, theirs: {theirs:?}");
});

/// The requests that hyper sees.
fn by_hyper(bytes: &[u8]) -> Vec<Asked> {
    let asked = RefCell::new(Vec::new());
    let service = service_fn(|request: Request<Incoming>| async {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return Ok(Response::new(Empty::new())) };
        let body = body.to_bytes().to_vec();
        asked.borrow_mut().push((head.method.to_string(), head.uri.to_string(), body));
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let client = Client { bytes: bytes.to_vec(), sent: 0 };
    let mut connection =
        pin!(http1::Builder::new().half_close(true).serve_connection(client, service));
    // It hands body and request over between its own turns, and nothing outside ever wakes it.
    let mut context = Context::from_waker(Waker::noop());
    let mut turns = 0..TURNS_MAX;
    while connection.as_mut().poll(&mut context).is_pending() && turns.next().is_some() {}
    asked.take()
}

/// A client that sends what it has, and never listens.
struct Client {
    bytes: Vec<u8>,
    sent: usize,
}

impl Read for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &self.bytes[self.sent..];
        let piece = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..piece]);
        self.sent += piece;
        Poll::Ready(Ok(()))
    }
}

impl Write for Client {
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
