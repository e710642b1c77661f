//! One connection, from the handshake to its last answer.

use std::{
    convert::Infallible,
    io::Cursor,
    net::SocketAddr,
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
    sync::OwnedSemaphorePermit,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    call::Peer,
    http1::{Conversation, Ending},
    phase::Phase,
    request::Incoming,
    service::{self, Service},
};

/// Requests that one HTTP/2 connection may have under way.
const STREAMS_MAX: u32 = 100;
/// Bytes of one answer that wait for an HTTP/2 client to take them.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// A connection that was let in.
#[derive(Debug)]
pub(crate) struct Connection {
    service: Arc<Service>,
    peer: SocketAddr,
    _permit: OwnedSemaphorePermit,
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
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        service.metrics.connection_came();
        Self { service, peer, _permit: permit }
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
        let peer = self.peer(scheme);
        let asked = AtomicBool::new(false);
        let answers = service_fn(|request: http::Request<hyper::body::Incoming>| {
            asked.store(true, Ordering::Relaxed);
            let service = self.service.clone();
            async move {
                let (head, body) = request.into_parts();
                let mut response =
                    service::answer(&service, peer, &head, Incoming::Http2(body)).await;
                let everywhere = service.cors.headers(response.body().audience).clone();
                response.headers_mut().extend(everywhere);
                Ok::<_, Infallible>(response)
            }
        });
        let (reading, writing) = tokio::io::split(io);
        let io = tokio::io::join(Cursor::new(said).chain(reading), writing);
        let mut connection = pin!(self.protocol().serve_connection(TokioIo::new(io), answers));
        let started = pin!(self.started(&asked));
        match select(connection.as_mut(), started).await {
            Either::Left(_) | Either::Right((Start::Silent, _)) => return,
            Either::Right((Start::Draining, _)) => connection.as_mut().graceful_shutdown(),
        }
        select(connection, pin!(self.service.phases.reached(Phase::Closed))).await;
    }

    fn peer(&self, scheme: &'static str) -> Peer {
        Peer { ip: self.peer.ip(), scheme }
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
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .max_header_list_size(limits.header_bytes_max)
            .max_concurrent_streams(STREAMS_MAX);
        http2
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.service.metrics.connection_left();
    }
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
