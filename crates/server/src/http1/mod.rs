//! HTTP/1.1: a conversation of requests and answers over one connection.
//!
//! Written for this server because it is what most requests pay for (ADR 6); HTTP/2 is hyper's.
//! `head` and `chunked` read what the client sends, and refuse what could be read in two ways;
//! `link` holds the socket and hands out bodies; `pen` writes heads of answers; `patience` bounds
//! every wait.

mod chunked;
#[cfg(fuzzing)]
mod fuzzing;
mod head;
mod link;
mod patience;
mod pen;

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{
    StreamExt as _,
    future::{Either, select},
};
use http::{Method, Response};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

#[cfg(fuzzing)]
pub(crate) use self::fuzzing::read_all;
pub(crate) use self::link::Source;
use self::{
    head::{HTTP2_PREFACE, Head, Version},
    link::Link,
    patience::Patience,
    pen::{Delivery, Manner, Pen, Sent},
};
use crate::{
    call::Peer,
    caps::HEAD_BYTES_FREE,
    phase::Phase,
    problem::{Kind, Problem},
    request::Incoming,
    response::{Body, Frames, Matter},
    service::{self, Service},
    shares::Resource,
};

/// How long a client that was refused in mid-sentence is listened to, so that it hears why.
const LINGER: Duration = Duration::from_secs(2);

