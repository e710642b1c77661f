//! One connection, from the handshake to its last answer.

use std::{
    convert::Infallible,
    io::Cursor,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::BytesMut;
use futures_util::future::{Either, select};
use hyper::{rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use sys::Spawn;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    net::TcpStream,
    sync::{Notify, OwnedSemaphorePermit},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    call::Peer,
    caps::{HTTP2_SEND_BUFFER_BYTES, HTTP2_STREAMS_MAX, STALL_CHECKS},
    flow::Flows,
    http1::{Conversation, Ending},
    phase::Phase,
    request::Incoming,
    service::{self, Service},
    shares::{Account, Share},
};

/// A connection that was let in.
#[derive(Debug)]
pub(crate) struct Connection {
    service: Arc<Service>,
    /// That of its address.
    account: Arc<Account>,
    _permits: (Share, OwnedSemaphorePermit),
}

/// What ended the wait for an HTTP/2 connection's first request.
enum Start {
    /// It never came.
    Silent,
    /// The server wants to end, whatever came.
    Draining,
}

impl Connection {
    pub(crate) fn new(
        service: Arc<Service>,
        account: Arc<Account>,
        permits: (Share, OwnedSemaphorePermit),
    ) -> Self {
        service.metrics.connection_came();
        Self { service, account, _permits: permits }
    }

    pub(crate) async fn serve(self, socket: TcpStream, tls: Option<Arc<ServerConfig>>) {
        // Small answers must not wait for the acknowledgement of earlier ones.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection was lost at once");
            return;
        }
        let Some(tls) = tls else { return self.converse(socket, "http").await };
        let patience = self.service.settings.limits.header_timeout;
        let handshake = TlsAcceptor::from(tls).accept(socket);
        match self.service.sys.clock.timeout(patience, handshake).await {
            Ok(Ok(socket)) => Box::pin(self.serve_encrypted(socket)).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn serve_encrypted(&self, socket: TlsStream<TcpStream>) {
        match socket.get_ref().1.alpn_protocol() {
            Some(b"h2") => self.multiplex(socket, BytesMut::new(), "https").await,
            _ => self.converse(socket, "https").await,
        }
    }

    /// Speaks HTTP/1, unless the client begins with HTTP/2.
    async fn converse<I>(&self, io: I, scheme: &'static str)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let conversation = Conversation::new(self.service.clone(), self.peer(scheme), io);
        let closed = self.service.phases.reached(Phase::Closed);
        match select(pin!(conversation.hold()), pin!(closed)).await {
            Either::Left((Ending::Http2(io, said), _)) => {
                Box::pin(self.multiplex(io, said, scheme)).await;
            }
            Either::Left((Ending::Over, _)) | Either::Right(_) => {}
        }
    }

    /// Speaks HTTP/2; `said` is what the client said so far.
    async fn multiplex<I>(&self, io: I, said: BytesMut, scheme: &'static str)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let asked = AtomicBool::new(false);
        let sending = Arc::new(Sending::default());
        let answers = service_fn(|request: http::Request<hyper::body::Incoming>| {
            asked.store(true, Ordering::Relaxed);
            let (service, peer) = (self.service.clone(), self.peer(scheme));
            let sending = sending.clone();
            async move {
                let (head, body) = request.into_parts();
                let mut response =
                    service::answer(&service, &peer, &head, Incoming::Http2(body)).await;
                response.body_mut().flow = Some(sending.flows.begin(&service.sys.clock));
                if response.body().load.is_none() {
                    sending.overrun.notify_one();
                }
                let everywhere = service.cors.headers(response.body().audience).clone();
                response.headers_mut().extend(everywhere);
                Ok::<_, Infallible>(response)
            }
        });
        let (reading, writing) = tokio::io::split(io);
        let io = tokio::io::join(Cursor::new(said).chain(reading), writing);
        let mut connection = pin!(self.protocol().serve_connection(TokioIo::new(io), answers));
        let started = pin!(self.started(&asked));
        let given_up = pin!(self.given_up(&sending));
        let started = select(started, given_up);
        let ended = select(connection.as_mut(), started).await;
        let Either::Right((Either::Left((Start::Draining, given_up)), _)) = ended else { return };
        connection.as_mut().graceful_shutdown();
        let closed = pin!(self.service.phases.reached(Phase::Closed));
        select(connection, select(closed, given_up)).await;
    }

    /// Resolves when a client of HTTP/2 takes nothing of an answer for as long as one of HTTP/1
    /// may, or has asked for more at a time than it may.
    async fn given_up(&self, sending: &Sending) {
        let patience = self.service.settings.limits.body_timeout;
        let clock = &self.service.sys.clock;
        let stalled = async {
            while sending.flows.longest_stall(clock.elapsed()) < patience {
                clock.sleep(patience / STALL_CHECKS).await;
            }
        };
        match select(pin!(stalled), pin!(sending.overrun.notified())).await {
            Either::Left(_) => tracing::debug!("a client of HTTP/2 takes nothing"),
            Either::Right(_) => tracing::debug!("a client of HTTP/2 asks for too much"),
        }
        self.service.metrics.shed();
    }

    fn peer(&self, scheme: &'static str) -> Peer {
        Peer { account: self.account.clone(), scheme }
    }

    /// A connection must not be held open without a request.
    async fn started(&self, asked: &AtomicBool) -> Start {
        let patience = self.service.sys.clock.sleep(self.service.settings.limits.header_timeout);
        let draining = pin!(self.service.phases.reached(Phase::Draining));
        match select(draining, pin!(patience)).await {
            Either::Left(_) => Start::Draining,
            Either::Right(_) if !asked.load(Ordering::Relaxed) => Start::Silent,
            Either::Right((_, draining)) => {
                draining.await;
                Start::Draining
            }
        }
    }

    fn protocol(&self) -> http2::Builder<Tasks> {
        let limits = &self.service.settings.limits;
        let mut http2 = http2::Builder::new(Tasks(self.service.sys.spawn.clone()));
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.header_timeout)
            .keep_alive_timeout(limits.header_timeout)
            .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES)
            .max_header_list_size(limits.header_bytes_max)
            .max_concurrent_streams(HTTP2_STREAMS_MAX);
        http2
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.service.metrics.connection_left();
    }
}

/// What an HTTP/2 connection has on its way.
#[derive(Debug, Default)]
struct Sending {
    flows: Flows,
    /// Told when an answer could not be counted any more.
    overrun: Notify,
}

/// Starts the tasks of HTTP/2 connections.
#[derive(Clone, Debug)]
struct Tasks(Spawn);

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.task("http2", future);
    }
}
