//! Bodies on their way in, whichever version of HTTP carries them.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{BufMut as _, BytesMut};
use http_body::Body as _;
use parking_lot::Mutex;

use crate::http1::Source;

/// A body that is still to be read.
pub(crate) enum Incoming<'a> {
    /// From the connection. It is locked for each look only: the connection keeps an eye on the
    /// client while the body rests.
    Http1(&'a Mutex<dyn Source + 'a>),
    Http2(hyper::body::Incoming),
}

impl Incoming<'_> {
    /// The bytes it has at least; exact if its head gave a length.
    pub(crate) fn announced(&self) -> u64 {
        match self {
            Self::Http1(source) => source.lock().announced(),
            Self::Http2(body) => body.size_hint().lower(),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Http1(source) => source.lock().is_done(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    /// Adds the next bytes to `into`.
    pub(crate) async fn read(&mut self, into: &mut BytesMut) -> io::Result<()> {
        poll_fn(|context| match self {
            Self::Http1(source) => source.lock().poll_body(context, into),
            Self::Http2(body) => poll_frame(body, context, into),
        })
        .await
    }
}

fn poll_frame(
    body: &mut hyper::body::Incoming,
    context: &mut Context<'_>,
    into: &mut BytesMut,
) -> Poll<io::Result<()>> {
    match ready!(Pin::new(&mut *body).poll_frame(context)) {
        Some(frame) => {
            if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
                into.put_slice(&data);
            }
            Poll::Ready(Ok(()))
        }
        None if body.is_end_stream() => Poll::Ready(Ok(())),
        // A client that takes its request back without a reason looks like one that is done.
        None => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
    }
}
