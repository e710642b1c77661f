//! One connection, from the handshake to its last answer.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::{Either, select};
use hyper::{
    rt::{Executor, Read, Write},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use rustls::ServerConfig;
use sys::Spawn;
use tokio::{net::TcpStream, sync::OwnedSemaphorePermit};
use tokio_rustls::TlsAcceptor;

use crate::{
    call::Peer,
    phase::Phase,
    service::{self, Service},
};

/// Requests that one HTTP/2 connection may have under way.
const STREAMS_MAX: u32 = 256;
/// The least that the HTTP/1 parser can work with.
const BUFFER_BYTES_MIN: usize = 8192;

/// A connection that was let in.
#[derive(Debug)]
pub(crate) struct Connection {
    service: Arc<Service>,
    peer: SocketAddr,
    _permit: OwnedSemaphorePermit,
}

/// What ended the wait for a connection's first request.
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
        let Some(tls) = tls else { return self.drive(TokioIo::new(socket), "http").await };
        let patience = self.service.settings.limits.header_timeout;
        let handshake = TlsAcceptor::from(tls).accept(socket);
        match self.service.sys.clock.timeout(patience, handshake).await {
            Ok(Ok(socket)) => self.drive(TokioIo::new(socket), "https").await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn drive<I>(&self, io: I, scheme: &'static str)
    where
        I: Read + Write + Unpin + Send + 'static,
    {
        let peer = Peer { ip: self.peer.ip(), scheme };
        let asked = AtomicBool::new(false);
        let http = self.protocol();
        let answers = service_fn(|request| {
            asked.store(true, Ordering::Relaxed);
            let service = self.service.clone();
            async move { Ok::<_, Infallible>(service::answer(&service, peer, request).await) }
        });
        let mut connection = pin!(http.serve_connection(io, answers));
        let started = pin!(self.started(&asked));
        match select(connection.as_mut(), started).await {
            Either::Left(_) | Either::Right((Start::Silent, _)) => return,
            Either::Right((Start::Draining, _)) => connection.as_mut().graceful_shutdown(),
        }
        select(connection, pin!(self.service.phases.reached(Phase::Closed))).await;
    }

    /// The parsers have a timeout for the headers once they know which protocol is spoken; until
    /// then a connection could be held open without a word.
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

    fn protocol(&self) -> auto::Builder<Tasks> {
        let limits = &self.service.settings.limits;
        let mut http = auto::Builder::new(Tasks(self.service.sys.spawn.clone()));
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size((limits.header_bytes_max as usize).max(BUFFER_BYTES_MIN));
        http.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.header_timeout)
            .keep_alive_timeout(limits.header_timeout)
            .max_header_list_size(limits.header_bytes_max)
            .max_concurrent_streams(STREAMS_MAX);
        http
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
