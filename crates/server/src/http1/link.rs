//! Links: a connection's socket, and what came in but was not read yet.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use super::{
    chunked::Chunked,
    head::{Framing, Head},
};

/// Room for each read, and what an idle connection keeps.
const READ_BYTES: usize = 4 * 1024;
/// Bytes that are read ahead of the request under way.
const AHEAD_BYTES_MAX: usize = 16 * 1024;

/// A socket, what came in, and the body under way.
#[derive(Debug)]
pub(crate) struct Link<I> {
    pub(super) io: I,
    pub(super) unread: BytesMut,
    rest: Rest,
    /// Whether the client will send nothing more.
    has_ended: bool,
    /// What the client waits to hear before it sends the body.
    word: &'static [u8],
}

/// What is still to come of a body.
#[derive(Debug)]
enum Rest {
    Nothing,
    Length(u64),
    Chunks(Chunked),
}

/// Where a handler gets the body of its request.
pub(crate) trait Source: Send {
    /// Bytes that are certain to come, if no more is known.
    fn announced(&self) -> u64;

    fn is_done(&self) -> bool;

    /// Adds what is there of the body to `into`, or waits for more of it.
    fn poll_body(&mut self, context: &mut Context<'_>, into: &mut BytesMut)
    -> Poll<io::Result<()>>;
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send> Link<I> {
    pub(super) fn new(io: I) -> Self {
        let unread = BytesMut::with_capacity(READ_BYTES);
        Self { io, unread, rest: Rest::Nothing, has_ended: false, word: b"" }
    }

    /// Reads more of what the client sends; zero at the end.
    pub(super) fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.unread.capacity() - self.unread.len() < READ_BYTES / 4 {
            self.unread.reserve(READ_BYTES);
        }
        poll_read(&mut self.io, &mut self.unread, context)
    }

    /// The body of this request comes next.
    pub(super) fn begin_body(&mut self, head: &Head) {
        self.rest = match head.framing {
            Framing::Length(0) => Rest::Nothing,
            Framing::Length(length) => Rest::Length(length),
            Framing::Chunked => Rest::Chunks(Chunked::new()),
        };
        self.word = if head.expects_continue { b"HTTP/1.1 100 Continue\r\n\r\n" } else { b"" };
    }

    /// Passes over what is at hand of a body that nobody read. False if more of it is to come.
    pub(super) fn skip_body(&mut self) -> bool {
        let mut nowhere = BytesMut::new();
        while !self.is_done() && !self.unread.is_empty() && self.take(&mut nowhere).is_ok() {
            nowhere.clear();
        }
        self.is_done()
    }

    /// Ready when the client has gone, as far as can be seen while its body is not under way. One
    /// that has said all it has to say may still listen: it counts as gone only `at_its_end`.
    pub(super) fn poll_gone(&mut self, context: &mut Context<'_>, at_its_end: bool) -> Poll<()> {
        while self.is_done() && !self.has_ended && self.unread.len() < AHEAD_BYTES_MAX {
            match ready!(self.poll_more(context)) {
                Ok(1..) => {}
                Ok(0) => self.has_ended = true,
                Err(_) => return Poll::Ready(()),
            }
        }
        if self.has_ended && at_its_end { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Gives back what a large request took.
    pub(super) fn shrink(&mut self) {
        if self.unread.is_empty() && self.unread.capacity() > AHEAD_BYTES_MAX {
            self.unread = BytesMut::with_capacity(READ_BYTES);
        }
    }

    /// Moves what is at hand of the body.
    fn take(&mut self, into: &mut BytesMut) -> io::Result<()> {
        match &mut self.rest {
            Rest::Nothing => {}
            Rest::Length(left) => {
                let there = usize::try_from(*left).unwrap_or(usize::MAX).min(self.unread.len());
                into.put_slice(&self.unread[..there]);
                self.unread.advance(there);
                *left -= there as u64;
            }
            Rest::Chunks(chunked) => {
                let part = chunked.next_part(&self.unread).map_err(io::Error::other)?;
                self.unread.advance(part.framing);
                into.put_slice(&self.unread[..part.data]);
                self.unread.advance(part.data);
            }
        }
        Ok(())
    }

    fn poll_word(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.word.is_empty() {
            let sent = ready!(Pin::new(&mut self.io).poll_write(context, self.word))?;
            self.word = &self.word[sent..];
        }
        Pin::new(&mut self.io).poll_flush(context)
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send> Source for Link<I> {
    fn announced(&self) -> u64 {
        if let Rest::Length(left) = self.rest { left } else { 0 }
    }

    fn is_done(&self) -> bool {
        match &self.rest {
            Rest::Nothing => true,
            Rest::Length(left) => *left == 0,
            Rest::Chunks(chunked) => chunked.is_done(),
        }
    }

    fn poll_body(
        &mut self,
        context: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<io::Result<()>> {
        let before = into.len();
        loop {
            self.take(into)?;
            if into.len() > before || self.is_done() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_word(context))?;
            let read = match &mut self.rest {
                // Straight to where it belongs: a large body is not copied on the way.
                Rest::Length(left) => {
                    let room = usize::try_from(*left).unwrap_or(usize::MAX);
                    let read = poll_read(&mut self.io, &mut into.limit(room), context);
                    let read = ready!(read)?;
                    *left -= read as u64;
                    read
                }
                Rest::Nothing | Rest::Chunks(_) => ready!(self.poll_more(context))?,
            };
            if read == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

fn poll_read(
    io: &mut (impl AsyncRead + Unpin),
    into: &mut impl BufMut,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    // The future keeps nothing between polls, so each poll may have one of its own.
    pin!(io.read_buf(into)).poll(context)
}
