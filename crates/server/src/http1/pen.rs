//! Pens: write answers, in as few strokes as the socket allows.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body::Body as _;
use sys::Clock;
use tokio::io::AsyncWrite;

use super::head::Version;
use crate::response::Body;

/// Room for a usual head, and what an idle connection keeps.
const HEAD_BYTES_USUAL: usize = 1024;
/// Up to this size, bytes are copied to the page rather than sent from where they are.
const COPIED_BYTES_MAX: usize = 4 * 1024;
/// Pieces that are sent at a time.
const PIECES_MAX: usize = 32;
/// And so many bytes of them: joined pieces had better be sent while the cache still has them.
const SENT_BYTES_USUAL: usize = 512 * 1024;

/// Writes into a buffer that lasts as long as the connection.
#[derive(Debug)]
pub(super) struct Pen {
    page: BytesMut,
    /// What follows the page, sent from where it is.
    pieces: VecDeque<Bytes>,
    /// The second that `date` is for.
    second: u64,
    date: String,
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) version: Version,
    /// Whether the client asked for the head alone.
    pub(super) head_only: bool,
    pub(super) is_persistent: bool,
}

/// How much was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Part,
    All,
}

/// How the body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Nothing,
    /// As many bytes as the head says, or until the connection ends.
    Plain,
    Chunks,
}

impl Pen {
    pub(super) fn new() -> Self {
        let page = BytesMut::with_capacity(HEAD_BYTES_USUAL);
        Self { page, pieces: VecDeque::new(), second: u64::MAX, date: String::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.page.is_empty() && self.pieces.is_empty()
    }

    pub(super) fn add(&mut self, bytes: Bytes) {
        if self.pieces.is_empty() && bytes.len() <= COPIED_BYTES_MAX {
            self.page.put_slice(&bytes);
        } else if !bytes.is_empty() {
            self.pieces.push_back(bytes);
        }
    }

    /// Whether it pays to add more before sending.
    pub(super) fn has_room(&self) -> bool {
        let bytes: usize = self.pieces.iter().map(Bytes::len).sum();
        self.pieces.len() < PIECES_MAX && bytes < SENT_BYTES_USUAL
    }

    /// Adds a part of a body whose length nobody knows yet.
    pub(super) fn add_frame(&mut self, frame: Bytes, delivery: Delivery) {
        if delivery == Delivery::Plain {
            return self.add(frame);
        }
        if !frame.is_empty() {
            write!(self.page, "{:x}\r\n", frame.len()).expect("the page grows");
            self.add(frame);
            self.add(Bytes::from_static(b"\r\n"));
        }
    }

    /// Says that such a body has ended.
    pub(super) fn end_frames(&mut self, delivery: Delivery) {
        if delivery == Delivery::Chunks {
            self.page.put_slice(b"0\r\n\r\n");
        }
    }

    /// Sends what the socket takes of the page and the pieces.
    pub(super) fn poll_send(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Sent>> {
        let io = Pin::new(io);
        if self.is_empty() {
            return io.poll_flush(context).map(|flushed| flushed.map(|()| Sent::All));
        }
        let sent = if self.pieces.is_empty() {
            ready!(io.poll_write(context, &self.page))?
        } else {
            let mut slices = [IoSlice::new(&[]); PIECES_MAX + 1];
            let parts = std::iter::once(self.page.as_ref());
            let parts = parts.chain(self.pieces.iter().map(Bytes::as_ref));
            slices.iter_mut().zip(parts).for_each(|(slice, part)| *slice = IoSlice::new(part));
            let count = (self.pieces.len() + 1).min(slices.len());
            ready!(io.poll_write_vectored(context, &slices[..count]))?
        };
        if sent == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.forget(sent);
        Poll::Ready(Ok(Sent::Part))
    }

    fn forget(&mut self, sent: usize) {
        let of_page = sent.min(self.page.len());
        self.page.advance(of_page);
        let mut left = sent - of_page;
        while let Some(piece) = self.pieces.front_mut()
            && left > 0
        {
            let part = left.min(piece.len());
            piece.advance(part);
            left -= part;
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
    }

    /// Puts the head of the answer onto the page; `everywhere` is what stands in every answer.
    pub(super) fn head(
        &mut self,
        response: &Response<Body>,
        manner: Manner,
        everywhere: &[u8],
        clock: &Clock,
    ) -> Delivery {
        self.keep_date(clock);
        let page = &mut self.page;
        page.reserve(HEAD_BYTES_USUAL);
        put_status(page, response.status());
        page.put_slice(everywhere);
        page.put_slice(self.date.as_bytes());
        for (name, value) in response.headers() {
            put_line(page, name.as_str(), value.as_bytes());
        }
        let delivery = put_framing(page, response, manner);
        if !manner.is_persistent {
            page.put_slice(b"connection: close\r\n");
        }
        page.put_slice(b"\r\n");
        delivery
    }

    /// Gives back what a large answer took.
    pub(super) fn shrink(&mut self) {
        if self.page.capacity() > 16 * HEAD_BYTES_USUAL {
            self.page = BytesMut::with_capacity(HEAD_BYTES_USUAL);
        }
        if self.pieces.capacity() > 0 && self.pieces.is_empty() {
            self.pieces = VecDeque::new();
        }
    }

    fn keep_date(&mut self, clock: &Clock) {
        let second = clock.unix_ms().get() / 1000;
        if second == self.second {
            return;
        }
        let time = std::time::UNIX_EPOCH + Duration::from_secs(second);
        self.date.clear();
        self.second = second;
        write!(self.date, "date: {}\r\n", httpdate::HttpDate::from(time))
            .expect("writing to a string cannot fail");
    }
}

fn put_framing(page: &mut BytesMut, response: &Response<Body>, manner: Manner) -> Delivery {
    let status = response.status();
    if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        return Delivery::Nothing;
    }
    match (response.body().size_hint().exact(), manner.head_only) {
        (Some(0) | None, true) => Delivery::Nothing,
        (Some(length), head_only) => {
            write!(page, "content-length: {length}\r\n").expect("the page grows");
            if head_only || length == 0 { Delivery::Nothing } else { Delivery::Plain }
        }
        (None, false) if manner.version == Version::Http11 => {
            page.put_slice(b"transfer-encoding: chunked\r\n");
            Delivery::Chunks
        }
        (None, false) => Delivery::Plain,
    }
}

fn put_status(page: &mut BytesMut, status: StatusCode) {
    page.put_slice(b"HTTP/1.1 ");
    page.put_slice(status.as_str().as_bytes());
    page.put_slice(b" ");
    page.put_slice(status.canonical_reason().unwrap_or("?").as_bytes());
    page.put_slice(b"\r\n");
}

fn put_line(page: &mut BytesMut, name: &str, value: &[u8]) {
    page.put_slice(name.as_bytes());
    page.put_slice(b": ");
    page.put_slice(value);
    page.put_slice(b"\r\n");
}
