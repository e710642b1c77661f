//! Pens: write the head of an answer.

use std::{fmt::Write as _, time::Duration};

use bytes::{BufMut as _, BytesMut};
use http::{Response, StatusCode};
use http_body::Body as _;
use sys::Clock;

use super::head::Version;
use crate::response::Body;

/// Room for a usual head, and what an idle connection keeps.
const HEAD_BYTES_USUAL: usize = 1024;

/// Writes into a buffer that lasts as long as the connection.
#[derive(Debug)]
pub(super) struct Pen {
    pub(super) page: BytesMut,
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
        Self { page, second: u64::MAX, date: String::new() }
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

    /// Puts the size of a chunk onto the page.
    pub(super) fn chunk_size(&mut self, bytes: usize) {
        write!(self.page, "{bytes:x}\r\n").expect("the page grows");
    }

    /// Gives back what a large answer took.
    pub(super) fn shrink(&mut self) {
        if self.page.capacity() > 16 * HEAD_BYTES_USUAL {
            self.page = BytesMut::with_capacity(HEAD_BYTES_USUAL);
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