/// One side of a conversation, ours.
pub(crate) struct Conversation<I> {
    service: Arc<Service>,
    peer: Peer,
    link: Mutex<Link<I>>,
    pen: Pen,
    patience: Patience,
    /// Resolves when the server wants to end; none once it has.
    draining: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// How a conversation ended.
#[derive(Debug)]
pub(crate) enum Ending<I> {
    Over,
    /// The client speaks HTTP/2; what it said so far.
    Http2(I, BytesMut),
}

/// What a wait for a request came to.
enum Heard {
    Request(Box<Head>),
    Refused(Problem),
    Http2,
    /// The client is gone or said nothing, or the server ends.
    Nothing,
}

/// What a wait for bytes came to.
enum More {
    Bytes,
    Gone,
    TooLate,
    Draining,
}

/// What comes after an answer.
#[derive(PartialEq, Eq)]
enum Next {
    Request,
    /// The connection ends, and nothing more is expected from the client.
    End,
    /// The connection ends while the client may still be talking.
    Linger,
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send> Conversation<I> {
    pub(crate) fn new(service: Arc<Service>, peer: Peer, io: I) -> Self {
        let patience = Patience::new(service.sys.clock.clone());
        let phases = service.clone();
        let draining = Box::pin(async move { phases.phases.reached(Phase::Draining).await });
        Self {
            service,
            peer,
            link: Mutex::new(Link::new(io)),
            pen: Pen::new(),
            patience,
            draining: Some(draining),
        }
    }

    /// Answers one request after the other.
    pub(crate) async fn hold(mut self) -> Ending<I> {
        let mut is_first = true;
        loop {
            let next = match self.hear().await {
                Heard::Request(head) => self.reply(*head).await,
                Heard::Refused(problem) => self.refuse(problem).await,
                Heard::Http2 if is_first => {
                    let link = self.link.into_inner();
                    return Ending::Http2(link.io, link.unread);
                }
                Heard::Http2 => self.refuse(Problem::bad_request("HTTP/2 comes too late")).await,
                Heard::Nothing => Ok(Next::End),
            };
            match next {
                Ok(Next::Request) => is_first = false,
                Ok(Next::Linger) => return self.linger().await,
                Ok(Next::End) if !self.link.get_mut().unread.is_empty() => {
                    return self.linger().await;
                }
                Ok(Next::End) => {
                    // Who is gone need not be told.
                    let clock = self.service.sys.clock.clone();
                    let _ = clock.timeout(LINGER, self.link.get_mut().io.shutdown()).await;
                    return Ending::Over;
                }
                Err(_) => return Ending::Over,
            }
        }
    }

    /// Waits for the next request.
    async fn hear(&mut self) -> Heard {
        let limits = &self.service.settings.limits;
        let bytes_max = limits.header_bytes_max as usize;
        self.patience.begin(limits.header_timeout);
        let (mut searched, mut has_begun) = (0, false);
        let mut share = self.peer.account.share(Resource::Incoming);
        let mut counted = HEAD_BYTES_FREE;
        loop {
            let unread = &mut self.link.get_mut().unread;
            while unread.starts_with(b"\r\n") {
                unread.advance(2);
                searched = 0;
            }
            match head::end(unread, searched) {
                Ok(Some(len)) if len <= bytes_max => return Self::understand(unread, len),
                Ok(None) if unread.len() <= bytes_max => searched = unread.len(),
                Ok(_) => return Heard::Refused(headers_too_large(bytes_max)),
                Err(problem) => return Heard::Refused(problem),
            }
            // What a head takes is what was reserved for it, not only what came.
            if unread.capacity() > counted {
                if !share.grow(unread.capacity() - counted) {
                    let problem = self.service.shed("too many bytes of yours are in flight");
                    return Heard::Refused(problem);
                }
                counted = unread.capacity();
            }
            let is_silent = unread.is_empty();
            match self.more().await {
                // A head gets the whole time, however long the silence before it was.
                More::Bytes if is_silent && !has_begun => {
                    has_begun = true;
                    self.patience.begin(self.service.settings.limits.header_timeout);
                }
                More::Bytes => {}
                More::Draining if !is_silent => {}
                More::TooLate if !is_silent => {
                    let detail = "the headers did not arrive in time; send them faster";
                    return Heard::Refused(Problem::new(Kind::RequestTimeout, detail));
                }
                More::Gone | More::Draining | More::TooLate => return Heard::Nothing,
            }
        }
    }

    fn understand(unread: &mut BytesMut, len: usize) -> Heard {
        if unread.starts_with(HTTP2_PREFACE) {
            return Heard::Http2;
        }
        let bytes = Bytes::copy_from_slice(&unread[..len]);
        unread.advance(len);
        match head::parse(&bytes) {
            Ok(head) => Heard::Request(Box::new(head)),
            Err(problem) => Heard::Refused(problem),
        }
    }

    async fn more(&mut self) -> More {
        let Self { link, patience, draining, .. } = self;
        let link = link.get_mut();
        poll_fn(|context| {
            match link.poll_more(context) {
                Poll::Ready(Ok(1..)) => return Poll::Ready(More::Bytes),
                Poll::Ready(_) => return Poll::Ready(More::Gone),
                Poll::Pending => {}
            }
            if let Some(wait) = draining
                && wait.as_mut().poll(context).is_ready()
            {
                *draining = None;
                return Poll::Ready(More::Draining);
            }
            patience.poll_over(context).map(|()| More::TooLate)
        })
        .await
    }

    /// Answers a request, unless the client leaves before the answer is known.
    async fn reply(&mut self, head: Head) -> io::Result<Next> {
        self.link.get_mut().begin_body(&head);
        let response = {
            let body = Incoming::Http1(&self.link);
            let answer = service::answer(&self.service, &self.peer, &head.parts, body);
            let at_its_end = head.waits();
            let gone = poll_fn(|context| self.link.lock().poll_gone(context, at_its_end));
            match select(pin!(answer), gone).await {
                Either::Left((response, _)) => response,
                Either::Right(_) => return Ok(Next::End),
            }
        };
        let is_heard_out = self.link.get_mut().skip_body();
        let is_draining = self.service.phases.now() != Phase::Serving;
        let manner = Manner {
            version: head.version,
            head_only: head.parts.method == Method::HEAD,
            is_persistent: head.is_persistent && is_heard_out && !is_draining,
        };
        let went_well = self.send(response, manner).await?;
        Ok(match (is_heard_out, manner.is_persistent && went_well) {
            (true, true) => Next::Request,
            (true, false) => Next::End,
            (false, _) => Next::Linger,
        })
    }

    /// Says why the bytes were no request; what follows them cannot be understood either.
    async fn refuse(&mut self, problem: Problem) -> io::Result<Next> {
        // What it holds was counted until here.
        self.link.get_mut().unread = BytesMut::new();
        let response = service::refusal(&self.service, problem);
        let manner = Manner { version: Version::Http11, head_only: false, is_persistent: false };
        self.send(response, manner).await?;
        Ok(Next::Linger)
    }

    /// False if the client left before the end of the answer.
    async fn send(&mut self, response: Response<Body>, manner: Manner) -> io::Result<bool> {
        let everywhere = self.service.cors.block(response.body().audience);
        let delivery = self.pen.head(&response, manner, everywhere, &self.service.sys.clock);
        // Its load is given back when all of it is sent.
        let Body { matter, load: _load, .. } = response.into_body();
        let went_well = match (delivery, matter) {
            (Delivery::Nothing, _) | (_, Matter::Empty) => self.put().await.map(|()| true),
            (_, Matter::Full(bytes)) => {
                self.pen.add(bytes);
                self.put().await.map(|()| true)
            }
            (_, Matter::Pieces(pieces)) => self.send_pieces(*pieces).await.map(|()| true),
            (_, Matter::Frames(frames)) => self.send_frames(frames, delivery).await,
        };
        self.pen.shrink();
        self.link.get_mut().shrink();
        went_well
    }

    async fn send_pieces(&mut self, mut pieces: impl Iterator<Item = Bytes>) -> io::Result<()> {
        loop {
            while self.pen.has_room()
                && let Some(piece) = pieces.next()
            {
                self.pen.add(piece);
            }
            if self.pen.is_empty() {
                return Ok(());
            }
            self.put().await?;
        }
    }

    /// Sends each frame when it is made, until the last one or until the client leaves.
    async fn send_frames(&mut self, mut frames: Frames, delivery: Delivery) -> io::Result<bool> {
        self.put().await?;
        loop {
            let link = self.link.get_mut();
            let gone = poll_fn(|context| link.poll_gone(context, true));
            match select(frames.next(), gone).await {
                Either::Left((Some(frame), _)) => self.pen.add_frame(frame, delivery),
                Either::Left((None, _)) => break,
                Either::Right(_) => return Ok(false),
            }
            self.put().await?;
        }
        self.pen.end_frames(delivery);
        self.put().await.map(|()| true)
    }

    /// Sends what the pen has written.
    async fn put(&mut self) -> io::Result<()> {
        let Self { link, pen, patience, service, .. } = self;
        let io = &mut link.get_mut().io;
        let mut is_waiting = false;
        let sent = poll_fn(|context| {
            loop {
                match pen.poll_send(io, context) {
                    Poll::Ready(Ok(Sent::All)) => return Poll::Ready(Ok(())),
                    Poll::Ready(Ok(Sent::Part)) => is_waiting = false,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => break,
                }
            }
            // A reader that takes nothing for this long never will.
            if !std::mem::replace(&mut is_waiting, true) {
                patience.begin(service.settings.limits.body_timeout);
            }
            patience.poll_over(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
        });
        sent.await
    }

    /// Lets the client finish, or the answer might be lost with the connection.
    async fn linger(self) -> Ending<I> {
        let Self { service, mut link, .. } = self;
        let link = link.get_mut();
        let heard_out = async {
            let _ = link.io.shutdown().await;
            poll_fn(|context| {
                while let Ok(1..) = ready!(link.poll_more(context)) {
                    link.unread.clear();
                }
                Poll::Ready(())
            })
            .await;
        };
        let _ = service.sys.clock.timeout(LINGER, heard_out).await;
        Ending::Over
    }
}

fn headers_too_large(bytes_max: usize) -> Problem {
    let detail = format!("the headers must have at most {bytes_max} bytes together; send less");
    Problem::new(Kind::HeadersTooLarge, detail)
}
