//! The listener: who gets in, and how everybody gets out.

use std::{future::Future, io, net::SocketAddr, pin::pin, sync::Arc};

use futures_util::future::{Either, select};
use rustls::ServerConfig;
use sys::Crew;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
};

use crate::{
    Neighbour,
    caps::{REFUSED_PAUSE, TURNED_AWAY_MAX, TURNED_AWAY_PATIENCE},
    connection::Connection,
    phase::Phase,
    service::Service,
    shares::{Account, ClientKey, Resource, Share},
};

/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: u32 = 4096;
/// What a connection too many hears.
const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
    content-length: 0\r\nconnection: close\r\n\r\n";

/// A socket that takes connections.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: Arc<Service>,
    /// Who serves connections; the current runtime if nobody else does.
    crew: Option<Crew>,
    /// A permit per connection.
    connections: Arc<Semaphore>,
    connections_max: u32,
    /// A permit per connection too many.
    turned_away: Arc<Semaphore>,
}

pub(crate) fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Listener {
    pub(crate) fn new(
        socket: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        crew: Option<Crew>,
        service: Arc<Service>,
    ) -> Self {
        let connections_max = service.settings.limits.connections_max;
        let connections_max = u32::try_from(connections_max).unwrap_or(u32::MAX);
        let connections = Arc::new(Semaphore::new(connections_max as usize));
        let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
        Self { socket, tls, service, crew, connections, connections_max, turned_away }
    }

    /// Who answers what the service does not.
    pub(crate) fn house(&self, neighbour: Arc<dyn Neighbour>) {
        let _ = self.service.neighbour.set(neighbour);
    }

    /// Takes connections until `shutdown`.
    pub(crate) async fn accept(&self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        loop {
            match select(pin!(self.socket.accept()), shutdown.as_mut()).await {
                Either::Left((Ok((socket, peer)), _)) => self.admit(socket, peer),
                Either::Left((Err(error), _)) => {
                    tracing::warn!(%error, "the system refused a connection");
                    self.service.sys.clock.sleep(REFUSED_PAUSE).await;
                }
                Either::Right(_) => return,
            }
        }
    }

    /// Takes no more connections, and waits until the last one is done or cut off.
    pub(crate) async fn drain(self) {
        // The crew goes last: it has the connections.
        let Self { socket, service, connections, connections_max: all, crew: _crew, .. } = self;
        drop(socket);
        service.phases.enter(Phase::Draining);
        let patience = service.settings.drain_timeout;
        let gone = connections.acquire_many(all);
        if service.sys.clock.timeout(patience, gone).await.is_err() {
            let left = all as usize - connections.available_permits();
            tracing::warn!(left, "connections are cut off");
        }
        service.phases.enter(Phase::Closed);
        // Cutting off needs no more than a poll of each task.
        let gone = connections.acquire_many(all);
        let _ = service.sys.clock.timeout(TURNED_AWAY_PATIENCE, gone).await;
    }

    fn admit(&self, socket: TcpStream, peer: SocketAddr) {
        let account = self.service.shares.account(ClientKey::ip(peer.ip()));
        let permit = self.connections.clone().try_acquire_owned().ok();
        let (Some(share), Some(permit)) = (self.share(&account), permit) else {
            self.service.metrics.shed();
            return self.turn_away(socket);
        };
        let connection = Connection::new(self.service.clone(), account, (share, permit));
        let tls = self.tls.clone();
        match &self.crew {
            Some(crew) => {
                // A socket is served by the thread it was made known to.
                let Ok(socket) = socket.into_std() else { return };
                crew.task(async move {
                    match TcpStream::from_std(socket) {
                        Ok(socket) => connection.serve(socket, tls).await,
                        Err(error) => tracing::debug!(%error, "a connection was lost at once"),
                    }
                });
            }
            None => {
                self.service.sys.spawn.task("connection", connection.serve(socket, tls));
            }
        }
    }

    /// One more connection of this address. That of a proxy has those of many.
    fn share(&self, account: &Arc<Account>) -> Option<Share> {
        match self.service.settings.trust_proxy {
            true => account.take_for_many(Resource::Connections, 1),
            false => account.take(Resource::Connections, 1),
        }
    }

    fn turn_away(&self, mut socket: TcpStream) {
        let Ok(permit) = self.turned_away.clone().try_acquire_owned() else { return };
        if self.tls.is_some() {
            return;
        }
        let clock = self.service.sys.clock.clone();
        self.service.sys.spawn.task("turn away", async move {
            let _permit = permit;
            let telling = async {
                socket.write_all(TURNED_AWAY).await?;
                socket.shutdown().await?;
                // Closing a socket with unread bytes would take the answer back.
                let mut unread = [0; 1024];
                while socket.readable().await.is_ok() {
                    match socket.try_read(&mut unread) {
                        Ok(0) => break,
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => break,
                        Ok(_) | Err(_) => {}
                    }
                }
                io::Result::Ok(())
            };
            let _ = clock.timeout(TURNED_AWAY_PATIENCE, telling).await;
        });
    }
}
